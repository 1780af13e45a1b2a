"""What stands in front of every route: the rules of :mod:`.origin_rules`, and headers for browsers."""

from __future__ import annotations

from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.web.origin_rules import OriginRules
from headrace.web.refusals import refusal_of

_PAGE_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
}
"""A page runs no code, has the style of a file of ours, and stands in no frame, unless it says itself what it
may do."""


class OriginGate:
    """An application that answers those requests that the rules let pass."""

    def __init__(self, application: ASGIApp, rules: OriginRules) -> None:
        self._application = application
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if headers.get("content-type", "").startswith("text/html"):
                    for name, value in _PAGE_HEADERS.items():
                        headers.setdefault(name, value)
            await send(message)

        error = self._rules.find_refusal(scope["method"], scope["path"], scope["headers"])
        application = self._application if error is None else refusal_of(error)
        await application(scope, receive, answer)

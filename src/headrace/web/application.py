"""An application of handlers: routes behind the rules of their verbs, and what stands in front of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace.security.access import Gatekeeper
from headrace.web.admission import admitting
from headrace.web.bodies import DropUnreadBodies
from headrace.web.origin_gate import OriginGate
from headrace.web.origin_rules import OriginRules
from headrace.web.refusals import Handler, guarded, refusing_routes
from headrace.web.rules import Rules

Handlers = Mapping[str, Handler]
"""By verb. A HEAD is a GET."""


def make_routes(
    table: Mapping[str, Handlers], rules: Rules, gatekeeper: Gatekeeper | None = None
) -> list[Route]:
    """Return the routes of a table by path; a trailing slash is accepted everywhere.

    With a ``gatekeeper`` callers need what the rules say; what has no rule is denied to all of them.
    """
    return [
        Route(path + tail, guarded(_by_verb(path, handlers, rules, gatekeeper)), methods=list(handlers))
        for path, handlers in table.items()
        for tail in ("", "/")
    ]


def make_application(routes: Iterable[BaseRoute], hosts: Iterable[str], where_paths_are_told: str) -> ASGIApp:
    """Return the application with these routes, for requests that could not be those of a foreign web page.

    ``hosts``: names under which it answers, beside addresses and localhost. ``where_paths_are_told``: the end
    of the sentence for whoever asks for a path that does not exist.
    """
    exceptions = {HTTPException: refusing_routes(where_paths_are_told)}
    routed = Starlette(routes=list(routes), exception_handlers=exceptions)
    return DropUnreadBodies(OriginGate(routed, OriginRules(hosts)))


def _by_verb(path: str, handlers: Handlers, rules: Rules, gatekeeper: Gatekeeper | None) -> Handler:
    """Return the handler of a path, behind the rules of its verbs."""
    admitted = {verb: admitting(gatekeeper, rules, verb, path, handler) for verb, handler in handlers.items()}

    async def handle(request: Request) -> Response:
        return await admitted["GET" if request.method == "HEAD" else request.method](request)

    return handle

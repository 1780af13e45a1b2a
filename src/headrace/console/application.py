"""The console as an application: its addresses, who may see which, and what it answers instead."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.console.changes import Changes
from headrace.console.events_page import EventsPages
from headrace.console.frame import Frame
from headrace.console.signing_in import SIGN_IN_PATH, SigningIn
from headrace.console.state_pages import StatePages
from headrace.console.stream_page import StreamPages
from headrace.console.streams_page import StreamsPages
from headrace.controller.rest.rules import RULES
from headrace.controller.server import Controller
from headrace.errors import HeadraceError, UnauthenticatedError
from headrace.runtime.logs import logger
from headrace.security.access import Gatekeeper
from headrace.web.asked_stores import AskedStores
from headrace.web.origin_rules import CONSOLE_PATH
from headrace.web.refusals import Handler, status_of
from headrace.web.rules import Rule

_SEE_OTHER, _NOT_FOUND, _FAILURE = 303, 404, 500
_STREAM: Final = "/v1/scopes/{scope}/streams/{stream}"
_GROUP: Final = "/v1/scopes/{scope}/readergroups/{group}"
_A_STREAM: Final = "/streams/{scope}/{stream}"

_log = logger(__name__)


def console_application(
    controller: Controller, stores: AskedStores | None, gatekeeper: Gatekeeper | None, *, encrypted: bool
) -> ASGIApp:
    """Return the application below ``CONSOLE_PATH``; see :class:`.entrance.ConsoleEntrance`."""
    frame = Frame()
    signing = SigningIn(frame, gatekeeper, controller.context.entropy, encrypted=encrypted)
    streams, stream = StreamsPages(controller, stores, frame), StreamPages(controller, frame)
    events, state = EventsPages(controller, frame), StatePages(controller, stores, frame)
    changes = Changes(controller)
    door = _Door(controller, frame, signing)
    pages: dict[str, tuple[Handler, Rule | None]] = {
        "": (streams.overview, None),
        "/": (streams.overview, None),
        "/streams": (streams.listing, None),
        _A_STREAM: (stream.show, RULES["GET", _STREAM]),
        f"{_A_STREAM}/now": (stream.now, RULES["GET", _STREAM]),
        f"{_A_STREAM}/events": (events.show, RULES["GET", f"{_STREAM}/events"]),
        "/groups": (state.groups, None),
        "/groups/{scope}/{group}": (state.group, RULES["GET", _GROUP]),
        "/health": (state.health, RULES["GET", "/v1/cluster/health"]),
    }
    routes = [
        Route(CONSOLE_PATH + path, door.open(page, rule), methods=["GET"])
        for path, (page, rule) in pages.items()
    ]
    change = door.open(changes.change, RULES["PUT", _STREAM])
    routes += [
        Route(f"{CONSOLE_PATH}{_A_STREAM}/change", change, methods=["POST"]),
        Route(SIGN_IN_PATH, door.always(signing.show), methods=["GET"]),
        Route(SIGN_IN_PATH, door.always(signing.sign_in), methods=["POST"]),
        Route(f"{CONSOLE_PATH}/sign-out", door.open(signing.sign_out, None), methods=["POST"]),
        Route(f"{CONSOLE_PATH}/static/{{digest}}/{{name}}", frame.file, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: door.no_page})


class _Door:
    """Lets people in to handlers, and turns errors into pages that say them."""

    def __init__(self, controller: Controller, frame: Frame, signing: SigningIn) -> None:
        self._controller = controller
        self._frame = frame
        self._signing = signing

    def open(self, handler: Handler, rule: Rule | None) -> Handler:
        """Return ``handler`` for those whom the rule lets in; None: for all who have signed in."""

        async def handle(request: Request) -> Response:
            need = None if rule is None else rule(request.path_params)
            try:
                await self._signing.admit(request, need)
            except UnauthenticatedError:
                wanted = quote(f"{request.url.path}?{request.url.query}".rstrip("?"))
                return RedirectResponse(f"{SIGN_IN_PATH}?to={wanted}", _SEE_OTHER)
            if not self._controller.is_ready():
                return self._refuse(request, 503, "The server is starting or stopping: try again.")
            return await handler(request)

        return self.always(handle)

    def always(self, handler: Handler) -> Handler:
        """Return ``handler`` with pages for its errors."""

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except HeadraceError as error:
                return self._refuse(request, status_of(error), str(error) or type(error).__name__)
            except ClientDisconnect:
                return Response(status_code=400)  # to no one
            except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
                _log.error("page failed", path=request.url.path, exc_info=error)
                return self._refuse(request, _FAILURE, "The page failed; the log of the server says why.")

        return handle

    async def no_page(self, request: Request, error: Exception) -> Response:
        """Answer for an address that no page has, or that takes no such request."""
        assert isinstance(error, HTTPException)
        return self._refuse(request, error.status_code, "There is no such page.")

    def _refuse(self, request: Request, status: int, text: str) -> Response:
        return self._frame.page(request, "refusal.html", status, text=text, code=status)

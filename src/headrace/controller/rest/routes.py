"""The routes of the REST interface: the paths under ``/v1``, ``/ping``, and what each verb does.

Everything is carried out by the same code as the gRPC calls. Error answers have no body. Source: protocol,
"REST interface".
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.controller.rest.debug import debug_routes
from headrace.controller.rest.documents import (
    Document,
    configuration_from_document,
    scaling_events_document,
    stream_document,
)
from headrace.controller.rest.health import health_routes
from headrace.controller.rest.server_inside import ServerInside
from headrace.controller.server import Controller
from headrace.controller.store.rows.stream_row import StreamRow, decode_stream
from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    NoSuchReaderGroupError,
    NoSuchScopeError,
    NoSuchStreamError,
    OverloadError,
    OwnershipError,
    ScopeExistsError,
    ScopeNotEmptyError,
    StreamExistsError,
    StreamNotSealedError,
)
from headrace.limits import INT64_MAX, NAME_CHARS_MAX
from headrace.model.names import READER_GROUP_PREFIX, check_user_name
from headrace.runtime.logs import logger

_log = logger(__name__)

BODY_BYTES_MAX: Final = 1 << 20
_PAGE_ROWS: Final = 1000
_USER_SCOPE: Final = re.compile(rf"[A-Za-z0-9.\-]{{1,{NAME_CHARS_MAX}}}\Z")

_STATUS: Final[dict[type[HeadraceError], int]] = {
    InvalidArgumentError: 400,
    NoSuchScopeError: 404,
    NoSuchStreamError: 404,
    NoSuchReaderGroupError: 404,
    ScopeExistsError: 409,
    StreamExistsError: 409,
    ScopeNotEmptyError: 412,
    StreamNotSealedError: 412,
    OwnershipError: 503,
    OverloadError: 503,
}

Handler = Callable[[Request], Awaitable[Response]]


class RestRoutes:
    """The handlers of one controller. They run on its loop."""

    def __init__(self, controller: Controller, inside: ServerInside | None = None) -> None:
        self._controller = controller
        self._inside = inside
        self._context = controller.context

    def application(self) -> Starlette:
        """Return the application with all routes; a trailing slash is accepted everywhere."""
        scope, stream = "/v1/scopes/{scope}", "/v1/scopes/{scope}/streams/{stream}"
        group = "/v1/scopes/{scope}/readergroups/{group}"
        table: list[tuple[str, dict[str, Handler]]] = [
            ("/ping", {"GET": self.ping}),
            ("/v1/scopes", {"GET": self.list_scopes, "POST": self.create_scope}),
            (scope, {"GET": self.get_scope, "DELETE": self.delete_scope}),
            (f"{scope}/streams", {"GET": self.list_streams, "POST": self.create_stream}),
            (stream, {"GET": self.get_stream, "PUT": self.update_stream, "DELETE": self.delete_stream}),
            (f"{stream}/state", {"PUT": self.seal_stream}),
            (f"{stream}/scaling-events", {"GET": self.scaling_events}),
            (f"{scope}/readergroups", {"GET": self.list_groups}),
            (group, {"GET": self.get_group, "DELETE": self.delete_group}),
        ]
        routes = []
        for path, handlers in table:
            for tail in ("", "/"):
                for verb, handler in handlers.items():
                    ready = handler if path == "/ping" else self._when_ready(handler)
                    routes.append(Route(path + tail, guarded(ready), methods=[verb]))
        routes += health_routes(self._controller, self._inside)
        return Starlette(routes=[*routes, *debug_routes(self._controller, self._inside)])

    def _when_ready(self, handler: Handler) -> Handler:
        """Refuse what needs metadata while there is none to ask: the listener is up before the containers."""

        async def handle(request: Request) -> Response:
            if not self._controller.is_ready():
                return Response(status_code=503, headers={"Retry-After": "1"})
            return await handler(request)

        return handle

    async def ping(self, request: Request) -> Response:  # noqa: ARG002 - nothing is asked
        return Response()

    # ---------------------------------------------------------------------------------- scopes

    async def list_scopes(self, request: Request) -> Response:  # noqa: ARG002 - there are no options
        names: list[str] = []
        token = b""
        while True:
            page, token = await self._context.scopes.names(token, _PAGE_ROWS)
            if not page:
                return JSONResponse({"scopes": [{"scopeName": name} for name in sorted(names)]})
            names += page

    async def create_scope(self, request: Request) -> Response:
        name = scope_name_of(await body_of(request))
        await self._context.scopes.create(name)
        return JSONResponse({"scopeName": name}, 201)

    async def get_scope(self, request: Request) -> Response:
        name = request.path_params["scope"]
        await self._require_scope(name)
        return JSONResponse({"scopeName": name})

    async def delete_scope(self, request: Request) -> Response:
        await self._context.scopes.delete(request.path_params["scope"])
        return Response(status_code=204)

    # ---------------------------------------------------------------------------------- streams

    async def list_streams(self, request: Request) -> Response:
        scope = request.path_params["scope"]
        kind, value = request.query_params.get("filter_type"), request.query_params.get("filter_value")
        documents: list[Document] = []
        token = b""
        while True:
            rows, token = await self._context.directory.page(scope, token, _PAGE_ROWS)
            if not rows:
                documents.sort(key=lambda document: str(document["streamName"]))
                return JSONResponse({"streams": documents})
            for name, row in rows:
                stream = decode_stream(row.value)
                if is_shown(name, stream, kind, value):
                    documents.append(stream_document(scope, name, stream.config))

    async def create_stream(self, request: Request) -> Response:
        scope, document = request.path_params["scope"], await body_of(request)
        name = document.get("streamName")
        if not isinstance(name, str):
            raise InvalidArgumentError("streamName is missing")
        check_user_name(name, "stream")
        config = configuration_from_document(document, with_maximum=True)
        await self._controller.streams.create(scope, name, config)
        return JSONResponse(stream_document(scope, name, config), 201)

    async def get_stream(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["stream"]
        stream = await self._context.directory.get(scope, name)
        return JSONResponse(stream_document(scope, name, stream.row.config))

    async def update_stream(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["stream"]
        config = configuration_from_document(await body_of(request), with_maximum=False)
        await self._controller.streams.update(scope, name, config)
        return JSONResponse(stream_document(scope, name, config))

    async def delete_stream(self, request: Request) -> Response:
        await self._controller.streams.delete(request.path_params["scope"], request.path_params["stream"])
        return Response(status_code=204)

    async def seal_stream(self, request: Request) -> Response:
        if (await body_of(request)).get("streamState") != "SEALED":
            raise InvalidArgumentError("the only state that can be requested is SEALED")
        await self._controller.streams.seal(request.path_params["scope"], request.path_params["stream"])
        return JSONResponse({"streamState": "SEALED"})

    async def scaling_events(self, request: Request) -> Response:
        from_ms, to_ms = (time_of(request, name) for name in ("from", "to"))
        if from_ms > to_ms:
            raise InvalidArgumentError("from is later than to")
        stream = await self._context.directory.get(
            request.path_params["scope"], request.path_params["stream"]
        )
        history = await stream.history()
        return JSONResponse(scaling_events_document(history.records, from_ms, to_ms))

    # ---------------------------------------------------------------------------------- reader groups

    async def list_groups(self, request: Request) -> Response:
        scope = request.path_params["scope"]
        names: list[str] = []
        token = b""
        while True:
            rows, token = await self._context.directory.page(scope, token, _PAGE_ROWS)
            if not rows:
                break
            names += [
                name.removeprefix(READER_GROUP_PREFIX)
                for name, _ in rows
                if name.startswith(READER_GROUP_PREFIX)
            ]
        return JSONResponse({"readerGroups": [{"readerGroupName": name} for name in sorted(names)]})

    async def get_group(self, request: Request) -> Response:
        """Readers that are online are known to the group's own stream only; none are reported."""
        scope, name = request.path_params["scope"], request.path_params["group"]
        group = await self._controller.groups.get(scope, name)
        return JSONResponse(
            {
                "scopeName": scope,
                "readerGroupName": name,
                "streamList": [position.full_name for position in group.row.config.starts],
                "onlineReaderIds": [],
            }
        )

    async def delete_group(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["group"]
        await self._controller.groups.delete(scope, name, None)
        return Response(status_code=204)

    async def _require_scope(self, name: str) -> None:
        if await self._context.scopes.find(name) is None:
            raise NoSuchScopeError(f"scope {name!r} does not exist")


def is_shown(name: str, stream: StreamRow, kind: str | None, value: str | None) -> bool:
    """Whether the options of a listing ask for the stream; unknown options ask for what users made."""
    if kind == "showInternalStreams":
        return name.startswith("_")
    if kind == "tag" and value is not None:
        return value in stream.config.tags
    return not name.startswith("_")


def guarded(handler: Handler) -> Handler:
    """Turn errors into bare status codes; what is not ours is logged and is a 500."""

    async def handle(request: Request) -> Response:
        try:
            return await handler(request)
        except HeadraceError as error:
            status = next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)
            if status == 500:
                _log.warning("request failed", path=request.url.path, error=str(error))
            return Response(status_code=status)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
            _log.error("request failed", path=request.url.path, exc_info=error)
            return Response(status_code=500)

    return handle


async def body_of(request: Request) -> Document:
    """Return the JSON object that was sent. Raises InvalidArgumentError."""
    received = bytearray()
    async for piece in request.stream():
        received += piece
        if len(received) > BODY_BYTES_MAX:
            raise InvalidArgumentError(f"the request has more than {BODY_BYTES_MAX} bytes")
    try:
        document: Any = json.loads(received)
    except (ValueError, RecursionError):
        raise InvalidArgumentError("the request is not JSON") from None
    if not isinstance(document, dict):
        raise InvalidArgumentError("the request is no JSON object")
    return document


def time_of(request: Request, name: str) -> int:
    """Return a query option that is a time in ms. Raises InvalidArgumentError."""
    text = request.query_params.get(name, "")
    if not text.isascii() or not text.isdigit() or int(text) > INT64_MAX:
        raise InvalidArgumentError(f"{name} is a time in ms since 1970")
    return int(text)


def scope_name_of(document: Document) -> str:
    """Return the name of a scope to create; those of users may be longer than names of streams.

    Raises:
        InvalidArgumentError: it is missing or not legal.
    """
    name = document.get("scopeName")
    if not isinstance(name, str) or not _USER_SCOPE.match(name):
        raise InvalidArgumentError(f"scopeName is 1 to {NAME_CHARS_MAX} letters, digits, '.' or '-'")
    return name

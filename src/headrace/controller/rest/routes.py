"""The routes of the REST interface: the paths under ``/v1``, ``/ping``, and what each verb does.

Everything is carried out by the same code as the gRPC calls. Source: protocol, "REST interface".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from headrace import __version__
from headrace.controller.rest.controller_part import ControllerPart
from headrace.controller.rest.described import description_handlers
from headrace.controller.rest.documents import (
    EventsPage,
    configuration_of,
    cut_at_time,
    cut_model,
    cut_of,
    naming,
    segment_offsets,
    stream_property,
)
from headrace.controller.rest.event_pages import event_handlers
from headrace.controller.rest.failed_events import FAILED_PATH, failed_events_handler
from headrace.controller.rest.group_readers import read_group, segments_of
from headrace.controller.rest.models import (
    SEALED,
    CreateScopeRequest,
    CreateStreamRequest,
    PurgedStream,
    ReaderGroupName,
    ReaderGroupProperty,
    ReaderGroupsList,
    ScopeProperty,
    ScopesList,
    StreamProperty,
    StreamsList,
    StreamState,
    TruncateRequest,
    UpdateStreamRequest,
)
from headrace.controller.rest.options import time_of
from headrace.controller.rest.rules import RULES
from headrace.controller.rest.stream_listing import LISTING_PATH, listing_handler
from headrace.controller.server import Controller
from headrace.controller.store.rows.stream_row import StreamRow, decode_stream
from headrace.controller.workflows.cuts_in_time import cut_at
from headrace.errors import NoSuchScopeError
from headrace.limits import NAME_CHARS_MAX
from headrace.model.names import READER_GROUP_PREFIX, check_user_name, segment_name
from headrace.model.stream_cut import StreamCut
from headrace.security.access import Gatekeeper
from headrace.security.resources import scope_resource, stream_resource
from headrace.web.admission import shows
from headrace.web.answers import answer
from headrace.web.application import make_application, make_routes
from headrace.web.asked_stores import AskedStores
from headrace.web.bodies import body_of
from headrace.web.probes import probe_handlers
from headrace.web.process_parts import ProcessPart, metrics_of
from headrace.web.refusals import Handler, InvalidFieldError, refusal
from headrace.web.store_pages import (
    HEALTH_PATH,
    OPTIMISER_PATH,
    STATISTICS_PATH,
    cluster_health_handler,
    optimiser_handlers,
    statistics_handler,
)

_PAGE_ROWS: Final = 1000
_SHOWN_CHARS: Final = 40
_USER_SCOPE: Final = re.compile(rf"[A-Za-z0-9.\-]{{1,{NAME_CHARS_MAX}}}\Z")


class RestRoutes:
    """The handlers of one controller. They run on its loop."""

    def __init__(
        self,
        controller: Controller,
        stores: AskedStores | None = None,
        gatekeeper: Gatekeeper | None = None,
        hosts: Iterable[str] = (),
        parts: Sequence[ProcessPart] = (),
    ) -> None:
        """Answer every caller; with a ``gatekeeper`` those that the rules allow it. ``hosts``: names under
        which requests are answered, beside addresses and localhost. ``parts``: others of this process.
        ``stores``: all segment stores, wherever they run.
        """
        self._parts = parts
        self._controller = controller
        self._stores = stores
        self._gatekeeper = gatekeeper
        self._hosts = hosts
        self._context = controller.context

    def application(self, others: Iterable[BaseRoute] = ()) -> ASGIApp:
        """Return the application with all routes, and with those of ``others``."""
        return make_application([*self.routes(), *others], self._hosts, "/docs lists all")

    def routes(self) -> list[Route]:
        """Return all routes; a trailing slash is accepted everywhere."""
        scope, stream = "/v1/scopes/{scope}", "/v1/scopes/{scope}/streams/{stream}"
        group = "/v1/scopes/{scope}/readergroups/{group}"
        needs_metadata: dict[str, dict[str, Handler]] = {
            "/v1/scopes": {"GET": self.list_scopes, "POST": self.create_scope},
            LISTING_PATH: {"GET": listing_handler(self._context)},
            scope: {"GET": self.get_scope, "DELETE": self.delete_scope},
            f"{scope}/streams": {"GET": self.list_streams, "POST": self.create_stream},
            stream: {"GET": self.get_stream, "PUT": self.update_stream, "DELETE": self.delete_stream},
            f"{stream}/state": {"PUT": self.seal_stream},
            f"{stream}/scaling-events": {"GET": self.scaling_events},
            f"{stream}/cut": {"GET": self.cut_at},
            f"{stream}/truncation": {"PUT": self.truncate_stream},
            f"{stream}/purge": {"POST": self.purge_stream},
            f"{stream}/events": event_handlers(self._context),
            f"{scope}/readergroups": {"GET": self.list_groups},
            group: {"GET": self.get_group, "DELETE": self.delete_group},
        }
        table: dict[str, dict[str, Handler]] = {
            "/ping": {"GET": self.ping},
            OPTIMISER_PATH: optimiser_handlers(self._stores),
        }
        for path, handlers in needs_metadata.items():
            table[path] = {verb: self._when_ready(handler) for verb, handler in handlers.items()}
        always = self._watched() | self._asked() | description_handlers()
        table |= {path: {"GET": handler} for path, handler in always.items()}
        return make_routes(table, RULES, self._gatekeeper)

    def _watched(self) -> dict[str, Handler]:
        """Return what answers a GET of health and metrics: of the controller, and of what is beside it."""
        own, with_details = ControllerPart(self._controller), self._gatekeeper is None
        metrics = metrics_of([*self._parts, own])
        return probe_handlers([own, *self._parts], metrics, __version__, with_details=with_details)

    def _asked(self) -> dict[str, Handler]:
        """Return what answers a GET of what is known of all segment stores, and of this controller."""
        own = ControllerPart(self._controller)
        return {
            STATISTICS_PATH: statistics_handler(self._stores, own.statistics),
            HEALTH_PATH: cluster_health_handler(self._stores, own.contributors),
            FAILED_PATH: failed_events_handler(self._controller),
        }

    def _when_ready(self, handler: Handler) -> Handler:
        """Refuse what needs metadata while there is none to ask: the listener is up before the containers."""

        async def handle(request: Request) -> Response:
            if not self._controller.is_ready():
                return refusal(503, "the server is starting or stopping: try again")
            return await handler(request)

        return handle

    async def ping(self, request: Request) -> Response:  # noqa: ARG002 - nothing is asked
        return Response()

    # ---------------------------------------------------------------------------------- scopes

    async def list_scopes(self, request: Request) -> Response:
        names: list[str] = []
        token = b""
        while True:
            page, token = await self._context.scopes.names(token, _PAGE_ROWS)
            if not page:
                return answer(ScopesList([ScopeProperty(name) for name in sorted(names)]))
            names += [name for name in page if shows(request, scope_resource(name))]

    async def create_scope(self, request: Request) -> Response:
        name = (await body_of(request, CreateScopeRequest)).scope_name
        check_scope_name(name)
        await self._context.scopes.create(name)
        return answer(ScopeProperty(name), 201)

    async def get_scope(self, request: Request) -> Response:
        name = request.path_params["scope"]
        await self._require_scope(name)
        return answer(ScopeProperty(name))

    async def delete_scope(self, request: Request) -> Response:
        await self._context.scopes.delete(request.path_params["scope"])
        return Response(status_code=204)

    # ---------------------------------------------------------------------------------- streams

    async def list_streams(self, request: Request) -> Response:
        scope = request.path_params["scope"]
        is_wanted = filter_of(request)
        streams: list[StreamProperty] = []
        token = b""
        while True:
            rows, token = await self._context.directory.page(scope, token, _PAGE_ROWS)
            if not rows:
                streams.sort(key=lambda stream: stream.stream_name)
                return answer(StreamsList(streams))
            for name, row in rows:
                if not shows(request, stream_resource(scope, name)):
                    continue
                stream = decode_stream(row.value)
                if is_wanted(name, stream):
                    streams.append(stream_property(scope, name, stream.config))

    async def create_stream(self, request: Request) -> Response:
        scope, given = request.path_params["scope"], await body_of(request, CreateStreamRequest)
        name = given.stream_name
        with naming("streamName"):
            check_user_name(name, "stream")
        config = configuration_of(given, with_maximum=True)
        await self._controller.streams.create(scope, name, config)
        return answer(stream_property(scope, name, config), 201)

    async def get_stream(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["stream"]
        stream = await self._context.directory.get(scope, name)
        return answer(stream_property(scope, name, stream.row.config))

    async def update_stream(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["stream"]
        config = configuration_of(await body_of(request, UpdateStreamRequest), with_maximum=False)
        await self._controller.streams.update(scope, name, config)
        return answer(stream_property(scope, name, config))

    async def delete_stream(self, request: Request) -> Response:
        await self._controller.streams.delete(request.path_params["scope"], request.path_params["stream"])
        return Response(status_code=204)

    async def seal_stream(self, request: Request) -> Response:
        if (await body_of(request, StreamState)).stream_state != SEALED:
            raise InvalidFieldError("streamState", "the only state that can be requested is SEALED")
        await self._controller.streams.seal(request.path_params["scope"], request.path_params["stream"])
        return answer(StreamState(SEALED))

    async def truncate_stream(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["stream"]
        cut = cut_of(scope, name, await body_of(request, TruncateRequest))
        await self._controller.streams.truncate_any(scope, name, cut.offsets)
        return answer(cut_model(cut))

    async def purge_stream(self, request: Request) -> Response:
        """Of our own: when it answers, what lies before the head is in no file and no object any more."""
        scope, name = request.path_params["scope"], request.path_params["stream"]
        row = (await self._context.directory.get(scope, name)).row
        if self._stores is None:
            return refusal(404, "there is no segment store in this process")
        heads = dict(row.truncation or ())
        segments = heads.keys() | dict(row.truncating or ()).keys()
        await self._stores.purge([segment_name(scope, name, segment_id) for segment_id in sorted(segments)])
        text = StreamCut.from_offsets(scope, name, heads).as_text() if heads else UNSET
        return answer(PurgedStream(scope, name, text, segment_offsets(heads)))

    async def scaling_events(self, request: Request) -> Response:
        from_ms, to_ms = (time_of(request, name) for name in ("from", "to"))
        if from_ms > to_ms:
            raise InvalidFieldError("from", "from is later than to")
        stream = await self._context.directory.get(
            request.path_params["scope"], request.path_params["stream"]
        )
        epochs = stream.epochs()
        first = max(0, await epochs.count_before(from_ms) - 1)
        shown = EventsPage(from_ms, to_ms)
        async for record in epochs.walk(range(first, epochs.last_epoch + 1)):
            if not shown.take(record):
                break
        return answer(shown.events)

    async def cut_at(self, request: Request) -> Response:
        """Of our own: where the stream was at a time, as gRPC's ``getCutAt`` answers it."""
        scope, name = request.path_params["scope"], request.path_params["stream"]
        time_ms = time_of(request, "at")
        stream = await self._context.directory.get(scope, name)
        stream.check_readable()
        with naming("at"):
            found = await cut_at(self._context, stream, time_ms)
        return answer(cut_at_time(scope, name, found))

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
                if name.startswith(READER_GROUP_PREFIX) and shows(request, stream_resource(scope, name))
            ]
        return answer(ReaderGroupsList([ReaderGroupName(name) for name in sorted(names)]))

    async def get_group(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["group"]
        group = await self._controller.groups.get(scope, name)
        streams = [position.full_name for position in group.row.config.starts]
        state = await read_group(self._context, scope, name)
        readers = [] if state is None else sorted(state.assigned)
        return answer(ReaderGroupProperty(scope, name, streams, readers, segments_of(state)))

    async def delete_group(self, request: Request) -> Response:
        scope, name = request.path_params["scope"], request.path_params["group"]
        await self._controller.groups.delete(scope, name, None)
        return Response(status_code=204)

    async def _require_scope(self, name: str) -> None:
        if await self._context.scopes.find(name) is None:
            raise NoSuchScopeError(f"scope {name!r} does not exist")


def filter_of(request: Request) -> Callable[[str, StreamRow], bool]:
    """Return which streams the options of a listing ask for, by name and row; none ask for what users made.

    Raises:
        InvalidFieldError: there is no such filter, or the tag is missing.
    """
    kind, tag = request.query_params.get("filter_type"), request.query_params.get("filter_value")
    match kind:
        case None:
            return lambda name, _: not name.startswith("_")
        case "showInternalStreams":
            return lambda name, _: name.startswith("_")
        case "tag":
            if tag is None:
                raise InvalidFieldError("filter_value", "filter_value, the tag to look for, is missing")
            return lambda _, stream: tag in stream.config.tags
        case _:
            raise InvalidFieldError(
                "filter_type", f"filter_type is showInternalStreams or tag, not {kind[:_SHOWN_CHARS]!r}"
            )


def check_scope_name(name: str) -> None:
    """Check the name of a scope to create; those of users may be longer than names of streams.

    Raises:
        InvalidFieldError: it is not legal.
    """
    if not _USER_SCOPE.match(name):
        raise InvalidFieldError(
            "scopeName", f"scopeName is 1 to {NAME_CHARS_MAX} letters, digits, '.' or '-'"
        )

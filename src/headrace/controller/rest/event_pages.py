"""``.../events``: some events of a stream for whoever looks, and one more from whoever has no client."""

from __future__ import annotations

import asyncio
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.client.framing.event_frames import event_header
from headrace.client.segment_map import SegmentMap, SegmentRange
from headrace.controller.context import ControllerContext
from headrace.controller.rest.documents import naming
from headrace.controller.rest.event_preview import DECODINGS, preview
from headrace.controller.rest.event_reading import (
    FoundEvent,
    FoundEvents,
    find_head,
    read_events,
    read_last,
)
from headrace.controller.rest.models import (
    ENCODINGS,
    AppendedEvent,
    AppendRequest,
    EventFacts,
    EventsPage,
)
from headrace.controller.rest.options import count_of, time_of
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.cuts_in_time import cut_at
from headrace.errors import (
    DataCorruptionError,
    InvalidArgumentError,
    SegmentSealedError,
    StreamBusyError,
    StreamSealedError,
)
from headrace.model.attributes import EVENT_COUNT, AttributeUpdate, UpdateKind
from headrace.model.key_space import key_position
from headrace.model.segment_id import segment_id_text
from headrace.model.stream_cut import StreamCut
from headrace.web.answers import answer
from headrace.web.bodies import body_of
from headrace.web.refusals import Handler, InvalidFieldError, refusal

LIMIT_MAX: Final = 1000
LIMIT: Final = 100
_SHOWN_CHARS: Final = 40
_ATTEMPTS_MAX: Final = 40
_PAUSE_S: Final = 0.05


async def find_events(context: ControllerContext, request: Request) -> FoundEvents:
    """Return the events that the options of a request ask for.

    Raises:
        InvalidFieldError: an option is none, or no event begins at the cut.
        NoSuchStreamError: there is no such stream.
    """
    scope, name = request.path_params["scope"], request.path_params["stream"]
    count, asked = count_of(request, "limit", LIMIT_MAX, LIMIT), request.query_params
    stream = await context.directory.get(scope, name)
    stream.check_readable()
    if asked.get("cut"):
        with naming("cut"):
            cut = StreamCut.from_text(asked["cut"])
            if (cut.scope, cut.stream) != (scope, name):
                raise InvalidArgumentError(f"that is no cut of {scope}/{name}")
            await stream.cuts().place(cut.offsets)
            try:
                return await read_events(context, stream, cut.offsets, count)
            except DataCorruptionError as error:
                raise InvalidArgumentError(f"the cut is not between two events: {error}") from None
    if asked.get("at"):
        with naming("at"):
            found = await cut_at(context, stream, time_of(request, "at"))
        return await read_events(context, stream, found.offsets, count)
    match asked.get("from") or "head":
        case "head":
            return await read_events(context, stream, await find_head(stream), count)
        case "tail":
            return await read_last(context, stream, count)
        case other:
            raise InvalidFieldError("from", f"from is head or tail, not {other[:_SHOWN_CHARS]!r}")


def decoding_of(request: Request) -> str:
    """Return how events are to be shown. Raises InvalidFieldError."""
    decode = request.query_params.get("decode") or "auto"
    if decode not in DECODINGS:
        raise InvalidFieldError("decode", f"decode is {', '.join(DECODINGS)}, not {decode[:_SHOWN_CHARS]!r}")
    return decode


async def append_event(
    context: ControllerContext, stream: Stream, data: bytes, key: str | None
) -> AppendedEvent:
    """Append an event to the segment of its key, which may be replaced meanwhile; it is durable.

    Raises:
        InvalidArgumentError: it is empty, or too large.
        StreamSealedError: the stream takes no more.
        StreamBusyError: its segments change all the time.
        UnknownOutcomeError: it may have been appended.
    """
    framed = event_header(len(data)) + data
    position = context.entropy.random() if key is None else key_position(key)
    count = AttributeUpdate(EVENT_COUNT, UpdateKind.ACCUMULATE, 1)
    for _ in range(_ATTEMPTS_MAX):
        row = stream.row
        if row.state in {StreamState.SEALING, StreamState.SEALED}:
            raise StreamSealedError(f"stream {stream.full_name} is sealed: it takes no more events")
        ranges = [SegmentRange(each.segment_id, each.key_range) for each in row.epoch.segments]
        segment_id = SegmentMap(ranges).segment_at(position)
        try:
            offset = await context.segments.access.append(stream.segment(segment_id), framed, [count])
        except SegmentSealedError:  # it is being replaced
            await asyncio.sleep(_PAUSE_S)
            await stream.refresh()
            continue
        return AppendedEvent(segment_id_text(segment_id), offset)
    raise StreamBusyError(f"the segments of {stream.full_name} are being replaced")


def event_handlers(context: ControllerContext) -> dict[str, Handler]:
    """Return what answers each verb of the events of a stream."""

    async def show(request: Request) -> Response:
        decode = decoding_of(request)
        found = await find_events(context, request)
        cut = StreamCut.from_offsets(
            request.path_params["scope"], request.path_params["stream"], found.behind
        )
        return answer(
            EventsPage([_describe(each, decode) for each in found.events], cut.as_text(), found.ended_by)
        )

    async def append(request: Request) -> Response:
        given = await body_of(request, AppendRequest)
        data = _bytes_of(given)
        stream = await context.directory.get(request.path_params["scope"], request.path_params["stream"])
        stream.check_readable()
        with naming("data"):
            event_header(len(data))
        try:
            return answer(await append_event(context, stream, data, given.key), 201)
        except StreamSealedError as error:
            return refusal(412, str(error))

    return {"GET": show, "POST": append}


def _bytes_of(given: AppendRequest) -> bytes:
    match given.encoding:
        case "text":
            return given.data.encode()
        case "hex":
            try:
                return bytes.fromhex(given.data)
            except ValueError:
                raise InvalidFieldError("data", "data is not hexadecimal") from None
        case other:
            raise InvalidFieldError(
                "encoding", f"encoding is {' or '.join(ENCODINGS)}, not {other[:_SHOWN_CHARS]!r}"
            )


def _describe(event: FoundEvent, decode: str) -> EventFacts:
    is_whole = len(event.data) == event.size
    shown = preview(event.data, decode, is_whole=is_whole)
    return EventFacts(
        segment_id_text(event.segment_id), event.offset, event.size, shown.encoding, shown.data, is_whole
    )

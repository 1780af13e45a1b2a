"""One stream: its segments over time and now, its head and tail, its configuration."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from headrace.console.frame import Frame
from headrace.console.policy_words import retention_words, scaling_words
from headrace.console.segment_picture import draw_segments
from headrace.console.segment_spans import SegmentSpan, SegmentSpans
from headrace.controller.rest.documents import stream_property
from headrace.controller.rest.event_reading import find_head
from headrace.controller.server import Controller
from headrace.controller.streams.stream import Stream
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT
from headrace.model.segment_access import SegmentFacts
from headrace.model.segment_id import segment_id_text
from headrace.model.stream_cut import StreamCut
from headrace.security.permission import Permission
from headrace.security.resources import stream_resource
from headrace.web.origin_rules import CONSOLE_PATH

EPOCHS_MAX: Final = 1000
_SEGMENTS_WALKED_MAX: Final = 200_000
"""In all stream epochs of one picture together."""
_COUNTED_MAX: Final = 100
"""Segments whose events are asked for one by one."""
_ROWS_MAX: Final = 200
_PICTURES_AT_ONCE: Final = 2
"""However many pages are open: those that wait longer ask again later."""
_DRAWN_AT_HAND: Final = 300
"""Segments of a picture that takes a millisecond or two."""


@dataclass(frozen=True, slots=True)
class _History:
    spans: list[SegmentSpan]
    first_epoch: int
    """The picture begins with it."""


class StreamPages:
    """Makes these pages for who asks."""

    def __init__(self, controller: Controller, frame: Frame) -> None:
        self._controller = controller
        self._context = controller.context
        self._frame = frame
        self._pictures = asyncio.Semaphore(_PICTURES_AT_ONCE)

    async def show(self, request: Request) -> Response:
        """Answer with the page."""
        scope, name = request.path_params["scope"], request.path_params["stream"]
        stream = await self._context.directory.get(scope, name)
        stream.check_readable()
        row = stream.row
        segments = row.epoch.segment_ids()
        facts = dict(zip(segments, await self._context.segments.find(stream.segments(segments)), strict=True))
        head = await find_head(stream)
        tail = {each: known.length for each, known in facts.items() if known is not None}
        shown = stream_property(scope, name, row.config)
        caller = request.state.caller
        may_change = caller is None or (
            caller.permission(stream_resource(scope, name)) >= Permission.READ_UPDATE
        )
        async with self._pictures:
            history = await self._history(stream, facts)
            picture = await self._draw(scope, name, history)
        return self._frame.page(
            request,
            "stream.html",
            scope=scope,
            name=name,
            stream_state=row.state.name.lower().replace("_", " "),
            is_sealed=row.state.name == "SEALED",
            created=row.created_ms,
            epoch=row.epoch.epoch,
            picture=picture,
            first_epoch=history.first_epoch,
            spans=len(history.spans),
            bytes=sum(known.length - known.start_offset for known in facts.values() if known is not None),
            segments=await self._segments(stream, facts),
            left_out=max(0, len(segments) - _ROWS_MAX),
            head=StreamCut.from_offsets(scope, name, head).as_text(),
            tail=StreamCut.from_offsets(scope, name, tail).as_text(),
            scaling=scaling_words(shown.scaling_policy),
            retention=retention_words(shown.retention_policy),
            tags=shown.tags,
            rollover=shown.rollover_size_bytes,
            may_change=may_change,
            now=self._context.clock.now_ms(),
        )

    async def now(self, request: Request) -> Response:
        """Answer with the picture alone, as of now, for a page that is looked at."""
        scope, name = request.path_params["scope"], request.path_params["stream"]
        stream = await self._context.directory.get(scope, name)
        stream.check_readable()
        segments = stream.row.epoch.segment_ids()
        facts = dict(zip(segments, await self._context.segments.find(stream.segments(segments)), strict=True))
        async with self._pictures:
            picture = await self._draw(scope, name, await self._history(stream, facts))
        return HTMLResponse(picture, headers={"Cache-Control": "no-store"})

    async def _draw(self, scope: str, name: str, history: _History) -> str:
        events = f"{CONSOLE_PATH}/streams/{quote(scope)}/{quote(name)}/events?at="
        now_ms = self._context.clock.now_ms()
        if len(history.spans) <= _DRAWN_AT_HAND:
            return draw_segments(history.spans, now_ms, events)
        # It may take a tenth of a second: in a thread, so that appends do not wait for it.
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, draw_segments, history.spans, now_ms, events)

    async def _history(self, stream: Stream, facts: dict[int, SegmentFacts | None]) -> _History:
        """Return from when to when each segment was, in the last stream epochs."""
        epochs, spans = stream.epochs(), SegmentSpans()
        count = min(EPOCHS_MAX, max(1, _SEGMENTS_WALKED_MAX // len(epochs.row.epoch.segments)))
        first = max(0, epochs.last_epoch + 1 - count)
        async for record in epochs.walk(range(first, epochs.last_epoch + 1)):
            spans.take(record)
        found = spans.found()
        lengths = await stream.sealed_lengths([each.segment_id for each in found if each.end_ms is not None])
        lengths |= {each: known.length for each, known in facts.items() if known is not None}
        return _History([replace(each, written=lengths.get(each.segment_id)) for each in found], first)

    async def _segments(self, stream: Stream, facts: dict[int, SegmentFacts | None]) -> list[dict[str, Any]]:
        """Return what is known of the active segments, in the order of their keys."""
        found: list[dict[str, Any]] = []
        for segment in stream.row.epoch.segments[:_ROWS_MAX]:
            known = facts.get(segment.segment_id)
            events: int | None = None
            if known is not None and len(found) < _COUNTED_MAX:
                events = await self._context.segments.get_attribute(
                    stream.segment(segment.segment_id), EVENT_COUNT
                )
            found.append(
                {
                    "id": segment_id_text(segment.segment_id),
                    "low": segment.key_range.low,
                    "high": segment.key_range.high,
                    "created": segment.created_ms,
                    "start": 0 if known is None else known.start_offset,
                    "length": 0 if known is None else known.length,
                    "events": None if events is None or events == ATTRIBUTE_NULL else events,
                }
            )
        return found

"""Makes watermarks: looks at the writers of each stream of a bucket now and then, and appends what follows.

1. Marks, the newest watermark and the epochs that they name are read; ``policies/watermarks.py`` decides.
2. The watermark is appended, at the offset behind the newest one.
3. Writers that are waited for no more are forgotten, if they have said nothing since.
4. Without writers the stream leaves the index of its bucket, unless it entered it anew.

Each step may be repeated, and two controllers may be at it at once: then one of two appends is refused, and
that controller finds the other's watermark the next time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.policies.watermarks import (
    Judgement,
    is_at_or_before,
    judge_writers,
    newest_epoch,
    next_watermark,
)
from headrace.controller.store.layout import WATERMARKS
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.bucket_index import BucketMember
from headrace.controller.streams.mark_stream import MarksFound, MarkStream
from headrace.controller.streams.stream import Stream
from headrace.errors import DataCorruptionError, HeadraceError
from headrace.model.names import MARK_PREFIX
from headrace.model.watermark import MarkedSegment, Watermark
from headrace.runtime.logs import logger

_log = logger(__name__)

_PAGE_ROWS: Final = 100
_CLOSED: Final = {StreamState.CREATING, StreamState.SEALING, StreamState.SEALED}


@dataclass(slots=True)
class _Followed:
    """What is remembered of a stream between two looks. It is lost with the bucket: then it takes longer."""

    uid: bytes
    idle_since: Mapping[str, int] = field(default_factory=dict)
    trim_due_ms: int = 0
    trim_to: int = 0
    """Offset of the mark stream; in front of it no reader needed anything at the last look for that."""


class Watermarks:
    """The work of one controller on the watermarks of its buckets."""

    name = "watermarks"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._config = context.config.watermarks
        self._slots = asyncio.Semaphore(self._config.streams_at_once)
        self._followed: dict[int, dict[tuple[str, str], _Followed]] = {}
        """By bucket; the streams that were in its index at the last look."""

    async def run(self, bucket: int) -> None:
        """Look at the streams of ``bucket`` until cancelled."""
        try:
            while True:
                await self.look(bucket)
                await asyncio.sleep(self._config.period_s)
        finally:
            self._followed.pop(bucket, None)

    async def look(self, bucket: int) -> None:
        """Look at every stream of ``bucket`` once."""
        before, now = self._followed.get(bucket, {}), {}
        token = b""
        while True:
            members, token = await self._context.bucket_index.page(bucket, token, _PAGE_ROWS)
            if not members:
                break
            mine = [member for member in members if member.kind == WATERMARKS]
            found = await asyncio.gather(
                *(self._guarded(member, before.get((member.scope, member.stream))) for member in mine)
            )
            for member, followed in zip(mine, found, strict=True):
                if followed is not None:
                    now[member.scope, member.stream] = followed
        self._followed[bucket] = now

    async def _guarded(self, member: BucketMember, followed: _Followed | None) -> _Followed | None:
        """Let no stream keep others from their watermarks."""
        async with self._slots:
            try:
                return await self._follow(member, followed)
            except HeadraceError as error:
                _log.warning(
                    "watermark is made later", stream=f"{member.scope}/{member.stream}", error=str(error)
                )
                return followed

    async def _follow(self, member: BucketMember, followed: _Followed | None) -> _Followed | None:
        stream = await self._context.directory.find(member.scope, member.stream)
        if stream is None or stream.row.deleting:
            await self._context.bucket_index.remove(member)
            return None
        if followed is None or followed.uid != stream.uid:
            followed = _Followed(stream.uid)
        mark_stream = await self._find_mark_stream(stream)
        if mark_stream is None:
            return followed
        marks = await self._context.marks.read(stream)
        found = await mark_stream.find_newest()
        judged = judge_writers(
            marks.writers,
            found.newest,
            followed.idle_since,
            timeout_ms=stream.row.config.timestamp_timeout_ms,
            now_ms=self._context.clock.now_ms(),
        )
        followed.idle_since = judged.idle_since
        if judged.contributors:
            await mark_stream.append(found, await self._next(stream, judged, found.newest))
        await self._trim(stream, mark_stream, found, followed)
        if judged.evicted or judged.leaves:
            writers_left = await self._context.marks.evict(stream, judged.evicted)
            if not writers_left:
                await self._context.bucket_index.remove(member)
                return None
        return followed

    async def _find_mark_stream(self, stream: Stream) -> MarkStream | None:
        """Return where the watermarks are; None if users sealed or deleted that stream."""
        found = await self._context.directory.find(stream.scope, MARK_PREFIX + stream.name)
        if found is None or found.row.deleting or found.row.state in _CLOSED:
            return None
        first = found.row.epoch.segments[0].segment_id
        return MarkStream(self._context.segments, found.segment(first))

    async def _next(self, stream: Stream, judged: Judgement, last: Watermark | None) -> Watermark:
        await stream.refresh()  # a writer may have noted a segment that is newer than the row
        epochs = stream.epochs(visible=True)
        named = {segment_id for mark in judged.contributors.values() for segment_id, _ in mark.position}
        segments = await epochs.find_segments(named)
        ranges = {segment_id: segment.key_range for segment_id, segment in segments.items()}
        epoch = newest_epoch(judged.contributors.values(), last, ranges)
        newest = await epochs.find(epoch)
        if newest is None:
            raise DataCorruptionError(
                f"the watermarks of {stream.full_name} name a segment of epoch {epoch}, which it has not"
            )
        return next_watermark(judged.contributors, last, ranges, newest.segments)

    async def _trim(
        self, stream: Stream, mark_stream: MarkStream, found: MarksFound, followed: _Followed
    ) -> None:
        """Drop what no reader needed at the last look for that already: some readers are late."""
        now_ms = self._context.clock.now_ms()
        if now_ms < followed.trim_due_ms:
            return
        followed.trim_due_ms = now_ms + round(self._config.trim_period_s * 1000)
        if followed.trim_to > found.start_offset:
            await mark_stream.truncate(followed.trim_to)
            found = replace(found, start_offset=followed.trim_to)
        head = await self._head(stream)
        followed.trim_to = await mark_stream.find_first_needed(
            found,
            lambda watermark: bool(head) and is_at_or_before(watermark.cut, head),
            self._config.mark_stream_bytes_max,
        )

    async def _head(self, stream: Stream) -> list[MarkedSegment]:
        """Return where the stream was truncated, sorted by range; nothing if it was not."""
        epochs = stream.epochs()
        offsets = dict(epochs.row.truncation or ())
        head = [
            MarkedSegment(segment_id, segment.key_range, offsets[segment_id])
            for segment_id, segment in (await epochs.find_segments(offsets)).items()
        ]
        return sorted(head, key=lambda each: each.key_range.low)

"""The stream as the planner sees it: asked from the server once, remembered where answers cannot change."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from headrace.client.blocking import BlockingClient
from headrace.client.framing.event_framing import find_frames
from headrace.errors import DataCorruptionError, NoSuchSegmentError
from headrace.limits import INT64_MAX
from headrace.model.key_space import KeyRange
from headrace.model.records import has_records
from headrace.model.stream_cut import COMPLETED, StreamCut
from headrace.spark.partitioning import Position, SegmentFacts, SegmentShare, later_of
from headrace.spark.questions import ask_all

_log: Final = logging.getLogger(__name__)

_REMEMBERED_MAX: Final = 100_000
_SAMPLE_BYTES: Final = 16 << 10


class ClientStreamGraph:
    """A :class:`StreamGraph` over a client.

    :meth:`refresh` looks at the tail; until the next one, lengths stay as they were seen. What is known of
    sealed segments is cached as long as the stream exists; one that is created anew under the same name
    has other segments.
    """

    def __init__(self, client: BlockingClient, scope: str, stream: str) -> None:
        self.scope = scope
        self.stream = stream
        self._client = client
        self._tail: dict[int, int] | None = None
        self._sealed: dict[int, SegmentFacts] = {}
        self._successors: dict[int, dict[int, tuple[int, ...]]] = {}
        self._ranges: dict[int, KeyRange] = {}
        self._has_records: bool | None = None
        self._seen_size = 0
        """Of an event with its header, about."""
        self._witness: int | None = None
        """A segment of the stream that the caches are about."""

    # ------------------------------------------------------------------------------ as the planner asks

    def facts(self, segment_id: int) -> SegmentFacts:
        """Return where a segment ends. Raises NoSuchSegmentError if it is truncated away or never was one."""
        if self._tail is None:
            self.refresh()
        length = (self._tail or {}).get(segment_id)
        if length is not None:
            return SegmentFacts(length, sealed=False)
        facts = self._sealed.get(segment_id)
        if facts is None:
            info = self._client.segment_info(self.scope, self.stream, segment_id)
            facts = SegmentFacts(info.length, info.sealed)
            if info.sealed and len(self._sealed) < _REMEMBERED_MAX:
                self._sealed[segment_id] = facts
        return facts

    def successors(self, segment_id: int) -> Mapping[int, Sequence[int]]:
        """Return what continues a segment, each with all its predecessors.

        Raises:
            NoSuchSegmentError: the stream never had the segment.
        """
        known = self._successors.get(segment_id)
        if known is not None:
            return known
        if self._tail is not None and segment_id in self._tail:
            return {}
        found = {
            each.segment_id: tuple(each.predecessors)
            for each in self._client.successors(self.scope, self.stream, segment_id)
        }
        is_final = bool(found) or self._tail == {}  # a sealed stream is not scaled any more
        if is_final and len(self._successors) < _REMEMBERED_MAX:
            self._successors[segment_id] = found
        return found

    def event_boundaries(self, shares: Sequence[SegmentShare]) -> list[int]:
        """Walk the frames of all segments at once, which costs a transfer: the server knows no events.

        Raises:
            SegmentTruncatedError: the bytes at a start are gone.
        """
        return ask_all(self._end_of_share, shares)

    def _end_of_share(self, share: SegmentShare) -> int:
        if share.target >= share.end and not share.events:
            return share.end
        left = share.events or INT64_MAX
        for begin, frames in self._frames(share.segment_id, share.start, share.end):
            place = min(bisect_left(frames, share.target - begin), left)
            if place < len(frames):
                return begin + int(frames[place])
            left -= len(frames) - 1
        return share.end

    def event_size(self, position: Position) -> int:
        """Return the mean size of the events seen last; of a few behind a position if none were."""
        if not self._seen_size:
            sizes = {each: length - position.get(each, 0) for each, length in self.tail().items()}
            segment_id = max(sizes, key=lambda each: sizes[each], default=0)
            size = min(sizes.get(segment_id, 0), _SAMPLE_BYTES)
            start = position.get(segment_id, 0)
            names = self.scope, self.stream, segment_id
            if size > 0:
                with self._client.read_segment_range(*names, start, start + size) as part:
                    self._see(find_frames(b"".join(part.blocks())))
        return self._seen_size or _SAMPLE_BYTES

    def _see(self, frames: Any) -> None:
        if len(frames) > 1:
            self._seen_size = max(1, int(frames[-1]) // (len(frames) - 1))

    def find_edges(self, segment_id: int, start: int, targets: Sequence[int], end: int) -> list[int]:
        """Return of each target, ascending and in front of ``end``, the first event boundary at or behind it.

        Raises:
            SegmentTruncatedError: the bytes at ``start`` are gone.
        """
        found: list[int] = []
        if not targets:
            return found
        for begin, frames in self._frames(segment_id, start, end):
            while begin + int(frames[-1]) >= targets[len(found)]:
                found.append(begin + int(frames[bisect_left(frames, targets[len(found)] - begin)]))
                if len(found) == len(targets):
                    return found
        return found

    def _frames(self, segment_id: int, start: int, end: int) -> Iterator[tuple[int, Any]]:
        """Yield where some bytes begin, and where events begin and end in them."""
        rest = b""
        with self._client.read_segment_range(self.scope, self.stream, segment_id, start, end) as part:
            for block in part.blocks():
                data = memoryview(rest + block) if rest else block
                frames = find_frames(data)
                self._see(frames)
                yield start, frames
                start += int(frames[-1])
                rest = bytes(data[int(frames[-1]) :])
        if start != end:
            raise DataCorruptionError(
                f"{self.scope}/{self.stream} segment {segment_id} has no event end at {end}"
            )

    # ------------------------------------------------------------------------------ edges of the stream

    def refresh(self) -> None:
        """Look at the tail. Raises NoSuchStreamError."""
        tail = dict(self._client.tail_cut(self.scope, self.stream).offsets)
        if not tail or self._tail is None or tail.keys() != self._tail.keys():
            self._forget_former_stream(tail)
        self._tail = tail

    def _forget_former_stream(self, tail: Position) -> None:
        """Drop the caches if they are about a stream that was deleted.

        The tail of a stream that was created anew has other segments, unless both streams are sealed.
        """
        if self._witness is not None and not self.unknown([self._witness], cached=False):
            return
        self._sealed.clear()
        self._successors.clear()
        self._ranges.clear()
        self._has_records = None
        self._witness = min(tail or self.head(), default=None)

    def head(self) -> Position:
        """Return the cut at which the stream begins now."""
        return dict(self._client.head_cut(self.scope, self.stream).offsets)

    def cut_at(self, time_ms: int) -> Position:
        """Return the latest cut that is known and not after a time, in ms since 1970; the head if none is."""
        return self.sample_at(time_ms)[0]

    def sample_at(self, time_ms: int) -> tuple[Position, int | None]:
        """Return the latest cut that is known and not after a time, and when it was; None for the head."""
        found = self._client.cut_at(self.scope, self.stream, time_ms)
        return dict(found.cut.offsets), found.time_ms

    @property
    def has_records(self) -> bool:
        """Whether events have a time, a key and headers. Raises UnsupportedError: of a newer version."""
        if self._has_records is None:
            tags = self._client.stream_configuration(self.scope, self.stream).tags
            self._has_records = has_records(f"{self.scope}/{self.stream}", tags)
        return self._has_records

    def tail(self) -> Position:
        """Return the cut behind everything seen by the last :meth:`refresh`; also of a sealed stream."""
        if self._tail is None:
            self.refresh()
        if self._tail:
            return dict(sorted(self._tail.items()))
        leaves: Position = {}
        seen: set[int] = set()
        waiting = list(self.head())
        while waiting:
            segment_id = waiting.pop()
            if segment_id in seen:
                continue
            seen.add(segment_id)
            following = self.successors(segment_id)
            waiting.extend(following)
            if not following:
                leaves[segment_id] = self.facts(segment_id).length
        return dict(sorted(leaves.items()))

    def find_start(self, segment_id: int) -> int | None:
        """Return where the segment begins now; None if it is gone."""
        try:
            return self._client.segment_info(self.scope, self.stream, segment_id).start_offset
        except NoSuchSegmentError:
            return None

    def key_ranges(self, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, without those that never existed."""
        missing = [segment_id for segment_id in segment_ids if segment_id not in self._ranges]
        if missing:
            self._ranges.update(self._client.key_ranges(self.scope, self.stream, missing))
        return self._ranges

    def unknown(self, segment_ids: Iterable[int], *, cached: bool = True) -> list[int]:
        """Return the segments that the stream never had."""
        wanted = set(segment_ids)
        known = (
            self.key_ranges(wanted) if cached else self._client.key_ranges(self.scope, self.stream, wanted)
        )
        return sorted(wanted - known.keys())

    def check_cut(self, cut: StreamCut) -> None:
        """Raises InvalidArgumentError for a cut that the present stream does not have."""
        self._client.check_cut(cut)

    def move_to_head(self, position: Mapping[int, int]) -> Position:
        """Return the position, or where it can go on if the stream was truncated past it or created anew."""
        strange = self.unknown(position)
        if strange:
            _log.warning(
                "%s/%s never had the segments %s of the position: reading goes on at its head",
                self.scope,
                self.stream,
                strange,
            )
            position = {each: offset for each, offset in position.items() if each not in strange}
        head = self.head()
        moved = later_of(position, head, self.key_ranges({*position, *head}))
        for segment_id, offset in moved.items():
            if not strange and position.get(segment_id, 0) != offset and offset != COMPLETED:
                _log.warning(
                    "%s/%s: data was truncated; segment %d continues at %d",
                    self.scope,
                    self.stream,
                    segment_id,
                    offset,
                )
        return moved

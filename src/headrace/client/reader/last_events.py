"""Which cut of a stream has so many events behind it, and hardly more. Reads backwards from the tail.

Events have no common order but per routing key. What counts as last: the newest segments first, and of those
that take events at the same time, what was written since a time that the server remembers (``cut_at``), equal
shares of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Protocol

from headrace.client.control.stream_times import TimedCut
from headrace.client.reader.last_frames import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, find_last_frames
from headrace.client.segment_calls import SegmentInfo
from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.model.key_space import KeyRange
from headrace.model.segment_id import epoch_of
from headrace.model.stream_cut import StreamCut

LAST_MAX: Final = 10_000_000
"""Beginnings of events that are remembered."""

_WIDTH_ERROR: Final = 1e-9
_AGES_MS: Final = (15_000, 60_000, 600_000, 3_600_000, 86_400_000)


class Tail(Protocol):
    """The end of one segment."""

    @property
    def start(self) -> int:
        """Where the segment begins."""

    async def count(self, wanted: int, floor: int) -> int:
        """Return how many events lie at or behind offset ``floor``, at most ``wanted``."""

    def begin_of_last(self, count: int) -> int:
        """Return where the last ``count`` events begin; 0 events begin at the end."""


class Questions(Protocol):
    """What is asked about one stream."""

    async def info(self, segment_id: int) -> SegmentInfo:
        """Return the length of a segment and where it begins."""

    async def read(self, segment_id: int, begin: int, end: int) -> bytes:
        """Return the bytes of a segment between two offsets."""

    async def cut_ago(self, age_ms: int) -> TimedCut:
        """Return where the stream was so long ago. Raises UnsupportedError if nobody knows."""


ReadBytes = Callable[[int, int], Awaitable[bytes]]
"""Returns the bytes of a segment between two offsets."""


@dataclass(slots=True)
class SegmentTail:
    """The end of one segment, looked at from behind as far as it is asked for."""

    name: str
    start: int
    end: int
    read: ReadBytes
    _starts: list[int] = field(default_factory=list)
    """Where the last events begin, the last one first."""

    async def count(self, wanted: int, floor: int) -> int:
        """See :meth:`Tail.count`. Raises: InvalidArgumentError if there are no events at the end."""
        window = WINDOW_BYTES_MIN
        while len(self._starts) < wanted and self._first > max(floor, self.start):
            window = min(2 * await self._look_back(window), WINDOW_BYTES_MAX)
        low = bisect_left(self._starts, -floor, key=lambda start: -start)
        behind = low + (low < len(self._starts) and self._starts[low] == floor)
        return min(wanted, behind)

    def begin_of_last(self, count: int) -> int:
        """See :meth:`Tail.begin_of_last`."""
        return self.end if count == 0 else self._starts[count - 1]

    @property
    def _first(self) -> int:
        return self._starts[-1] if self._starts else self.end

    async def _look_back(self, window: int) -> int:
        """Find events in front of those known; return how many bytes that took."""
        while True:
            begin = max(self.start, self._first - window)
            data = await self.read(begin, self._first)
            found = find_last_frames(data, from_boundary=begin == self.start)
            if found:
                self._starts += [begin + each for each in reversed(found)]
                return window
            if begin == self.start or window >= WINDOW_BYTES_MAX:
                raise InvalidArgumentError(
                    f"the bytes of segment {self.name} in front of offset {self._first} are no events"
                )
            window = min(2 * window, WINDOW_BYTES_MAX)


async def choose_start(
    epochs: Iterable[Sequence[int]],
    tails: Callable[[int], Awaitable[Tail]],
    floors: AsyncIterator[Mapping[int, int]],
    wanted: int,
) -> dict[int, int]:
    """Return offsets by segment behind which ``wanted`` events lie, or all if there are fewer.

    Args:
        epochs: the segments of each stream epoch, the present one first.
        tails: looks up the end of a segment.
        floors: offsets that the stream had at earlier times, the latest first.
        wanted: at least 1.
    """
    above = 0  # events of segments that are of later stream epochs only
    newer: dict[int, int] = {}
    chosen: dict[int, int] = {}
    for epoch in epochs:
        above += sum(count for segment_id, count in newer.items() if segment_id not in epoch)
        ends = {each: await tails(each) for each in epoch}
        chosen = {each: end.start for each, end in ends.items()}
        counts = {each: await end.count(wanted - above, end.start) for each, end in ends.items()}
        if above + sum(counts.values()) >= wanted:
            async for floor in floors:
                since = {each: _floor_of(each, floor, end.start) for each, end in ends.items()}
                later = {
                    each: 0 if at is None else await ends[each].count(wanted - above, at)
                    for each, at in since.items()
                }
                if above + sum(later.values()) >= wanted:
                    counts = later
                    break
            shares = share_out(counts, wanted - above)
            return {each: end.begin_of_last(shares[each]) for each, end in ends.items()}
        newer = counts
    return chosen


def _floor_of(segment_id: int, floor: Mapping[int, int], start: int) -> int | None:
    """Return from where on a segment is younger than a cut; None if it is older as a whole."""
    if segment_id in floor:
        return max(floor[segment_id], start)
    return start if all(epoch_of(each) < epoch_of(segment_id) for each in floor) else None


def share_out(counts: Mapping[int, int], wanted: int) -> dict[int, int]:
    """Return how many of ``wanted`` come from whom, equal shares as far as there are so many."""
    shares: dict[int, int] = {}
    left, others = wanted, len(counts)
    for segment_id, count in sorted(counts.items(), key=lambda item: item[1]):
        shares[segment_id] = min(count, -(-left // others)) if left > 0 else 0
        left -= shares[segment_id]
        others -= 1
    return shares


def epochs_of(segments: Sequence[int], ranges: Mapping[int, KeyRange]) -> Iterable[list[int]]:
    """Yield the segments of each stream epoch, from the present backwards.

    ``segments`` are those that the stream has had.
    """
    known = sorted((each for each in segments if each in ranges), key=lambda each: (epoch_of(each), each))
    while known:
        epoch = _newest_owners(known, ranges)
        yield sorted(epoch)
        newest = max(map(epoch_of, epoch))
        known = [each for each in known if epoch_of(each) < newest]


def _newest_owners(known: Sequence[int], ranges: Mapping[int, KeyRange]) -> list[int]:
    """Return the last of these segments that own a key each, up to those that own all keys."""
    owners: list[int] = []
    owned: list[KeyRange] = []
    width = 0.0
    for each in reversed(known):
        own = ranges[each]
        at = bisect_left(owned, own)
        if any(own.overlaps(other) for other in owned[max(0, at - 1) : at + 1]):
            continue
        owned.insert(at, own)
        owners.append(each)
        width += own.high - own.low
        if width > 1 - _WIDTH_ERROR:
            break
    return owners


async def find_last(
    wanted: int,
    tail: StreamCut,
    segments: Sequence[int],
    ranges: Mapping[int, KeyRange],
    questions: Questions,
) -> StreamCut:
    """Return the cut of a stream behind which its last ``wanted`` events lie.

    Args:
        wanted: how many.
        tail: of the stream.
        segments: those that it has had and that are retained.
        ranges: their key ranges.
        questions: what is asked about them.

    Raises:
        InvalidArgumentError: ``wanted`` is out of range, or the stream holds plain bytes.
    """
    found: dict[int, SegmentTail] = {}

    async def tail_of(segment_id: int) -> SegmentTail:
        if segment_id not in found:
            info = await questions.info(segment_id)
            end = tail.offsets.get(segment_id, info.length)
            name = f"{tail.scope}/{tail.stream}/{segment_id}"
            read = partial(questions.read, segment_id)
            found[segment_id] = SegmentTail(name, info.start_offset, max(end, info.start_offset), read)
        return found[segment_id]

    offsets = await choose_start(epochs_of(segments, ranges), tail_of, _floors(questions), wanted)
    return StreamCut.from_offsets(tail.scope, tail.stream, offsets)


async def _floors(questions: Questions) -> AsyncIterator[Mapping[int, int]]:
    """Yield where the stream was at earlier times, the latest first."""
    for age_ms in _AGES_MS:
        try:
            found = await questions.cut_ago(age_ms)
        except UnsupportedError:
            return
        if found.is_head:
            return
        yield found.cut.offsets


def check_last(wanted: object) -> int:
    """Return a number of last events. Raises InvalidArgumentError if it is out of range."""
    if not isinstance(wanted, int) or isinstance(wanted, bool) or not 1 <= wanted <= LAST_MAX:
        raise InvalidArgumentError(f"the last 1 to {LAST_MAX} events can be read, not {wanted!r:.100}")
    return wanted

"""Which cut of a stream has so many events behind it, and hardly more. Reads backwards from the tail.

Events have no common order but per routing key. What counts as last: the newest segments first, and of those
that take events at the same time, what was written since a time that the server remembers (``cut_at``), equal
shares of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from headrace.cli.last_frames import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, find_last_frames
from headrace.errors import InvalidArgumentError, UnsupportedError
from headrace.model.segment_id import epoch_of
from headrace.model.stream_cut import StreamCut
from headrace.runtime.clock import SystemClock

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingClient
    from headrace.model.key_space import KeyRange

LAST_MAX: Final = 10_000_000
"""Beginnings of events that are remembered."""

_WIDTH_ERROR: Final = 1e-9
_AGES_MS: Final = (15_000, 60_000, 600_000, 3_600_000, 86_400_000)


class Tail(Protocol):
    """The end of one segment."""

    def count(self, wanted: int, floor: int) -> int:
        """Return how many events lie at or behind offset ``floor``, at most ``wanted``."""

    def begin_of_last(self, count: int) -> int:
        """Return where the last ``count`` events begin; 0 events begin at the end."""


ReadBytes = Callable[[int, int], bytes]
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

    def count(self, wanted: int, floor: int) -> int:
        """See :meth:`Tail.count`. Raises: InvalidArgumentError if there are no events at the end."""
        window = WINDOW_BYTES_MIN
        while len(self._starts) < wanted and self._first > max(floor, self.start):
            window = min(2 * self._look_back(window), WINDOW_BYTES_MAX)
        low = bisect_left(self._starts, -floor, key=lambda start: -start)
        behind = low + (low < len(self._starts) and self._starts[low] == floor)
        return min(wanted, behind)

    def begin_of_last(self, count: int) -> int:
        """See :meth:`Tail.begin_of_last`."""
        return self.end if count == 0 else self._starts[count - 1]

    @property
    def _first(self) -> int:
        return self._starts[-1] if self._starts else self.end

    def _look_back(self, window: int) -> int:
        """Find events in front of those known; return how many bytes that took."""
        while True:
            begin = max(self.start, self._first - window)
            data = self.read(begin, self._first)
            found = find_last_frames(data, from_boundary=begin == self.start)
            if found:
                self._starts += [begin + each for each in reversed(found)]
                return window
            if begin == self.start or window >= WINDOW_BYTES_MAX:
                raise InvalidArgumentError(
                    f"the bytes of segment {self.name} in front of offset {self._first} are no events"
                )
            window = min(2 * window, WINDOW_BYTES_MAX)


def choose_start(
    epochs: Iterable[Sequence[int]],
    tails: Callable[[int], Tail],
    starts: Callable[[int], int],
    floors: Iterable[Mapping[int, int]],
    wanted: int,
) -> dict[int, int]:
    """Return offsets by segment behind which ``wanted`` events lie, or all if there are fewer.

    Args:
        epochs: the segments of each stream epoch, the present one first.
        tails: the end of a segment.
        starts: where a segment begins.
        floors: offsets that the stream had at earlier times, the latest first.
        wanted: at least 1.
    """
    above = 0  # events of segments that are of later stream epochs only
    newer: dict[int, int] = {}
    chosen: dict[int, int] = {}
    for epoch in epochs:
        above += sum(count for segment_id, count in newer.items() if segment_id not in epoch)
        counts = {each: tails(each).count(wanted - above, starts(each)) for each in epoch}
        chosen = {each: starts(each) for each in epoch}
        if above + sum(counts.values()) >= wanted:
            for floor in floors:
                since = {each: _floor_of(each, floor, starts) for each in epoch}
                later = {
                    each: 0 if at is None else tails(each).count(wanted - above, at)
                    for each, at in since.items()
                }
                if above + sum(later.values()) >= wanted:
                    counts = later
                    break
            shares = share_out(counts, wanted - above)
            return {each: tails(each).begin_of_last(shares[each]) for each in epoch}
        newer = counts
    return chosen


def _floor_of(segment_id: int, floor: Mapping[int, int], starts: Callable[[int], int]) -> int | None:
    """Return from where on a segment is younger than a cut; None if it is older as a whole."""
    if segment_id in floor:
        return max(floor[segment_id], starts(segment_id))
    return starts(segment_id) if all(epoch_of(each) < epoch_of(segment_id) for each in floor) else None


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


def find_last(
    client: BlockingClient, scope: str, stream: str, wanted: int
) -> tuple[StreamCut, StreamCut | None]:
    """Return the cut behind which the last ``wanted`` events lie, and the tail; None if the stream is sealed.

    Raises:
        InvalidArgumentError: ``wanted`` is out of range, or the stream holds plain bytes.
        NoSuchStreamError: there is no such stream.
    """
    if not 1 <= wanted <= LAST_MAX:
        raise InvalidArgumentError(f"the last 1 to {LAST_MAX} events can be read, not {wanted}")
    tail = client.tail_cut(scope, stream)
    segments = client.segments_between(client.head_cut(scope, stream))
    ends = _Ends(client, scope, stream, tail)
    epochs = epochs_of(segments, client.key_ranges(scope, stream, segments))
    offsets = choose_start(epochs, ends.tail_of, ends.start_of, ends.floors(), wanted)
    return StreamCut.from_offsets(scope, stream, offsets), tail if tail.offsets else None


class _Ends:
    """The ends of the segments of a stream, looked up once each."""

    def __init__(self, client: BlockingClient, scope: str, stream: str, tail: StreamCut) -> None:
        self._client = client
        self._scope = scope
        self._stream = stream
        self._tail = tail
        self._tails: dict[int, SegmentTail] = {}

    def tail_of(self, segment_id: int) -> SegmentTail:
        found = self._tails.get(segment_id)
        if found is None:
            info = self._client.segment_info(self._scope, self._stream, segment_id)
            end = self._tail.offsets.get(segment_id, info.length)
            name = f"{self._scope}/{self._stream}/{segment_id}"
            read = partial(self._read, segment_id)
            found = self._tails[segment_id] = SegmentTail(
                name, info.start_offset, max(end, info.start_offset), read
            )
        return found

    def start_of(self, segment_id: int) -> int:
        return self.tail_of(segment_id).start

    def floors(self) -> Iterator[Mapping[int, int]]:
        """Yield where the stream was at earlier times, the latest first."""
        now_ms = SystemClock().now_ms()
        for age_ms in _AGES_MS:
            try:
                found = self._client.cut_at(self._scope, self._stream, now_ms - age_ms)
            except UnsupportedError:
                return
            if found.is_head:
                return
            yield found.cut.offsets

    def _read(self, segment_id: int, begin: int, end: int) -> bytes:
        with self._client.read_segment_range(self._scope, self._stream, segment_id, begin, end) as part:
            return part.read_all()

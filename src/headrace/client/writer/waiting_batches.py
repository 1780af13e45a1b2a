"""Batches of this iteration of the loop, not yet divided among segments: all of them are divided at once.
Pure.

With a thousand segments a batch has one or two events for each of them, and work per batch and segment would
be work per event. Each batch still learns exactly when its own events are durable.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from headrace.client.framing.event_frames import frame_ends, interleave
from headrace.client.segment_map import SegmentMap
from headrace.client.vectors import find_numpy

if TYPE_CHECKING:  # who waits for an ack needs a loop, and who splits or settles one does not
    from headrace.client.writer.ack import Ack

WAITING_EVENTS_MAX: Final = 32 * 1024
"""At this count batches should be divided: arrays about more events would not stay in the processor's cache.
"""

FEW_EVENTS: Final = 256
"""Fewer are looked at one by one: arrays would cost more."""


Share: TypeAlias = "tuple[int, list[Any], list[float], int, Sequence[Ack]]"
"""What one block of a segment gets: events in the order they were given in.

The segment; the events, each behind its header; where each belongs in the key space; the bytes of all; the
acks of the batches they came with, each of which counts the share as a part.
"""


class WaitingBatches:
    """Events in the order they were given in. Mutated by one owner."""

    __slots__ = ("_acks", "_counts", "_events", "_lengths", "_places", "_prefixes", "count")

    def __init__(self) -> None:
        self._events: list[bytes] = []
        self._lengths: list[int] = []
        self._prefixes: list[bytes] = []
        """What is in front of each event; empty as long as nothing is in front of any."""
        self._places: list[Any] = []
        self._acks: list[Ack] = []
        self._counts: list[int] = []
        self.count = 0
        """Events that wait."""

    def add(
        self,
        events: Sequence[bytes],
        lengths: list[int],
        places: Any,
        ack: Ack,
        prefixes: Sequence[bytes] | None = None,
    ) -> None:
        """Take a batch of at least one event.

        Args:
            events: they are referred to, not copied.
            lengths: of each event with its prefix; legal ones.
            places: a list or a numpy array, one position in the key space per event.
            ack: the batch's; it counts one part more until the batch is divided.
            prefixes: what is in front of each event; None: nothing.
        """
        if prefixes is not None or self._prefixes:
            self._prefixes += [b""] * (self.count - len(self._prefixes))
            self._prefixes += [b""] * len(events) if prefixes is None else prefixes
        ack.add_parts(1)
        self._events += events
        self._lengths += lengths
        self._places.append(places)
        self._acks.append(ack)
        self._counts.append(len(lengths))
        self.count += len(lengths)

    def take_shares(self, segments: SegmentMap, bytes_max: int) -> tuple[list[Share], list[Ack]]:
        """Remove all events and divide them among segments, in shares of at most ``bytes_max`` bytes.

        A larger event is a share alone.

        Returns:
            The shares, those of a segment in order, and the acks of the batches: the undivided part of each
            has to be settled once the shares are with their segments.
        """
        if not self.count:
            return [], []
        events, lengths, acks, counts = self._events, self._lengths, self._acks, self._counts
        prefixes = self._prefixes
        places = _joined(self._places, self.count)
        self.__init__()  # type: ignore[misc] # everything is taken
        ids, bounds, order = segments.arrange(places)
        indices = order if isinstance(order, list) else order.tolist()
        if lengths.count(lengths[0]) != len(lengths):
            lengths = [lengths[index] for index in indices]
        ids, bounds, sizes = _cut(ids, bounds, frame_ends(lengths), bytes_max)
        acks_of = _acks_of_shares(acks, counts, bounds, order)
        places = [places[index] for index in order] if order is indices else places[order].tolist()
        fronts = [prefixes[index] for index in indices] if prefixes else None
        parts = interleave([events[index] for index in indices], lengths, fronts)
        parts_of = [parts[2 * begin : 2 * end] for begin, end in pairwise(bounds)]
        places_of = [places[begin:end] for begin, end in pairwise(bounds)]
        return list(zip(ids, parts_of, places_of, sizes, acks_of, strict=True)), acks

    def check(self) -> None:
        """Assert that everything is there once per event or batch."""
        assert self.count == len(self._events) == len(self._lengths) == sum(self._counts)
        assert len(self._prefixes) in {0, self.count}
        assert len(self._counts) == len(self._acks) == len(self._places)


def _joined(places: list[Any], count: int) -> Any:
    """Return the places of all batches as one array, or as one list."""
    np = find_numpy() if count >= FEW_EVENTS else None
    if np is not None:
        return np.concatenate(places)
    return [place for each in places for place in (each if isinstance(each, list) else each.tolist())]


def _cut(
    ids: list[int], bounds: list[int], ends: Sequence[int], bytes_max: int
) -> tuple[list[int], list[int], list[int]]:
    """Cut shares that are larger than ``bytes_max``; return segments, bounds and sizes of all of them."""
    cut_ids, cut_bounds, sizes = [], [0], []
    before = 0
    for segment_id, bound in zip(ids, bounds[1:], strict=True):
        while (first := cut_bounds[-1]) < bound:
            after = bound
            if ends[bound - 1] - before > bytes_max:
                after = max(bisect_right(ends, before + bytes_max, first, bound), first + 1)
            cut_ids.append(segment_id)
            cut_bounds.append(after)
            sizes.append(ends[after - 1] - before)
            before = ends[after - 1]
    return cut_ids, cut_bounds, sizes


def _acks_of_shares(acks: list[Ack], counts: list[int], bounds: list[int], order: Any) -> list[list[Ack]]:
    """Return the acks of each share, after adding the number of its shares to each ack."""
    if len(acks) == 1:
        acks[0].add_parts(len(bounds) - 1)
        return [acks] * (len(bounds) - 1)
    if isinstance(order, list):
        found = _batches_of_lists(counts, bounds, order)
        for numbers in found:
            for number in numbers:
                acks[number].add_parts(1)
        return [[acks[number] for number in numbers] for numbers in found]
    np = find_numpy()
    assert np is not None  # it made the order
    # Order is stable: within a share the events of a batch are neighbours. See where the next batch begins.
    batch_of = np.repeat(np.arange(len(acks)), counts)[order]
    is_first = np.empty(len(order), np.bool_)
    np.not_equal(batch_of[1:], batch_of[:-1], out=is_first[1:])
    is_first[bounds[:-1]] = True
    firsts = np.flatnonzero(is_first)
    numbers = batch_of[firsts]
    for ack, parts in zip(acks, np.bincount(numbers, minlength=len(acks)).tolist(), strict=True):
        ack.add_parts(parts)
    flat = [acks[number] for number in numbers.tolist()]
    return [flat[begin:end] for begin, end in pairwise(firsts.searchsorted(bounds).tolist())]


def _batches_of_lists(counts: list[int], bounds: list[int], order: list[int]) -> list[list[int]]:
    batch_of = [number for number, count in enumerate(counts) for _ in repeat(None, count)]
    batches = [batch_of[index] for index in order]
    return [list(dict.fromkeys(batches[begin:end])) for begin, end in pairwise(bounds)]

"""Events with numbers that have no segment for a while, and how they find one again. Pure.

A segment takes numbers only as they rise. So once one is sealed, nothing more is sent until it is known what
every segment has; what none has is sorted by number, and goes where it belongs by then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.segment_map import SegmentMap
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.large_block import LargeBlock, LargeEvent
from headrace.client.writer.numbers import DurableNumbers, NumberedPlace

if TYPE_CHECKING:  # who waits for an ack needs a loop, and who divides events does not
    from headrace.client.writer.ack import Ack


class HeldEvents:
    """Takes events in place of a segment. Mutated by one owner."""

    __slots__ = ("_ack", "_acks", "_make_ack", "_parts", "_size", "places")

    def __init__(self, make_ack: Callable[[], Ack]) -> None:
        """``make_ack`` returns one that stands for one part."""
        self._make_ack = make_ack
        self._parts: list[Any] = []
        self.places: list[NumberedPlace] = []
        self._size = 0
        self._ack: Ack | None = None
        self._acks: list[Ack] = []

    def add_event(self, header: bytes, event: Any, place: NumberedPlace, size_bytes: int) -> Ack:
        """As :meth:`SegmentOutput.add_event`."""
        if self._ack is None:
            self._ack = self._make_ack()
            self._acks.append(self._ack)
        self._parts += (header, event)
        self.places.append(place)
        self._size += size_bytes
        return self._ack

    def add_events(
        self, parts: Sequence[Any], places: Sequence[NumberedPlace], size_bytes: int, acks: Sequence[Ack]
    ) -> None:
        """As :meth:`SegmentOutput.add_events`."""
        self._parts += parts
        self.places += places
        self._size += size_bytes
        self._acks += acks

    def add_barrier(self, barrier: Ack) -> None:
        """Let ``barrier`` wait for everything that was added before."""
        if self.places:
            barrier.add_parts(1)
            self._acks.append(barrier)

    def take_blocks(self) -> list[Block]:
        """Remove and return everything, as one block."""
        if not self.places:
            return []
        block = Block(self._parts, self._size, len(self.places), self.places, self._acks)
        self.__init__(self._make_ack)  # type: ignore[misc] # everything is taken
        return [block]


class MovedEvents:
    """Events of blocks that were not stored."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self._events: list[tuple[NumberedPlace, Any, Any, list[Ack]]] = []
        self._parts = Counter(ack for block in blocks for ack in block.acks)
        """In how many blocks an ack was."""
        for block in blocks:
            pieces = iter(block.pieces)
            for place, header, event in zip(block.places, pieces, pieces, strict=True):
                self._events.append((place, header, event, block.acks))
        self._events.sort(key=lambda each: each[0].number)

    def drop_durable(self, durable: DurableNumbers) -> tuple[int, int]:
        """Remove what is known to be durable; return how many events that are, and how many bytes."""
        left = [each for each in self._events if each[0].number > durable.at(each[0])]
        count, size = len(self._events) - len(left), _size(self._events) - _size(left)
        self._events = left
        return count, size

    def divide(self, segments: SegmentMap, bytes_max: int) -> list[tuple[int, Block]]:
        """Return blocks for the segments where the events belong, by rising numbers; settle what is left
        over of their acks.
        """
        by_segment: dict[int, list[tuple[NumberedPlace, Any, Any, list[Ack]]]] = {}
        for each in self._events:
            by_segment.setdefault(segments.segment_at(each[0]), []).append(each)
        blocks = [
            (segment_id, _block(some))
            for segment_id, events in by_segment.items()
            for some in _cut(events, bytes_max)
        ]
        parts = Counter(ack for _, block in blocks for ack in block.acks)
        for ack, count in self._parts.items():
            ack.add_parts(max(0, parts[ack] - count))
            for _ in range(count - parts[ack]):
                ack.settle_part()
        return blocks


def _size(events: Sequence[tuple[NumberedPlace, Any, Any, list[Ack]]]) -> int:
    return sum(len(header) + len(event) for _, header, event, _ in events)


def _cut(events: list[Any], bytes_max: int) -> list[list[Any]]:
    """Cut events into pieces of at most ``bytes_max``; a larger event is a piece alone."""
    pieces: list[list[Any]] = []
    size = 0
    for each in events:
        mine = _size([each])
        is_large = isinstance(each[2], LargeEvent)
        if not pieces or size + mine > bytes_max or is_large:
            pieces.append([])
            size = 0
        pieces[-1].append(each)
        size += mine if not is_large else bytes_max
    return pieces


def _block(events: list[Any]) -> Block:
    if isinstance(events[0][2], LargeEvent):
        place, _, event, acks = events[0]
        return LargeBlock(event, [place], acks)
    pieces = [piece for _, header, event, _ in events for piece in (header, event)]
    acks = dict.fromkeys(ack for *_, acks in events for ack in acks)
    return Block(pieces, _size(events), len(events), [each[0] for each in events], list(acks))

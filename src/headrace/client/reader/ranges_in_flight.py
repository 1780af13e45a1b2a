"""Which ranges of a segment were asked for and not answered yet: two at a time while both are known to exist,
so that the server reads the next one while the last one is in flight. Pure.

Answers may be shorter than the question and may overtake each other; blocks come out in order, without gaps.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from headrace.client.connections.reply_receiver import ReadBlock
from headrace.errors import ProtocolError

RANGES_MAX: Final = 2


@dataclass(slots=True)
class Range:
    """``[offset, end)`` is still missing; ``blocks`` wait for an earlier range."""

    offset: int
    end: int
    request_id: int
    is_asked: bool = True
    blocks: list[ReadBlock] = field(default_factory=list)


class RangesInFlight:
    """The questions of one read flow on one connection."""

    __slots__ = ("_ids", "_ranges", "offset")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        """Everything below has come out, in order."""
        self._ranges: deque[Range] = deque()
        self._ids: list[int] = []

    def __len__(self) -> int:
        return len(self._ranges)

    def begin(self, request_ids: list[int]) -> None:
        """Ask with these ids from now on."""
        assert len(request_ids) == RANGES_MAX
        self._ranges.clear()
        self._ids = list(request_ids)

    def ask(
        self, length_max: int, end: int | None, known_end: int, ranges_max: int
    ) -> tuple[int, int, int] | None:
        """Return what to ask for next as (offset, length, request id), or None.

        Args:
            length_max: of one question.
            end: where the flow ends, if it does.
            known_end: bytes below it exist. Only one question reaches beyond: the beginning of a second one
                would be unknown.
            ranges_max: most questions, those in flight included.
        """
        ranges = self._ranges
        if ranges and not ranges[0].is_asked:
            first = ranges[0]
            first.is_asked = True
            return first.offset, first.end - first.offset, first.request_id
        if len(ranges) >= min(ranges_max, RANGES_MAX):
            return None
        start = ranges[-1].end if ranges else self.offset
        length = length_max if end is None else min(length_max, end - start)
        if length <= 0 or (ranges and start + length > known_end):
            return None
        ranges.append(Range(start, start + length, self._ids.pop()))
        return start, length, ranges[-1].request_id

    def on_block(self, block: ReadBlock) -> list[ReadBlock]:
        """Take an answer; return the blocks that are in order now.

        Raises:
            ProtocolError: it answers no question.
        """
        found = self._find(block.request_id)
        if found is None or not found.is_asked or block.offset != found.offset:
            raise ProtocolError(f"data at {block.offset} was not requested")
        if block.offset + len(block) > found.end:
            raise ProtocolError(f"{len(block)} bytes at {block.offset} are more than were requested")
        found.offset += len(block)
        found.is_asked = False
        found.blocks.append(block)
        return self._take_in_order()

    def _take_in_order(self) -> list[ReadBlock]:
        ranges = self._ranges
        ordered: list[ReadBlock] = []
        while ranges:
            first = ranges[0]
            ordered += first.blocks
            first.blocks.clear()
            self.offset = first.offset
            # A short answer ends its range, unless the one behind was asked for already.
            if first.is_asked or (first.offset < first.end and len(ranges) > 1):
                break
            ranges.popleft()
            self._ids.append(first.request_id)
        return ordered

    def on_refusal(self, request_id: int) -> bool:
        """A question was refused. False if it was one ahead of its time: it will be asked again."""
        found = self._find(request_id)
        if found is None or found is self._ranges[0]:
            return True
        self._ranges.remove(found)
        self._ids.append(request_id)
        return False

    def _find(self, request_id: int) -> Range | None:
        for found in self._ranges:
            if found.request_id == request_id:
                return found
        return None

    def clear(self) -> None:
        """Nothing will be answered any more."""
        self._ranges.clear()

    def check(self) -> None:
        """Assert the invariants."""
        position = self.offset
        for number, found in enumerate(self._ranges):
            waiting = sum(map(len, found.blocks))
            assert found.offset - waiting == position
            assert position <= found.offset <= found.end
            assert number or not waiting
            position = found.end
        assert len(self._ranges) <= RANGES_MAX

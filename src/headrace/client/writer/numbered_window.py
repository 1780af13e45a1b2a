"""What one segment has been given under numbers of the application, and has not acknowledged. Pure.

The first answer of a segment may tell of events that an earlier process of the same name has written, the
last of which arrived just now: they are durable, and are dropped here. A later answer that tells of numbers
which this process did not send means that another one writes under the name.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.client.writer.inflight_window import Block, InflightWindow
from headrace.client.writer.numbers import NONE
from headrace.errors import DataCorruptionError, WriterReplacedError


class NumberedWindow(InflightWindow):
    """Blocks whose places are :class:`NumberedPlace` and whose pieces are two for each event."""

    __slots__ = ("_is_own", "_name", "_on_found", "_segment")

    def __init__(self, name: str, segment: str, on_found: Callable[[int], None]) -> None:
        """``on_found`` is called with the number of an earlier process, if there is one."""
        super().__init__()
        self._last_number = self.acknowledged_number = NONE
        self._name = name
        self._segment = segment
        self._on_found = on_found
        self._is_own = False

    @property
    def is_own(self) -> bool:
        """An append of this process was acknowledged: none of an earlier one can follow it."""
        return self._is_own

    def add(self, block: Block) -> None:
        """Queue a block under the number of its last event."""
        assert self._last_number < block.places[0].number
        self._last_number = block.last_number = block.places[-1].number
        self._unsent.append(block)
        self.bytes_unsent += block.size_bytes

    def on_appended(self, previous_number: int, number: int) -> list[Block]:
        """See :meth:`InflightWindow.on_appended`."""
        done = super().on_appended(previous_number, number)
        self._is_own = True
        return done

    def on_setup(self, last_number: int) -> list[Block]:
        """See :meth:`InflightWindow.on_setup`.

        Raises:
            WriterReplacedError: another process has written under this name; nothing changed.
        """
        known = self.acknowledged_number
        last_number = max(last_number, NONE)
        if last_number < known:
            raise DataCorruptionError(f"the server acknowledged event {known} and now has {last_number}")
        if last_number == known:
            self._queue_again()
            return []
        if any(block.last_number == last_number for block in self._sent):
            done = self._pop_acknowledged(last_number)
            self._queue_again()
            return done
        if self._is_own:
            raise WriterReplacedError(self._name, self._segment, last_number)
        return self._drop(last_number)

    def _drop(self, number: int) -> list[Block]:
        """Remove and return what an earlier process has made durable."""
        self._queue_again()
        done = []
        for block in self.drain():
            if block.places[0].number > number:
                self._unsent.append(block)
            elif block.last_number <= number:
                done.append(block)
            else:
                first, rest = _cut(block, number)
                done.append(first)
                self._unsent.append(rest)
        self.bytes_unsent = sum(block.size_bytes for block in self._unsent)
        self.acknowledged_number = number
        self._last_number = max(self._last_number, number)
        self._on_found(number)
        return done


def _cut(block: Block, number: int) -> tuple[Block, Block]:
    """Divide a block behind the events up to ``number``; its acks wait for both parts."""
    count = sum(place.number <= number for place in block.places)
    for ack in block.acks:
        ack.add_parts(1)
    return _part(block, 0, count), _part(block, count, len(block.places))


def _part(block: Block, first: int, after: int) -> Block:
    pieces = block.pieces[2 * first : 2 * after]
    places = block.places[first:after]
    part = Block(pieces, sum(map(len, pieces)), len(places), places, list(block.acks))
    part.last_number = places[-1].number
    return part

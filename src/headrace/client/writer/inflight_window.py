"""What one segment has been given and has not acknowledged, in order: the memory behind exactly-once. Pure.

Blocks are numbered when they enter and keep number, bytes and bounds until they are acknowledged: a server
stores each of them as a unit and remembers the last number, so after a reconnect that number says exactly
which blocks to repeat.

Source: protocol, "Event numbers, acknowledgements, in-flight queue" and "Writer setup".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.client.writer.places import Places
from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    LostReplyError,
    ProtocolError,
    UnknownOutcomeError,
)
from headrace.wire.fields import Buffer

if TYPE_CHECKING:  # who waits for an ack needs a loop, and who splits or settles one does not
    from headrace.client.writer.ack import Ack


class Block:
    """Events that are stored as a unit: one append. Its bytes do not change once it is in a window.

    ``pieces`` are its bytes as they came; they are joined where they are sent, in memory that is still warm
    then. ``places`` decide where its events go if the segment is sealed first; see
    :mod:`headrace.client.writer.places`.
    """

    __slots__ = ("acks", "event_count", "is_in_doubt", "last_number", "pieces", "places", "size_bytes")
    is_large = False
    """It does not fit into an append."""

    def __init__(
        self,
        pieces: Sequence[Buffer],
        size_bytes: int,
        event_count: int,
        places: Places,
        acks: list[Ack],
    ) -> None:
        self.pieces = pieces
        self.size_bytes = size_bytes
        self.event_count = event_count
        self.places = places
        self.acks = acks
        self.last_number = 0
        self.is_in_doubt = False
        """It was sent since the server last said what it has."""

    def to_bytes(self) -> Buffer:
        """Return all of it in one piece."""
        return self.pieces[0] if len(self.pieces) == 1 else b"".join(self.pieces)

    def fail(self, error: HeadraceError) -> None:
        """Settle the acks of this block with ``error``.

        If the block was sent and its outcome is unknown, they get an error that says so instead of ``error``.
        """
        if self.is_in_doubt and not isinstance(error, UnknownOutcomeError):
            doubt = LostReplyError(f"it is unknown whether the append is durable; then: {error}")
            doubt.__cause__ = error
            error = doubt
        for ack in self.acks:
            ack.settle_part(error)


@dataclass(slots=True)
class InflightStatistics:
    """Blocks and bytes not acknowledged, of which some are sent; the number of the last event."""

    blocks: int
    bytes: int
    blocks_sent: int
    bytes_sent: int
    last_number: int
    acknowledged_number: int


class InflightWindow:
    """Blocks of one wire writer, first in, first out: a prefix is sent, the rest is not. Mutated by one
    owner.
    """

    __slots__ = (
        "_last_number",
        "_sent",
        "_unsent",
        "acknowledged_number",
        "bytes_sent",
        "bytes_unsent",
    )

    def __init__(self) -> None:
        self._sent: deque[Block] = deque()
        self._unsent: deque[Block] = deque()
        self._last_number = 0
        self.acknowledged_number = 0
        self.bytes_sent = 0
        self.bytes_unsent = 0

    def __len__(self) -> int:
        return len(self._sent) + len(self._unsent)

    @property
    def blocks_sent(self) -> int:
        return len(self._sent)

    @property
    def unacknowledged_bytes(self) -> int:
        return self.bytes_sent + self.bytes_unsent

    def add(self, block: Block) -> None:
        """Number a block and queue it."""
        assert block.event_count > 0
        self._last_number += block.event_count
        block.last_number = self._last_number
        self._unsent.append(block)
        self.bytes_unsent += block.size_bytes

    def has_unsent(self) -> bool:
        return bool(self._unsent)

    @property
    def next_large(self) -> Block | None:
        """The next block to send, if it does not fit into an append."""
        return self._unsent[0] if self._unsent and self._unsent[0].is_large else None

    def take_first(self) -> Block:
        """Remove and return the next block to send: it will not be."""
        block = self._unsent.popleft()
        self.bytes_unsent -= block.size_bytes
        return block

    def take_unsent(self, bytes_max: int) -> list[Block]:
        """Return the next blocks to send, of at least one, as one append; they count as sent from now on.

        Blocks that had to wait travel together, up to ``bytes_max``: the server stores them as a unit, so the
        number it remembers is still that of a block's last event. The first goes whatever its size.
        """
        unsent = self._unsent
        first = unsent.popleft()
        first.is_in_doubt = True
        size, taken = first.size_bytes, [first]
        while unsent and size + unsent[0].size_bytes <= bytes_max and not unsent[0].is_large:
            block = unsent.popleft()
            block.is_in_doubt = True
            size += block.size_bytes
            taken.append(block)
        self._sent.extend(taken)
        self.bytes_unsent -= size
        self.bytes_sent += size
        return taken

    def on_appended(self, previous_number: int, number: int) -> list[Block]:
        """The server acknowledged everything up to ``number``; return the blocks that are durable now.

        Raises:
            ProtocolError: the acknowledgement does not continue what is known. The connection is not to be
                trusted; nothing changed.
        """
        sent = self._sent
        if not sent or not previous_number < number:
            raise ProtocolError(f"unexpected acknowledgement of event {number} after {previous_number}")
        if sent[0].last_number == number:  # one block per acknowledgement is the common case
            block = sent.popleft()
            self.bytes_sent -= block.size_bytes
            self.acknowledged_number = number
            return [block]
        if not sent[0].last_number > previous_number:
            raise ProtocolError(f"event {sent[0].last_number} was passed over before {number}")
        return self._pop_acknowledged(number)

    def on_setup(self, last_number: int) -> list[Block]:
        """A connection was set up; the server has everything up to ``last_number`` (negative: nothing).

        Returns:
            The blocks that are durable although no acknowledgement came. All later ones count as not sent.

        Raises:
            DataCorruptionError: the server has lost what it acknowledged; nothing changed.
            ProtocolError: the server cannot have what it claims; nothing changed.
        """
        if last_number < self.acknowledged_number and (last_number >= 0 or self.acknowledged_number):
            raise DataCorruptionError(
                f"the server acknowledged event {self.acknowledged_number} and now has {last_number}"
            )
        done = self._pop_acknowledged(last_number) if last_number > self.acknowledged_number else []
        self._queue_again()
        return done

    def _queue_again(self) -> None:
        """What was sent counts as not sent."""
        self.on_refused()
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()
        self.bytes_unsent += self.bytes_sent
        self.bytes_sent = 0

    def on_refused(self) -> None:
        """The server said, or is known, not to have what is left: nothing of it is in doubt."""
        for block in self:
            block.is_in_doubt = False

    def _pop_acknowledged(self, number: int) -> list[Block]:
        sent = self._sent
        count = 0
        for block in sent:
            if block.last_number > number:
                break
            count += 1
        if not count or sent[count - 1].last_number != number:
            # Blocks are stored as units, so a number between their last events cannot be.
            raise ProtocolError(f"event {number} is not the last one of a block that was sent")
        done = [sent.popleft() for _ in range(count)]
        self.bytes_sent -= sum(block.size_bytes for block in done)
        self.acknowledged_number = number
        return done

    def drain(self) -> list[Block]:
        """Remove and return all blocks in order: they go elsewhere, or fail."""
        blocks = [*self._sent, *self._unsent]
        self._sent.clear()
        self._unsent.clear()
        self.bytes_sent = self.bytes_unsent = 0
        return blocks

    def __iter__(self) -> Iterator[Block]:
        yield from self._sent
        yield from self._unsent

    def statistics(self) -> InflightStatistics:
        return InflightStatistics(
            blocks=len(self),
            bytes=self.unacknowledged_bytes,
            blocks_sent=self.blocks_sent,
            bytes_sent=self.bytes_sent,
            last_number=self._last_number,
            acknowledged_number=self.acknowledged_number,
        )

    def check(self) -> None:
        """Assert order and sums."""
        numbers = [block.last_number for block in self]
        assert numbers == sorted(set(numbers))
        assert all(self.acknowledged_number < number <= self._last_number for number in numbers)
        assert self.bytes_sent == sum(block.size_bytes for block in self._sent)
        assert self.bytes_unsent == sum(block.size_bytes for block in self._unsent)

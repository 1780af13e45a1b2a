"""One table in use: its state and its appends in flight."""

from __future__ import annotations

import asyncio

from headrace.errors import OffsetMismatchError
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.table_state import Batch, TableState
from headrace.segmentstore.tables.update_batch import UpdateBatch


class OpenTable:
    """A table whose index is in memory. After any await its caller asks whether it is still the table to
    use.
    """

    def __init__(
        self,
        access: SegmentAccess,
        segment: SegmentState,
        state: TableState,
        key_length: int,
    ) -> None:
        self.segment = segment
        self.state = state
        self.key_length = key_length
        self.retired = False
        """Set once it must not be used for new requests; its appends in flight still complete."""
        self.compacting = False
        self.open_batch: UpdateBatch | None = None
        """Accepted at the tail, and not handed to the log before the next iteration of the loop."""
        self._access = access
        self._appending = 0
        self._given_up = 0
        """Appends that were accepted here and never by the log."""
        self._ended: asyncio.Future[None] | None = None
        """Done when the next append in flight has ended, well or not."""

    @property
    def is_idle(self) -> bool:
        if self._appending or self.compacting or self.open_batch is not None:
            return False
        if self.state.in_flight_count and not self.retired:
            self.settle()  # the caller of the append was cancelled: nothing else would
        # The state of a retired table may be void: what it takes to be in flight may never come.
        return self.retired or not self.state.in_flight_count

    @property
    def is_drained(self) -> bool:
        """Whether no append is in flight."""
        return not self._appending and self.open_batch is None

    @property
    def log_bytes(self) -> int:
        return self.state.durable_end - self.segment.accepted_start_offset

    def settle(self) -> None:
        """Move into the index what has become durable."""
        state = self.state
        durable_length = self.segment.durable_length
        if durable_length > state.durable_end and state.in_flight_count:
            state.settle(durable_length)

    async def wait_durable(self, end: int) -> bool:
        """Wait until the log is durable up to ``end``, which the state has reached. Fails as the container
        fails.

        Returns:
            Whether it is. If not, the state has changed in another way; look at it again.
        """
        segment, given_up = self.segment, self._given_up
        while end > segment.accepted_length:
            # An append in flight may still be refused: then these bytes would never come.
            if self._ended is None:
                self._ended = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)
            self.settle()
            if self.retired or self._given_up != given_up:
                return False  # even if the log is that long by now: other bytes may be there
        if end > segment.durable_length:
            # A reader waiting at the tail is woken by exactly that.
            (await self._access.read(segment, end - 1, 1, wait=True)).release()
        self.settle()
        return segment.durable_length >= end

    # ---- appending

    async def append(self, batch: Batch, data: bytes) -> bool:
        """Append ``batch`` at the accepted tail, return when it is durable and in the index.

        The offset is reserved before the first await, although the container may queue the append.

        Returns:
            False if nothing was appended because an append in front of it was refused or given up: the
            state it was judged by never came to be. The table is retired then; judge again with its
            successor.
        """
        assert self.open_batch is None, "what is in front of it would come behind it"
        self.state.accept(batch)
        return await self._append_accepted(batch, data)

    async def append_open_batch(self) -> bool:
        """Append the open batch, as :meth:`append` does; what comes from now on is not added to it."""
        batch, self.open_batch = self.open_batch, None
        assert batch is not None
        return await self._append_accepted(batch, b"".join(batch.pieces))

    async def _append_accepted(self, batch: Batch, data: bytes) -> bool:
        state, segment = self.state, self.segment
        self._appending += 1
        try:
            offset = await self._access.append(segment, data, (), batch.offset)
            assert offset == batch.offset
            self.settle()
        except OffsetMismatchError:
            self.retired = True
            return False
        except BaseException:
            # What was accepted completes without a caller; what was not must leave the state.
            if segment.accepted_length < batch.end:
                self._given_up += 1
                if not state.retract(batch):
                    self.retired = True
            raise
        finally:
            self._appending -= 1
            if self._ended is not None:
                ended, self._ended = self._ended, None
                if not ended.done():
                    ended.set_result(None)
        return True

    async def wait_batch_sent(self) -> None:
        """Wait until no batch is open, which takes an iteration of the loop: an append would overtake it."""
        while self.open_batch is not None:  # noqa: ASYNC110 - an event would cost each batch one
            await asyncio.sleep(0)

    async def wait_drained(self) -> None:
        """Wait until no append is in flight."""
        while not self.is_drained:
            if self._ended is None:
                self._ended = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._ended)

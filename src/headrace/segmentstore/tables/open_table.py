"""One table in use: its state, its appends under way and those who wait for room."""

from __future__ import annotations

import asyncio
from collections import deque

from headrace.errors import HeadraceError, OffsetMismatchError, ThrottledError
from headrace.segmentstore.container.segment_state import SegmentState
from headrace.segmentstore.contract import SegmentAccess
from headrace.segmentstore.tables.config import TablesConfig
from headrace.segmentstore.tables.table_index import REMOVED, location_version
from headrace.segmentstore.tables.table_state import Batch, TableState
from headrace.segmentstore.tables.value_cache import ValueCache


class OpenTable:
    """A table whose index is in memory. After any await its caller asks whether it is still the table to
    use.
    """

    def __init__(
        self,
        access: SegmentAccess,
        config: TablesConfig,
        segment: SegmentState,
        state: TableState,
        cache: ValueCache,
        number: int,
        key_length: int,
    ) -> None:
        self.segment = segment
        self.state = state
        self.number = number
        """Names this table in the value cache; never used twice."""
        self.key_length = key_length
        self.retired = False
        """Set once it must not be used for new requests; its appends under way still complete."""
        self.compacting = False
        self._access = access
        self._config = config
        self._cache = cache
        self._failure: HeadraceError | None = None
        self._appending = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._drained: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not (self._appending or self._waiting or self.compacting or self.state.in_flight_count)

    @property
    def is_drained(self) -> bool:
        """Whether no append is under way."""
        return not self._appending

    @property
    def log_bytes(self) -> int:
        return self.state.durable_end - self.segment.accepted_start_offset

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def settle(self) -> None:
        """Move into the index what has become durable."""
        state = self.state
        durable_length = self.segment.durable_length
        if durable_length > state.durable_end and state.in_flight_count:
            state.settle(durable_length, self._on_applied)

    async def wait_durable(self, end: int) -> None:
        """Wait until the log is durable up to ``end``. Fails as the container fails."""
        if end > self.segment.durable_length:
            # A reader waiting at the tail is woken by exactly that.
            (await self._access.read(self.segment, end - 1, 1, wait=True)).release()
        self.settle()

    # ---- room for updates

    @property
    def has_room(self) -> bool:
        return not self._waiting and (
            self.state.in_flight_bytes < self._config.in_flight_bytes_max or not self._appending
        )

    async def wait_room(self) -> None:
        """Wait for this caller's turn to append; who waits longest goes first.

        Raises:
            ThrottledError: too many wait already.
        """
        if len(self._waiting) >= self._config.waiting_count_max:
            raise ThrottledError(f"{len(self._waiting)} updates of table {self.segment.name!r} wait already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except BaseException:
            if turn.done() and not turn.cancelled():
                self.pass_turn()
            else:
                self._waiting.remove(turn)
            raise

    def pass_turn(self) -> None:
        """Let the next caller append if there is room."""
        while self._waiting and (
            self.retired
            or self.state.in_flight_bytes < self._config.in_flight_bytes_max
            or not self._appending
        ):
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                if not self.retired:
                    return

    # ---- appending

    async def append(self, batch: Batch, data: bytes) -> None:
        """Append ``batch`` at the accepted tail, return when it is durable and in the index.

        Everything up to the acceptance happens before the first await.

        Raises:
            ThrottledError: an update before this one was refused, so this one was, too.
        """
        state, segment = self.state, self.segment
        state.accept(batch)
        self._appending += 1
        if self._waiting:
            self.pass_turn()
        try:
            offset = await self._access.append(segment, data, (), batch.offset)
            assert offset == batch.offset
            self.settle()
        except BaseException as error:
            # What has been accepted completes whoever listens; what has not must leave the state.
            if segment.accepted_length < batch.end and not state.retract(batch):
                self._on_void(error)
            if isinstance(error, OffsetMismatchError):
                self._on_void(error)
                raise self._failure or ThrottledError("the table changed underneath; send again") from error
            raise
        finally:
            self._appending -= 1
            if self._waiting:
                self.pass_turn()
            if self._drained is not None and not self._appending and not self._drained.done():
                self._drained.set_result(None)

    def retire(self) -> None:
        """Use this table no more; those who wait look for the new one."""
        self.retired = True
        self.pass_turn()

    async def wait_drained(self) -> None:
        """Wait until no append is under way."""
        if self._appending:
            if self._drained is None:
                self._drained = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._drained)

    def _on_void(self, error: BaseException) -> None:
        """Updates were judged by one that never happened; their appends miss their offset and are refused."""
        if self._failure is None:
            self._failure = ThrottledError(
                f"an earlier update of table {self.segment.name!r} was refused ({error!r}); send again"
            )
        self.retire()

    def _on_applied(self, location: int, value: bytes | None, before: int) -> None:
        if before != REMOVED and (
            location == REMOVED or location_version(before) != location_version(location)
        ):
            self._cache.discard(self.number, location_version(before))
        if location != REMOVED and value is not None:
            self._cache.put(self.number, location_version(location), value)

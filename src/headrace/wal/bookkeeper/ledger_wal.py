"""The write-ahead log over BookKeeper: a row of ledgers, and a node that says whose it is.

This is its face. What is decided is in the plans; ``appending`` has the frames. Addresses number the frames
of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Final

from headrace.errors import ClosedError, DataCorruptionError, SnapshotLostError, WalWriteError
from headrace.wal.bookkeeper.appending import LedgerAppending
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.ledger_io import read_ledger, recover_ledger
from headrace.wal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState, as_closed
from headrace.wal.bookkeeper.log_changes import (
    check_row,
    find_freed,
    forget_ledgers,
    next_address,
    truncate_log,
)
from headrace.wal.bookkeeper.log_node import LogNode
from headrace.wal.bookkeeper.next_ledger import LedgerMaker
from headrace.wal.bookkeeper.owned_log import OwnedLog
from headrace.wal.bookkeeper.renewed_session import wal_errors
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalFrame, WalRecord, WalStatistics
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FrameLender, FramePool

_AT_ONCE: Final = 16
"""Ledgers whose metadata are read at the same time."""
_FENCE_CHECK_S: Final = 5.0


class BookKeeperWal(FrameLender):
    """A ``Wal`` of ``container``, whose node is at ``path``. ``frames``: shared with other logs."""

    def __init__(
        self,
        maker: LedgerMaker,
        path: str,
        container: int,
        config: WalConfig | None = None,
        ledgers: LedgerLogConfig | None = None,
        *,
        frames: FrameMemory | None = None,
    ) -> None:
        config = WalConfig() if config is None else config
        super().__init__(FramePool(config.frame_bytes_max, config.frames_max, frames))
        self._maker = maker
        self._place = f"the log of container {container} at {path}"
        self._config = LedgerLogConfig() if ledgers is None else ledgers
        self._log = OwnedLog(maker.store.nodes, path, container)
        self._known: dict[int, LedgerMetadata] = {}
        self._statistics = WalStatistics()
        self._truncating = asyncio.Lock()
        self._appending: LedgerAppending | None = None
        self._appended = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def _open(self) -> LedgerAppending:
        assert self._appending is not None  # open it first
        return self._appending

    @property
    def epoch(self) -> int:
        assert self._appending is not None
        return self._log.node.container_epoch

    async def open(self) -> None:
        """Take ownership; see ``Wal.open``. The ledger that is not closed is fenced and recovered."""
        assert self._closing is None
        with wal_errors(self._place):
            await self._log.take()
            node = await self._delete_freed()  # a former owner may have deleted them, and not have said so
            slots = asyncio.Semaphore(_AT_ONCE)

            async def end(number: int) -> None:
                async with slots:
                    self._known[number] = await recover_ledger(self._maker.store, number)

            await asyncio.gather(*(end(each.ledger) for each in node.ledgers))
        if self._closing is not None:
            raise ClosedError(f"{self._place} was closed while it was opened")
        check_row(node, {number: ledger.last_entry for number, ledger in self._known.items()})
        last = self._known[node.ledgers[-1].ledger].last_entry if node.ledgers else None
        self._appending = LedgerAppending(
            self._maker, self._log, self._known, next_address(node, last), self._config, self._statistics
        )

    # ---- reading back

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        """Iterate the log; see ``Wal.records``."""
        assert not self._appended
        record = WalRecord(0, memoryview(b""))
        async with contextlib.aclosing(self._read()) as pieces:
            async for piece in pieces:
                for record.address, record.payload in piece:
                    yield record

    async def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """See ``Wal.copy_records``."""
        began = self._log.node.truncation_address
        async with contextlib.aclosing(self._read()) as pieces:
            try:
                async for piece in pieces:
                    yield [bytes(payload) for _, payload in piece]
            except (DataCorruptionError, WalWriteError) as error:
                if self._log.node.truncation_address != began:
                    raise SnapshotLostError("the log was truncated while it was copied") from error
                raise

    async def _read(self) -> AsyncGenerator[list[tuple[int, memoryview]], None]:
        """Read what the log holds now, some entries at a time, with their addresses."""
        node = self._log.node
        parts = [(each, self._as_closed(each.ledger)) for each in node.ledgers]
        with wal_errors(self._place):
            for place, ledger in parts:
                first = max(0, node.truncation_address - place.first_address)
                entries = read_ledger(self._maker.store, place.ledger, ledger, first)
                async with contextlib.aclosing(entries) as found:
                    async for some in found:
                        yield [(place.first_address + entry.entry, entry.payload) for entry in some]

    def _as_closed(self, number: int) -> LedgerMetadata:
        ledger = self._known[number]
        if ledger.state is LedgerState.CLOSED:
            return ledger
        return as_closed(ledger, self._open.confirmed_of(number))

    # ---- appending

    @property
    def slots_free(self) -> int:
        return max(0, self._config.window - self._open.frames_pending)

    @property
    def write_seconds_last(self) -> float:
        return self._statistics.write_seconds_last

    def append(self, frame: WalFrame, done: Callable[[WalFrame, Exception | None], None]) -> None:
        frame = self._pool.lent(frame)
        assert self._closing is None
        self._appended = True
        self._open.append(frame, done)

    # ---- truncating

    async def separate(self) -> None:
        """See ``Wal.separate``."""
        self._open.separate()

    async def truncate(self, address: int) -> None:
        """Drop records before ``address``; see ``Wal.truncate``. Whole ledgers are deleted."""
        end = self._open.next_address
        async with self._truncating:
            with wal_errors(self._place):
                await self._log.change(lambda node: truncate_log(node, address, end))
                await self._delete_freed()

    async def _delete_freed(self) -> LogNode:
        """Delete ledgers that hold nothing but truncated records, and forget them."""
        freed = find_freed(self._log.node)
        for ledger in freed:
            await self._maker.store.delete(ledger)
        node = await self._log.change(lambda node: forget_ledgers(node, freed))
        for ledger in freed:
            self._known.pop(ledger, None)
        return node

    async def purge_freed(self) -> bool:
        """See ``Wal.purge_freed``. The bytes are gone when the bookies compact."""
        await self.truncate(0)
        node = self._log.node
        return not node.ledgers or node.truncation_address <= node.ledgers[0].first_address

    # ---- ending

    async def is_fenced(self) -> bool:
        """See ``Wal.is_fenced``."""
        if self._appending is not None and self._closing is None:
            with contextlib.suppress(WalWriteError, TimeoutError), wal_errors(self._place):
                async with asyncio.timeout(_FENCE_CHECK_S):
                    return await self._log.is_taken()
        return False

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        if self._appending is not None:
            self._appending.stop_waiting()

    async def close(self) -> None:
        """Wait for frames in flight; see ``Wal.close``."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        if self._appending is not None:
            self._appending.stop_waiting()
            await self._appending.wait_idle()
            await self._appending.end()
        self._pool.close()

    def statistics(self) -> WalStatistics:
        statistics = self._statistics.copy()
        statistics.frames_free = self._pool.frames_free
        if self._appending is not None:
            self._appending.fill_statistics(statistics)
        return statistics

    def check(self) -> None:
        """Assert the invariants."""
        self._pool.check()

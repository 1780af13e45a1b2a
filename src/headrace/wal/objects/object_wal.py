"""The write-ahead log in a bucket: each record is an object that is created once.

This is its face. What is decided is in the plans; ``appending`` has the frames, ``object_calls`` the store.
Addresses number the frames of the log.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

from headrace.errors import (
    ClosedError,
    DataCorruptionError,
    SnapshotLostError,
    StorageFullError,
    WalWriteError,
)
from headrace.limits import MIB
from headrace.runtime.entropy import Entropy
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalFrame, WalRecord, WalStatistics
from headrace.wal.frame_memory import FrameMemory
from headrace.wal.frame_pool import FrameLender, FramePool
from headrace.wal.objects.appending import Appending
from headrace.wal.objects.config import ObjectLogConfig
from headrace.wal.objects.living_log import LivingRecord, RecordChain
from headrace.wal.objects.log_objects import LogObjects
from headrace.wal.objects.object_calls import ObjectCalls
from headrace.wal.objects.object_format import WRITE_ID_BYTES, LogObject
from headrace.wal.objects.object_names import head_prefix, parse_listing, record_name
from headrace.wal.objects.opening_plan import TakenLog, open_log
from headrace.wal.objects.truncation_plan import check_fence, delete_garbage, truncate_log

_READ_AHEAD: Final = 32
"""Records: most are small, and a read takes as long as an answer of the store."""

_READ_AHEAD_BYTES_MAX: Final = 16 * MIB


class ObjectWal(FrameLender):
    """A ``Wal`` of ``container`` in ``store``, which stays open. ``frames``: shared with other logs."""

    def __init__(
        self,
        store: LogObjects,
        container: int,
        entropy: Entropy,
        config: WalConfig | None = None,
        objects: ObjectLogConfig | None = None,
        *,
        frames: FrameMemory | None = None,
    ) -> None:
        config = WalConfig() if config is None else config
        super().__init__(FramePool(config.frame_bytes_max, config.frames_max, frames))
        self._container = container
        self._config = ObjectLogConfig() if objects is None else objects
        self._calls = ObjectCalls(store)
        self._write_id = entropy.token(WRITE_ID_BYTES)
        self._statistics = WalStatistics()
        self._truncating = asyncio.Lock()
        self._taken: TakenLog | None = None
        self._appending: Appending | None = None
        self._appended = False
        self._closing: asyncio.Future[None] | None = None

    @property
    def _log(self) -> TakenLog:
        assert self._taken is not None  # open it first
        return self._taken

    @property
    def _open(self) -> Appending:
        assert self._appending is not None  # open it first
        return self._appending

    @property
    def epoch(self) -> int:
        return self._log.container_epoch

    async def open(self) -> None:
        """Take ownership; see ``Wal.open`` and ``open_log``."""
        assert self._closing is None
        taken = await self._calls.run(open_log(self._container, self._write_id, self._config.window))
        if self._closing is not None:
            raise ClosedError(f"the log of container {self._container} was closed while it was opened")
        self._taken = taken
        self._appending = Appending(
            self._calls, taken.living, taken.container_epoch, self._write_id, self._config, self._statistics
        )

    # ---- reading back

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        """Iterate the log; see ``Wal.records``. Reads some records ahead."""
        assert not self._appended
        living = self._log.living
        chain = RecordChain(living.head)
        record = WalRecord(0, memoryview(b""))
        async with contextlib.aclosing(self._read_records(list(living.records))) as found_records:
            async for found, name, of in found_records:
                of.address = found.header.address
                for record.address, record.payload in chain.frames_of(found, name):
                    yield record

    async def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        """See ``Wal.copy_records``. One record of the store at a time."""
        living = self._log.living
        head = living.head
        chain = RecordChain(head)
        async with contextlib.aclosing(self._read_records(list(living.records))) as found_records:
            try:
                async for found, name, _ in found_records:
                    yield [bytes(frame) for _, frame in chain.frames_of(found, name)]
            except (DataCorruptionError, WalWriteError) as error:
                if living.head != head:
                    raise SnapshotLostError("the log was truncated while it was copied") from error
                raise

    async def _read_records(
        self, records: Sequence[LivingRecord]
    ) -> AsyncGenerator[tuple[LogObject, str, LivingRecord], None]:
        """Read records in order, some at the same time.

        Raises:
            DataCorruptionError: one is damaged, or missing.
            WalWriteError: the store does not answer; or the log was truncated meanwhile by a former owner.
        """
        ahead: deque[tuple[LivingRecord, str, asyncio.Task[LogObject | None]]] = deque()
        ahead_bytes = next_index = 0
        loop = asyncio.get_running_loop()
        try:
            while ahead or next_index < len(records):
                while next_index < len(records) and len(ahead) < _READ_AHEAD:
                    record = records[next_index]
                    if ahead and ahead_bytes + record.length > _READ_AHEAD_BYTES_MAX:
                        break
                    name = record_name(self._container, record.position)
                    ahead.append((record, name, loop.create_task(self._calls.read(name, record.length))))
                    ahead_bytes += record.length
                    next_index += 1
                record, name, reading = ahead[0]
                found = await reading
                ahead.popleft()
                ahead_bytes -= record.length
                if found is None:
                    await self._explain_missing(name)
                    raise DataCorruptionError("a record of the log is missing", path=name)
                yield found, name, record
        finally:
            tasks = [task for *_, task in ahead]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _explain_missing(self, name: str) -> None:
        listing = parse_listing(await self._calls.list_lengths(head_prefix(self._container)), self._container)
        if listing.head != self._log.living.head:
            raise WalWriteError(
                f"a former owner truncated the log of container {self._container} while {name} was read: "
                "open it again"
            )

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
        """Drop records before ``address``; see ``Wal.truncate``. By whole objects in the store."""
        log = self._log
        async with self._truncating:
            try:
                await self._calls.run(truncate_log(log.living, log.garbage, log.container_epoch, address))
            except StorageFullError as error:
                raise WalWriteError(
                    f"truncating the log of container {self._container} failed: {error}"
                ) from error

    async def purge_freed(self) -> bool:
        """See ``Wal.purge_freed``."""
        log = self._log
        await self.truncate(0)
        async with self._truncating:
            await self._calls.run(delete_garbage(log.garbage))
            if log.garbage:
                raise WalWriteError(f"{log.garbage[0]} was not deleted from the store of the log")
        return not log.living.begins_inside_a_record

    # ---- ending

    async def is_fenced(self) -> bool:
        """See ``Wal.is_fenced``."""
        if self._taken is not None and self._closing is None:
            with contextlib.suppress(WalWriteError):
                return await self._calls.run(check_fence(self._container, self._taken.container_epoch))
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
            self._appending.end()
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
        if self._appending is not None:
            self._appending.check()

"""Makes truncated bytes of a container unreadable: in the log, in long-term storage and in copies of the log.

::

    log: separated, checkpoint, everything before it stored, what that freed purged
    -> chunks that straddle a start offset rewritten -> storage checkpoints renewed -> garbage deleted

Each step is safe to repeat, and a purge that failed is repeated as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from headrace.errors import ThrottledError
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.storagewriter.storage_writer import StorageWriter
from headrace.storage.checkpoints.storage_checkpoints import StorageCheckpoints
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.wal.contract import Wal

_ATTEMPTS_MAX: Final = 6
"""How often the log is separated until it has no freed bytes: three times in files, if there is space."""

_STORED_WITHIN_S: Final = 300.0

_LOOK_S: Final = 0.1
"""Under load there is always something to store, long after the log was truncated."""


class Purge:
    """The purges of one container, one at a time. Used on its loop."""

    def __init__(
        self,
        wal: Wal,
        log: DurableLog,
        writer: StorageWriter,
        storage: ChunkedSegmentStorage,
        checkpoints: StorageCheckpoints | None,
    ) -> None:
        self._wal = wal
        self._log = log
        self._writer = writer
        self._storage = storage
        self._checkpoints = checkpoints
        self._lock = asyncio.Lock()

    async def run(self, segments: Sequence[str]) -> None:
        """Purge the log, and the segments of these names in storage; also all that was deleted.

        Raises:
            ThrottledError: the log could not be shortened soon, or a segment changes all the time; repeat.
            StorageWriteError, StorageReadError, WalWriteError: something failed; repeat.
            DataCorruptionError: damage hides what is to be rewritten or deleted.
            FencedOutError, ContainerOfflineError: the container ends.
        """
        async with self._lock:
            await self._purge_log()
            rewriter = self._storage.make_rewriter()
            for segment in segments:
                await rewriter.drop_truncated(segment)
            end = self._storage.garbage.next_number
            if self._checkpoints is not None:
                await self._checkpoints.renew()
            await self._storage.garbage.purge(end)

    async def _purge_log(self) -> None:
        await self._wal.purge_freed()
        for _ in range(_ATTEMPTS_MAX):
            await self._log.separate()
            begin = await self._log.write_checkpoint()
            try:
                async with asyncio.timeout(_STORED_WITHIN_S):
                    await self._wait_truncated(begin)
            except TimeoutError:
                raise ThrottledError("storage is too slow: the log still has what was truncated") from None
            if await self._wal.purge_freed():
                return
        raise ThrottledError("no new log file could be made: the old one may have what was truncated")

    async def _wait_truncated(self, begin: int) -> None:
        """Wait until the log begins at a checkpoint, or later, and have everything before it stored now."""
        flushing: asyncio.Future[None] | None = None
        try:
            while self._log.truncated_sequence < begin:
                if flushing is None or flushing.done():
                    if flushing is not None:
                        flushing.result()
                    flushing = asyncio.ensure_future(self._writer.flush_all())
                await asyncio.wait([flushing], timeout=_LOOK_S)
        finally:
            if flushing is not None:
                flushing.cancel()
                await asyncio.gather(flushing, return_exceptions=True)

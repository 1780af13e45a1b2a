"""Dropping the head of a log: a durable mark first, then the files that it explains.

Space is freed in whole files. Files of this owner are retained for recycling; those of earlier owners are
deleted, because their owners may still write into them. Everything happens as the newest owner, under the
lock, so that a successor never misses a file that no mark explains.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from headrace.runtime.blocking import BlockingWork
from headrace.wal.contract import WalStatistics
from headrace.wal.file.group_commit import GroupCommit
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.owner_record import OwnerFile
from headrace.wal.file.owner_wait import wait_for_lock
from headrace.wal.file.recovery_plan import RecoveredLog
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.segment_format import DATA_OFFSET, FileHead, TruncationMark


class _OlderFile(NamedTuple):
    """A file of an earlier owner with living records."""

    name: str
    first_sequence: int
    used_bytes: int


class Truncation:
    """The truncation point of one owner's log. Used on one loop."""

    def __init__(
        self,
        *,
        recovered: RecoveredLog,
        head: FileHead,
        owner: OwnerFile,
        files: SegmentFiles,
        tail: LogTail,
        commit: GroupCommit,
        work: BlockingWork,
        statistics: WalStatistics,
    ) -> None:
        self.sequence = recovered.truncation_sequence
        """Records below it are gone, durably."""
        self._head = head
        self._owner = owner
        self._files = files
        self._tail = tail
        self._commit = commit
        self._work = work
        self._statistics = statistics
        self._lock = asyncio.Lock()
        self._older = deque(
            _OlderFile(extent.file.name, extent.first_sequence, extent.end_offset - DATA_OFFSET)
            for extent in recovered.extents
        )
        self._removing: set[str] = set()
        """Files whose removal was begun and has no known outcome: such a file may be gone, and is no spare
        one any more."""

        self._removable: list[str] = []
        """Truncated files that were retained, and are to be deleted."""

        self._marked_durable_sequence = 0
        self._marked_sequence = self.sequence
        """Highest that a mark may hold, even if the outcome of its write is unknown. Belongs to the thread
        of ``work``."""

        statistics.log_bytes += sum(file.used_bytes for file in self._older)

    async def advance(self, sequence: int) -> None:
        """Drop the records below ``sequence`` that are durable.

        Raises:
            FencedOutError: a newer owner has taken the log; nothing was dropped.
            DirectoryLockedError: the lock of the log's owner file has been taken for too long; nothing was
                dropped. May be repeated.
            OSError: it is unknown whether they are dropped; may be repeated.
        """
        async with self._lock:
            durable = self._commit.durable_sequence
            sequence = min(sequence, durable + 1)
            if sequence <= self.sequence:
                return
            # A file goes only if the next one is known to begin with a whole record: recovery starts there.
            # Without, it would start in a spare file, and miss those that were removed behind that.
            begun = min(sequence, durable)
            older = self._count_older(begun)
            own = self._count_own(begun) if older == len(self._older) else 0
            segments = self._commit.used_files[:own]
            spares = [segment for segment in segments if segment.name not in self._removing]
            del spares[self._tail.spare_capacity() :]
            names = [self._older[index].name for index in range(older)]
            names += [segment.name for segment in segments if segment not in spares]

            self._removing.update(names)
            await wait_for_lock(lambda: self._perform(sequence, segments, names))
            self._removing.difference_update(names)
            self._forget(older, own)
            self.sequence = self._tail.truncation_sequence = sequence
            for segment in spares:
                self._tail.add_spare(segment)

    async def remove_spares(self) -> bool:
        """Delete the truncated files that were retained, and retain no more until none is in use either.

        Returns:
            Whether none is left; they are retained again then.

        Raises as :meth:`advance`; to be repeated.
        """
        self._removable += [file.name for file in self._tail.release_spares()]
        if self._removable:
            async with self._lock:
                await wait_for_lock(
                    lambda: self._work.run(self._owner.run_owned, lambda: self._files.remove(self._removable))
                )
        self._removable.clear()
        if self._tail.has_freed_bytes:
            return False
        self._tail.retain_spares()
        return True

    async def write_durable_mark(self) -> None:
        """Store, durably, that all records written so far are: damage to the last is no torn tail then.

        Raises:
            FencedOutError: a newer owner has taken the log.
            DirectoryLockedError: the lock of the log's owner file is taken: it is not waited for.
            OSError: it is unknown whether it is stored; no harm is done.
        """
        async with self._lock:
            durable = self._commit.durable_sequence
            if durable > self._marked_durable_sequence and self._commit.used_files:
                await self._perform(self.sequence, [], [])
                self._marked_durable_sequence = durable

    async def _perform(self, sequence: int, segments: list[SegmentFile], names: list[str]) -> None:
        # The file of each attempt: while the lock is waited for, the one before is filled, and closed.
        file, durable = self._tail.current, self._commit.durable_sequence
        await self._work.run(
            self._owner.run_owned,
            lambda: self._mark_and_remove(file, sequence, durable, segments, names),
        )

    def _mark_and_remove(
        self,
        file: SegmentFile,
        sequence: int,
        durable: int,
        segments: list[SegmentFile],
        names: list[str],
    ) -> None:
        """Runs in a thread, owned and locked, one call after the other.

        An earlier call may have removed files and failed after that, or its caller was cancelled: a mark
        below its point would leave these files unexplained. So what a mark says is decided here.
        """
        head, mark_number = self._head, file.mark_number + 1
        self._marked_sequence = sequence = max(sequence, self._marked_sequence)
        mark = TruncationMark(head.log_id, head.epoch, file.number, mark_number, sequence, durable)
        self._files.write_mark(file, mark)
        file.mark_number = mark_number
        for segment in segments:
            self._files.close(segment)
        if names:
            self._files.remove(names)

    def _count_older(self, sequence: int) -> int:
        """Count the leading files whose successor begins at or below ``sequence``."""
        used = self._commit.used_files
        begins = [file.first_sequence for file in self._older]
        begins += [used[0].first_sequence] if used else []
        return sum(begin <= sequence for begin in begins[1:])

    def _count_own(self, sequence: int) -> int:
        return sum(file.first_sequence <= sequence for file in self._commit.used_files[1:])

    def _forget(self, older: int, own: int) -> None:
        for _ in range(older):
            self._statistics.log_bytes -= self._older.popleft().used_bytes
        for segment in self._commit.used_files[:own]:
            self._statistics.log_bytes -= segment.position - DATA_OFFSET
        del self._commit.used_files[:own]

"""The last steps of a log: frames in flight are answered, the last of them is marked as durable, and every
descriptor and thread is released, whatever fails on the way.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial

from headrace.wal.file.group_commit import GroupCommit
from headrace.wal.file.last_steps import LastSteps
from headrace.wal.file.log_means import LogMeans
from headrace.wal.file.open_log import OpenLog
from headrace.wal.file.opening import Opening
from headrace.wal.file.segment_file import SegmentFile


class Closing:
    """The one end of a log. ``log`` is None if its opening has failed, or is given up."""

    def __init__(self, means: LogMeans, opening: Opening, log: OpenLog | None) -> None:
        self._means = means
        self._opening = opening
        self._log = log
        self._steps = LastSteps(f"closing the log in {means.directory}")
        opening.given_up = True
        if log is not None:
            log.end()

    async def run(self) -> None:
        """Make every step.

        Raises:
            WalWriteError: a file did not close without error, or a callback raised; all else was released.
        """
        means, steps = self._means, self._steps
        if self._log is not None:
            await self._finish(self._log)
        # Jobs are answered in order: those of the tail, or of an open that was given up, are over then.
        await self._run_in_thread(_end_of_earlier_work)
        if self._log is not None and not steps.failed:
            with steps.step():
                if not await self._write_close_mark(self._log.commit):
                    await self._log.idle_mark.write()
        means.pool.close()
        means.writers.close()
        await self._wait_for_writers()
        for file in self._open_files():
            await self._run_in_thread(partial(means.files.close, file))
        await self._run_in_thread(means.owner.close)
        means.work.close()
        with steps.step():
            await means.work.wait_closed()
        steps.end()

    async def _finish(self, log: OpenLog) -> None:
        """Wait until every frame is answered, and end the work in the background."""
        with self._steps.step():
            log.stop_waiting()
        with self._steps.step():
            await log.commit.wait_idle()
        with self._steps.step():
            await log.idle_mark.stop()
        log.tail.stop()

    async def _write_close_mark(self, commit: GroupCommit) -> bool:
        """See ``GroupCommit.write_close_mark``. If that raises, the frame stays lent: a thread may use it."""
        pool = self._means.pool
        try:
            frame = pool.acquire()
        except OSError:  # no memory for one
            return False
        if frame is None:
            return False
        written = await commit.write_close_mark(frame)
        pool.release(frame)
        return written

    async def _wait_for_writers(self) -> None:
        """Wait until no thread writes, even if cancelled: a descriptor that is closed under one may
        belong to another file when it writes.
        """
        cancelled = True
        while cancelled:
            cancelled = False
            with self._steps.step():
                try:
                    await self._means.writers.wait_closed()
                except asyncio.CancelledError:
                    cancelled = True
                    raise

    def _open_files(self) -> list[SegmentFile]:
        files = [self._opening.first] if self._log is None else self._log.open_files()
        found = [file for file in (self._means.new_files.unnamed, *files) if file is not None]
        return list(dict.fromkeys(found))

    async def _run_in_thread(self, work: Callable[[], None]) -> None:
        with self._steps.step(), contextlib.suppress(BlockingIOError):  # no thread ever started: nothing open
            await self._means.run(work)


def _end_of_earlier_work() -> None:
    """Whatever was begun before in the thread of the files is over."""

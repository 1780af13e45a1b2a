"""Where the next record goes, and that zeroed space is there when it comes.

A log writes into its current file from front to back. In the background, one job at a time, the current
file is zeroed ahead of the write position in steps, and when it is a quarter full the next file is made
ready, of a recycled one if there is any. A record never overlaps a step of zeroing in progress: it waits.
It waits as well while the disk has no space for the file it needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from headrace.errors import HeadraceError, StorageFullError, WalWriteError
from headrace.runtime.blocking import BlockingWork
from headrace.wal.config import WalConfig
from headrace.wal.contract import WalStatistics
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import SegmentFiles, translate_error
from headrace.wal.file.segment_format import DATA_OFFSET, FileHead
from headrace.wal.file.space_wait import SpaceWait
from headrace.wal.file.zero_steps import ZeroSteps


class LogTail:
    """The file being written, the one after it, and the spare ones. Used on one loop.

    ``create`` and ``recycle`` make a file; ``recycle`` returns None, with nothing done, if it may not touch
    the old file at this moment. ``on_progress`` is called when :meth:`place` may have another answer.
    """

    def __init__(
        self,
        files: SegmentFiles,
        work: BlockingWork,
        config: WalConfig,
        current: SegmentFile,
        head: FileHead,
        create: Callable[[FileHead], SegmentFile],
        recycle: Callable[[SegmentFile, FileHead], SegmentFile | None],
        on_progress: Callable[[], None],
        statistics: WalStatistics,
    ) -> None:
        self.current = current
        self.error: HeadraceError | None = None
        """Why there is no next file for a record that needs one; set once."""
        self.truncation_sequence = head.truncation_sequence
        self._files = files
        self._create = create
        self._recycle = recycle
        self._work = work
        self._config = config
        self._head = head
        self._next: SegmentFile | None = None
        self._next_number = head.number + 1
        self._spare: deque[SegmentFile] = deque()
        self._retains = True
        self._recycling = False
        self._zeroing: tuple[SegmentFile, int, int] | None = None
        self._steps = ZeroSteps(config.zero_step_bytes)
        self._placed = 0
        """Bytes of all records placed so far."""
        self._busy = False
        self._wanted = False
        self._refused = False
        self._stopped = False
        self._switch_callbacks: list[Callable[[], None]] = []
        self._on_progress = on_progress
        self._space = SpaceWait(files.directory, self._kick, statistics)
        self._work_at = 0
        """Write position from which there may be work to do."""

    @property
    def busy(self) -> bool:
        """Whether a job runs in the background."""
        return self._busy

    def place(self, padded: int) -> SegmentFile | None:
        """Reserve ``padded`` bytes; return the file, or None if the caller has to wait for ``on_progress``.

        The offset is ``file.position - padded``. Returns None for ever once ``error`` is set and the current
        file is full.
        """
        file = self.current
        if file.position + padded > self._config.segment_file_bytes:
            if self._next is None:
                self._wanted = True
                self._kick()
                return None
            file = self._next
            self._next = None
            self.current = file
            self._work_at = 0
        start = file.position
        if self._zeroing is not None and self._zeroing[0] is file:
            _, zero_start, zero_end = self._zeroing
            if start < zero_end and zero_start < start + padded:
                return None
        file.position = start + padded
        self._placed += padded
        file.zeroed_until = max(file.zeroed_until, file.position)
        if file.position >= self._work_at:
            self._kick()
        return file

    def switch_file(self, on_switched: Callable[[], None]) -> None:
        """Go on in the next file, once it is there; ``on_switched`` is called then, or if there is none.

        Nothing happens if the current file is still empty.
        """
        if self.current.position == DATA_OFFSET or self._stopped or self.error is not None:
            on_switched()
            return
        self._switch_callbacks.append(on_switched)
        if self._next is not None:
            self._switch()
        else:
            self._refused = False
            self._kick()

    def _switch(self) -> None:
        """Go on in the next file, if there is one, and notify the callers of ``switch_file``."""
        if self._next is not None and self.current.position > DATA_OFFSET:
            self.current, self._next = self._next, None
            self._work_at = 0
        self._notify_switched()

    def needs_next(self, padded: int) -> bool:
        """Say whether a record of this size waits for another file."""
        return self._next is None and self.current.position + padded > self._config.segment_file_bytes

    def spare_capacity(self) -> int:
        """Return how many more truncated files are to be retained."""
        return max(0, self._config.spare_files_max - len(self._spare)) if self._retains else 0

    def release_spares(self) -> list[SegmentFile]:
        """Return the truncated files, and retain none until :meth:`retain_spares`."""
        self._retains = False
        spares = list(self._spare)
        self._spare.clear()
        return spares

    def retain_spares(self) -> None:
        """Retain truncated files again, after :meth:`release_spares`."""
        self._retains = True

    @property
    def has_freed_bytes(self) -> bool:
        """Whether a truncated file is retained, or one in use, or to be used next, was made of one."""
        return bool(self._spare) or self._recycling or any(file.is_recycled for file in self.open_files())

    def add_spare(self, file: SegmentFile) -> None:
        """Retain a truncated file of this owner, closed, for recycling."""
        self._spare.append(file)
        if self._wanted:
            self._kick()

    def stop_waiting(self) -> None:
        """A record that needs a file for which there is no space does not wait any more."""
        was_pausing = self._space.pausing
        self._space.give_up()
        if was_pausing:
            self._kick()  # one more attempt decides

    def stop(self) -> None:
        """Begin no more background work."""
        self._stopped = True
        self._space.cancel()
        self._notify_switched()

    def open_files(self) -> list[SegmentFile]:
        """Return the files that ``close`` of the log has to close."""
        return [self.current] if self._next is None else [self.current, self._next]

    def start(self) -> None:
        """Begin to work ahead."""
        self._kick()

    def _notify_switched(self) -> None:
        """Call the callbacks of ``switch_file``: the next file is in use, or there will be none for now."""
        callbacks, self._switch_callbacks = self._switch_callbacks, []
        for on_switched in callbacks:
            on_switched()

    # ---- in the background

    def _kick(self) -> None:
        if self._busy or self._stopped or self.error is not None:
            return
        size = self._config.segment_file_bytes
        ahead = self._config.zero_ahead_bytes
        current = self.current
        if self._switch_callbacks and self._next is None:
            self._prepare_next()
            return
        # Early: making names durable can take as long as writing the rest.
        prepare_at = DATA_OFFSET + (size - DATA_OFFSET) // 4
        if self._zero_towards(current, min(size, current.position + ahead)):
            return
        if self._next is not None:
            if self._zero_towards(self._next, min(size, DATA_OFFSET + ahead)):
                return
            prepare_at = size
        elif (current.position >= prepare_at and not self._refused) or self._wanted:
            if self._spare or not self._space.pausing:
                self._prepare_next()
            return
        elif self._refused:
            prepare_at = size
        # Nothing to do now. Zeroing goes on in whole steps, so that it is not looked after at every record.
        zero_at = size if current.zeroed_until >= size else current.zeroed_until - ahead
        self._work_at = min(zero_at, prepare_at)

    def _zero_towards(self, file: SegmentFile, target: int) -> bool:
        start = file.zeroed_until
        if start >= target:
            return False
        end = min(start + self._steps.begin(self._placed), self._config.segment_file_bytes)
        self._zeroing = (file, start, end)
        self._busy = True
        self._work.submit(self._files.zero, (file, start, end), self._on_zeroed)
        return True

    def _on_zeroed(self, _result: Any, error: BaseException | None) -> None:
        assert self._zeroing is not None
        file, _, end = self._zeroing
        self._zeroing = None
        self._steps.end(self._placed)
        self._busy = False
        # Not being able to work ahead is no failure yet: the record that finds no space will fail.
        file.zeroed_until = end if error is None else self._config.segment_file_bytes
        self._kick()
        self._on_progress()

    def _prepare_next(self) -> None:
        number = self._next_number
        self._next_number += 1
        head = self._head._replace(number=number, truncation_sequence=self.truncation_sequence)
        self._busy = True
        if self._spare:
            old = self._spare.popleft()
            self._recycling = True
            self._work.submit(self._recycle, (old, head), partial(self._on_recycled, old, head))
        else:
            self._work.submit(self._create, (head,), self._on_prepared)

    def _on_recycled(
        self, old: SegmentFile, head: FileHead, file: SegmentFile | None, error: BaseException | None
    ) -> None:
        self._recycling = False
        if file is not None or error is not None:
            self._on_prepared(file, error)
            return
        self._spare.appendleft(old)  # one more than wanted if another was added meanwhile
        if self._stopped:
            self._busy = False
        else:
            self._work.submit(self._create, (head,), self._on_prepared)

    def _on_prepared(self, file: SegmentFile | None, error: BaseException | None) -> None:
        self._busy = False
        if file is not None:
            self._next = file
            self._wanted = self._refused = False
            self._space.end()
            if self._switch_callbacks:
                self._switch()
            self._kick()
        elif isinstance(error, Exception):
            # Ahead of need it is no failure: there may be space again when the file is needed.
            self._refused = True
            reason = _type_error(error)
            retries = isinstance(reason, StorageFullError) and self._wanted and self._space.begin(reason)
            if self._wanted and not retries:
                self.error = reason
            self._notify_switched()
        else:
            assert error is not None
            raise error  # the process ends
        self._on_progress()


def _type_error(error: Exception) -> HeadraceError:
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, OSError):
        return translate_error(error, "making the next log file")
    return WalWriteError(f"making the next log file failed: {error!r}")  # a bug, or no memory

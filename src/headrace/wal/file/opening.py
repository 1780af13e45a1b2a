"""The first steps of an owner: it takes the log, reads what former owners left, begins a file of its own."""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.errors import ClosedError, DataCorruptionError, DirectoryLockedError, FencedOutError
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.wal.file.log_means import LogMeans
from headrace.wal.file.owner_format import OwnerRecord
from headrace.wal.file.owner_wait import run_when_unlocked
from headrace.wal.file.recovery_plan import RecoveredLog, recover_log
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import translate_error
from headrace.wal.file.segment_format import FileHead

#: An older owner may recycle truncated files while the log is being read; then it is read again.
_RECOVERY_ATTEMPTS: Final = 3


class TakenLog(NamedTuple):
    """A log with a new owner, and the first file of that one."""

    head: FileHead
    first: SegmentFile
    recovered: RecoveredLog


class Opening:
    """One attempt to own a log. It may be given up at any time; nothing is made from then on."""

    def __init__(self, means: LogMeans, clock: Clock, entropy: Entropy) -> None:
        self.record: OwnerRecord | None = None
        """Published: no former owner acknowledges anything more."""
        self.first: SegmentFile | None = None
        """To be closed, even if the opening failed behind it."""
        self.given_up = False
        self._means = means
        self._clock = clock
        self._entropy = entropy

    async def run(self) -> TakenLog:
        """Take ownership; see ``Wal.open``.

        The steps, in this order: publish the container epoch (fences all former owners), read the log, write
        again the records that no later one proves durable, make the first file of this container epoch (it
        says where older owners end), remove dead files. The last two happen only while no successor has taken
        over.
        """
        assert self.record is None
        means = self._means
        try:
            self.record = record = await run_when_unlocked(means.work, self._take)
            recovered = await self._recover(record)
            head = FileHead(
                record.log_id,
                record.epoch,
                recovered.next_number,
                recovered.next_sequence,
                recovered.truncation_sequence,
                means.config.segment_file_bytes,
            )
            dead = [file.name for file in recovered.dead]
            first = await run_when_unlocked(
                means.work, means.owner.run_owned, lambda: self._establish(head, dead)
            )
            self._refuse_if_given_up()
        except DirectoryLockedError as error:
            raise FencedOutError(
                f"another process takes or truncates the log in {means.directory} and does not finish: this "
                "process has not taken the log; if the other one is stalled, end it and retry"
            ) from error
        except OSError as error:
            raise translate_error(error, f"opening the log in {means.directory}") from error
        return TakenLog(head, first, recovered)

    def _take(self) -> OwnerRecord:
        self._refuse_if_given_up()
        return self._means.owner.take(self._clock, self._entropy)

    async def _recover(self, record: OwnerRecord) -> RecoveredLog:
        attempts_left = _RECOVERY_ATTEMPTS
        while True:
            attempts_left -= 1
            try:
                return await self._means.run(self._read_log, record.log_id)
            except (FileNotFoundError, DataCorruptionError) as error:
                # A newer owner may be changing what is being read: then nothing is proven.
                if not await self._means.run(self._means.owner.still_held):
                    raise FencedOutError("a newer owner has taken the log") from error
                if attempts_left == 0 or isinstance(error, DataCorruptionError):
                    raise

    def _read_log(self, log_id: bytes) -> RecoveredLog:
        files, reader = self._means.files, self._means.reader()
        try:
            named = self._means.owner.named
            recovered = recover_log(files.find(), log_id, reader.read_at, files.directory, named)
            for records in recovered.unproven:
                files.prove(records, reader.read_at)
        finally:
            reader.close()
        return recovered

    def _establish(self, head: FileHead, dead: list[str]) -> SegmentFile:
        """Make the first file of this owner, then remove what it has made superfluous."""
        self._refuse_if_given_up()
        files = self._means.files
        self.first = first = files.create(head)
        self._means.owner.note_newest(first.epoch, first.number)
        names = dead + files.find_drafts()
        if names:
            files.remove(names)
        return first

    def _refuse_if_given_up(self) -> None:
        if self.given_up:  # nothing would close what is made from now on
            raise ClosedError(f"the log in {self._means.directory} was closed while it was opened")

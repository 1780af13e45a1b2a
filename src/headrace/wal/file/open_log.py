"""A log that its owner has opened: what takes records, what drops them, and what marks it when it is idle."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from headrace.errors import DataCorruptionError
from headrace.wal.contract import WalRecord
from headrace.wal.file.group_commit import GroupCommit
from headrace.wal.file.idle_mark import IdleMark
from headrace.wal.file.log_means import LogMeans
from headrace.wal.file.log_tail import LogTail
from headrace.wal.file.opening import TakenLog
from headrace.wal.file.recovery_plan import LogExtent, RecordCursor
from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.file.segment_files import translate_error
from headrace.wal.file.segment_format import short_log_id
from headrace.wal.file.truncation import Truncation


class OpenLog:
    """Made once a log is taken; its closing ends it. Used on one loop."""

    def __init__(self, means: LogMeans, taken: TakenLog) -> None:
        head = taken.head
        self._means = means
        self._short_id = short_log_id(head.log_id)
        self.recovered = taken.recovered
        """What former owners left."""
        self._ended = False
        self.commit = GroupCommit(
            files=means.files,
            writers=means.writers,
            writers_max=means.config.frames_in_flight_max,
            owner=means.owner,
            container_epoch=head.epoch,
            log=self._short_id,
            next_sequence=taken.recovered.next_sequence,
            statistics=means.statistics,
            on_file_written=self._close_file,
            loop_writes=means.loop_writes,
        )
        self.tail = LogTail(
            means.files,
            means.work,
            means.config,
            taken.first,
            head,
            means.new_files.create,
            means.new_files.recycle,
            self.commit.on_tail_progress,
            means.statistics,
        )
        self.truncation = Truncation(
            recovered=taken.recovered,
            head=head,
            owner=means.owner,
            files=means.files,
            tail=self.tail,
            commit=self.commit,
            work=means.work,
            statistics=means.statistics,
        )
        self.idle_mark = IdleMark(means.directory, self.commit, self.truncation)
        self.commit.attach(self.tail, self.idle_mark.on_idle)
        self.tail.start()

    def _close_file(self, file: SegmentFile) -> None:
        """Every record of the file was answered and none will follow."""
        if not self._ended:
            self._means.work.submit(self._means.files.close, (file,), _ignore)

    def recovered_records(self) -> Generator[WalRecord, None, None]:
        """Read what former owners left, in large pieces; see ``Wal.records``. One record object for all.

        Raises:
            DataCorruptionError: a record is damaged.
            FencedOutError: a newer owner has the log, and may remove what is being read.
            WalWriteError: the log cannot be read.
        """
        reader = self._means.reader()
        try:
            for extent in self.recovered.extents:
                cursor = RecordCursor(reader.read_at, extent.file, self._short_id, extent.needed_offset)
                yield from self._extent_records(extent, cursor)
        except (OSError, DataCorruptionError) as error:
            fence = self.commit.find_fence()
            if fence is not None:
                raise fence from error
            if isinstance(error, OSError):
                raise translate_error(error, f"reading the log in {self._means.directory}") from error
            raise
        finally:
            reader.close()

    def _extent_records(self, extent: LogExtent, cursor: RecordCursor) -> Iterator[WalRecord]:
        truncation = self.truncation.sequence
        record = WalRecord(0, memoryview(b""))
        for sequence in range(extent.needed_sequence, extent.end_sequence):
            at = cursor.offset
            found = cursor.next_record()
            if found is None or found[0].sequence != sequence:
                path = f"{self._means.directory}/{extent.file.name}"
                raise DataCorruptionError(f"record {sequence} is damaged", path=path, offset=at)
            if sequence >= truncation:
                record.address = sequence
                record.payload = found[1]
                yield record

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        try:
            self.commit.stop_waiting()
        finally:  # a callback may have raised; records that wait for a file are answered, too
            self.tail.stop_waiting()

    def end(self) -> None:
        """Begin nothing more in the background: what is open from now on, its closing closes."""
        self._ended = True
        self.idle_mark.end()

    def open_files(self) -> list[SegmentFile]:
        """Return the files that may be open."""
        return [*self.commit.used_files, *self.tail.open_files()]


def _ignore(*_answer: object) -> None:
    """Nothing depends on the answer: what the file held is durable."""

"""The write-ahead log of one container as a reader that does not own it finds it: its living frames, in
order, each with file and offset.

A log that a running server goes on writing is read as a snapshot: what looks like damage is read again,
because a record in flight looks the same for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from headrace.errors import DataCorruptionError, SnapshotLostError
from headrace.runtime.filesystem import Filesystem
from headrace.wal.file.inspection import InspectedLog, inspect_log
from headrace.wal.file.owner_record import missing_file
from headrace.wal.file.recovery_plan import FoundFile, LogExtent, RecordCursor
from headrace.wal.file.segment_files import FileReader
from headrace.wal.file.segment_format import parse_name, short_log_id
from headrace.wal.logs import LogFrame
from headrace.wal.record_format import KIND_DATA, RecordHeader

_ATTEMPTS: Final = 5


class FileLogSnapshot:
    """A ``LogSnapshot`` of the log in ``directory``, as it was when this object was made.

    Raises:
        DataCorruptionError: there is no log.
        SnapshotLostError: a running server truncated the log again and again while it was read.
        OSError: it cannot be read.
    """

    def __init__(self, directory: str, files: Filesystem) -> None:
        self._directory = directory
        self._files = files
        self.log = _inspect(directory, files)

    @property
    def place(self) -> str:
        return self._directory

    @property
    def problem(self) -> str:
        """Why an owner would refuse this log; empty if it would not."""
        return self.log.problem

    @property
    def epoch(self) -> int:
        return 0 if self.log.owner is None else self.log.owner.epoch

    @property
    def first_address(self) -> int | None:
        return None if self.log.recovered is None else self.log.recovered.truncation_sequence

    @property
    def next_address(self) -> int | None:
        return None if self.log.recovered is None else self.log.recovered.next_sequence

    def frames(self) -> Iterator[LogFrame]:
        """Yield the log from its truncation point. Of a damaged log: what lies in front of the damage.

        Raises:
            DataCorruptionError: behind the last readable frame of a damaged log.
            SnapshotLostError: a running server has recycled what was to be read.
        """
        log = self.log
        if log.owner is None:
            raise DataCorruptionError(log.problem, path=self._directory)
        short = short_log_id(log.owner.log_id)
        reader = FileReader(self._directory, self._files)
        try:
            if log.recovered is None:
                yield from self._readable_prefix(reader, short)
                raise DataCorruptionError(log.problem)
            for extent in log.recovered.extents:
                cursor = RecordCursor(reader.read_at, extent.file, short, extent.start_offset)
                yield from self._extent_frames(extent, cursor, log.recovered.truncation_sequence)
        except FileNotFoundError as error:
            raise SnapshotLostError(
                f"the log in {self._directory} was truncated while it was read"
            ) from error
        finally:
            reader.close()

    def _extent_frames(self, extent: LogExtent, cursor: RecordCursor, truncation: int) -> Iterator[LogFrame]:
        for sequence in range(extent.first_sequence, extent.end_sequence):
            at = cursor.offset
            found = cursor.next_record()
            if found is None or found[0].sequence != sequence:
                # It was whole a moment ago.
                raise SnapshotLostError(f"{self._directory}/{extent.file.name} changed while it was read")
            if sequence >= truncation:
                yield LogFrame(extent.file.name, at, sequence, found[0].epoch, found[1])

    def _readable_prefix(self, reader: FileReader, short: int) -> Iterator[LogFrame]:
        """What can be read in front of the damage, without the judgement of recovery."""
        heads = [file.head for file in self.log.files if file.head is not None]
        marks = [mark for file in self.log.files for mark in file.marks if mark is not None]
        points = [head.truncation_sequence for head in heads]
        points += [mark.truncation_sequence for mark in marks]
        truncation = max(points, default=0)
        began = sorted({(head.epoch, head.epoch_first_sequence) for head in heads})
        found = [FoundFile(file.name, *name) for file in self.log.files if (name := parse_name(file.name))]
        expected = None
        for file in sorted(found, key=lambda item: (item.epoch, item.number)):
            end = next((first for epoch, first in began if epoch > file.epoch), None)
            for at, header, payload in _records(RecordCursor(reader.read_at, file, short)):
                if header.sequence == end:
                    break
                if expected is not None and header.sequence != expected and header.sequence > truncation:
                    return
                expected = header.sequence + 1
                if header.sequence >= truncation:
                    yield LogFrame(file.name, at, header.sequence, header.epoch, payload)


def _records(cursor: RecordCursor) -> Iterator[tuple[int, RecordHeader, memoryview]]:
    at = cursor.offset
    while (record := cursor.next_record()) is not None and record[0].kind == KIND_DATA:
        yield at, record[0], record[1]
        at = cursor.offset


def _inspect(directory: str, files: Filesystem) -> InspectedLog:
    """Damage is believed when it was seen twice in the same place."""
    seen: str | None = None
    for _ in range(_ATTEMPTS):
        try:
            log = inspect_log(directory, files)
        except FileNotFoundError:
            if not files.exists(directory):
                raise DataCorruptionError("the log of this container is missing", path=directory) from None
            continue
        if not log.problem:
            log = replace(log, problem=_owner_problem(log))
        if not log.problem or log.problem == seen:
            return log
        seen = log.problem
    raise SnapshotLostError(f"the log in {directory} keeps changing: a running server is truncating it")


def _owner_problem(log: InspectedLog) -> str:
    """The owner record and the files must fit each other, as an owner checks before it takes the log."""
    assert log.owner is not None
    problem = missing_file(log.named, [file.name for file in log.files])
    if problem:
        return f"{problem} ({log.directory})"
    newest = max((name[1] for file in log.files if (name := parse_name(file.name))), default=0)
    where = f"({log.directory}/owner)"
    if log.owner.epoch < newest:
        return f"the owner record says container epoch {log.owner.epoch}, but files of {newest} exist {where}"
    if log.owner.files_epoch > newest:
        return f"log files of container epoch {log.owner.files_epoch} are missing {where}"
    return ""

"""Describes a file log without changing it: for operators that want to know what it holds, or what is wrong
with it.

Read-only, without taking ownership: meant for a stopped log. On a running one the answers may be out of date
by the time they are read, nothing worse.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.runtime.filesystem import Filesystem, OsFilesystem
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.owner_format import (
    NEWEST_SLOT_COUNT,
    NEWEST_SLOTS_AT,
    OWNER_RECORD_BYTES,
    SLOT_BYTES,
    SLOT_COUNT,
    NewestFile,
    OwnerRecord,
    decode_owner,
    find_named,
)
from headrace.wal.file.owner_record import OWNER_FILE
from headrace.wal.file.recovery_plan import FoundFile, RecoveredLog, belongs_to, recover_log
from headrace.wal.file.segment_files import FileReader
from headrace.wal.file.segment_format import (
    DATA_OFFSET,
    MARK_OFFSETS,
    FileHead,
    TruncationMark,
    decode_head,
    decode_mark,
    parse_name,
    short_log_id,
)
from headrace.wal.record_format import RECORD_HEADER_BYTES, RecordHeader, find_headers, is_whole

_STEP_BYTES: Final = 256 * BLOCK_BYTES


class RecordStatus(Enum):
    """What a block that begins like a record is."""

    LIVING = "living"
    """Part of the log."""

    DROPPED = "dropped"
    """Whole and of this use of its file, but truncated, stale or behind the end of the log."""

    RECYCLED = "recycled"
    """From an earlier use of the file, or not of this log."""

    DAMAGED = "damaged"
    """Of this use of the file and not whole."""


@dataclass(frozen=True, slots=True)
class InspectedRecord:
    """One record, or what is left of one."""

    offset: int
    header: RecordHeader
    status: RecordStatus


@dataclass(frozen=True, slots=True)
class InspectedFile:
    """One segment file without its records."""

    name: str
    size_bytes: int
    head: FileHead | None
    """None if it is damaged."""

    marks: tuple[TruncationMark | None, ...]


@dataclass(frozen=True, slots=True)
class InspectedLog:
    """A whole log without its records."""

    directory: str
    owners: tuple[OwnerRecord | None, ...]
    """The slots of the owner file; None for an empty or damaged one."""

    files: tuple[InspectedFile, ...]
    recovered: RecoveredLog | None
    """What an owner would find, or None if it would refuse the log."""

    problem: str
    """Why it would refuse the log; empty if it would not."""

    named: Sequence[NewestFile] = ()
    """The file that must be there unless a newer owner has one, and the one before it; empty if not known."""

    @property
    def owner(self) -> OwnerRecord | None:
        """The owner record in force."""
        known = [record for record in self.owners if record is not None]
        return max(known, key=lambda record: record.epoch) if known else None


def inspect_log(directory: str, filesystem: Filesystem | None = None) -> InspectedLog:
    """Describe the log in ``directory``.

    Raises:
        OSError: it cannot be read.
    """
    fs = OsFilesystem() if filesystem is None else filesystem
    found = [FoundFile(name, *parsed) for name in fs.listdir(directory) if (parsed := parse_name(name))]
    reader = FileReader(directory, fs)
    try:
        owners = _read_owners(directory, fs, reader)
        files = tuple(_read_file(directory, file, fs, reader) for file in found)
        named = _read_named(reader) if owners else ()
        log = InspectedLog(directory, owners, files, None, "no readable owner record", named)
        if log.owner is None:
            return log
        try:
            recovered = recover_log(found, log.owner.log_id, reader.read_at, directory, named)
        except DataCorruptionError as error:
            return replace(log, problem=str(error))
        return replace(log, recovered=recovered, problem="")
    finally:
        reader.close()


def inspect_records(
    log: InspectedLog, name: str, filesystem: Filesystem | None = None
) -> Iterator[InspectedRecord]:
    """Yield everything in segment file ``name`` that begins like a record, by offset."""
    fs = OsFilesystem() if filesystem is None else filesystem
    parsed = parse_name(name)
    assert parsed is not None
    file = FoundFile(name, *parsed)
    owner = log.owner
    short = 0 if owner is None else short_log_id(owner.log_id)
    reader = FileReader(log.directory, fs)
    try:
        for offset, header in _find_headers(reader, name):
            record = reader.read_at(name, offset, RECORD_HEADER_BYTES + header.length)
            if not belongs_to(header, file, short):
                status = RecordStatus.RECYCLED
            elif not is_whole(record, 0, header):
                status = RecordStatus.DAMAGED
            elif _lives(log.recovered, file, offset, header):
                status = RecordStatus.LIVING
            else:
                status = RecordStatus.DROPPED
            yield InspectedRecord(offset, header, status)
    finally:
        reader.close()


def _find_headers(reader: FileReader, name: str) -> Iterator[tuple[int, RecordHeader]]:
    """Yield what lies on block boundaries and begins with the magic of a record."""
    offset = DATA_OFFSET
    while count := len(window := reader.read_at(name, offset, _STEP_BYTES)):
        for at, header in list(find_headers(window)):  # the caller reads on
            yield offset + at, header
        offset += count


def _lives(recovered: RecoveredLog | None, file: FoundFile, offset: int, header: RecordHeader) -> bool:
    if recovered is None or header.sequence < recovered.truncation_sequence:
        return False
    return any(extent.file == file and offset < extent.end_offset for extent in recovered.extents)


def _read_owners(directory: str, fs: Filesystem, reader: FileReader) -> tuple[OwnerRecord | None, ...]:
    if not fs.exists(os.path.join(directory, OWNER_FILE)):  # noqa: PTH118 - paths are str here
        return ()
    slots = range(SLOT_COUNT)
    return tuple(decode_owner(reader.read_at(OWNER_FILE, slot * SLOT_BYTES, SLOT_BYTES)) for slot in slots)


def _read_named(reader: FileReader) -> Sequence[NewestFile]:
    end = NEWEST_SLOTS_AT + NEWEST_SLOT_COUNT * SLOT_BYTES
    offsets = range(NEWEST_SLOTS_AT, end, SLOT_BYTES)
    slots = [bytes(reader.read_at(OWNER_FILE, offset, OWNER_RECORD_BYTES)) for offset in offsets]
    return find_named(slots)[0]


def _read_file(directory: str, file: FoundFile, fs: Filesystem, reader: FileReader) -> InspectedFile:
    head = decode_head(reader.read_at(file.name, 0, BLOCK_BYTES))
    marks = tuple(decode_mark(reader.read_at(file.name, offset, BLOCK_BYTES)) for offset in MARK_OFFSETS)
    return InspectedFile(file.name, fs.stat_size(f"{directory}/{file.name}"), head, marks)

"""What a log's files mean after any ending: which records live, where the log ends, which files are dead.
No I/O.

The log is a series of records with sequences 1, 2, 3 ... without gaps. Owners follow one another; the files
of one owner carry its container epoch and say at which sequence it began. So the record with sequence *s*
lives in the files of the newest container epoch that began at or below *s*; what older owners wrote at or
above that point is stale, whenever it reached the disk.

Within the newest container epoch the log ends at the first record that is not whole. That is a torn tail if
no whole record behind it says that it was durable (its ``durable`` is lower), and corruption otherwise. In
older epochs the end is known, so any gap is corruption.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError
from headrace.limits import KIB, MIB
from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.owner_format import NewestFile
from headrace.wal.file.segment_format import (
    DATA_OFFSET,
    MARK_OFFSETS,
    FileHead,
    decode_head,
    decode_mark,
    format_name,
    short_log_id,
)
from headrace.wal.record_format import (
    FIRST_SEQUENCE,
    KIND_CLOSE,
    KIND_DATA,
    RECORD_HEADER_BYTES,
    RecordHeader,
    decode_header,
    find_headers,
    is_whole,
    padded_bytes,
)

WINDOW_BYTES: Final = 4 * MIB
PEEK_BYTES: Final = 64 * KIB

#: ``read(name, offset, length)`` returns the bytes there, fewer only at the end of the file. They are valid
#: until the next call.
ReadAt = Callable[[str, int, int], memoryview]


class FoundFile(NamedTuple):
    """A segment file as the directory shows it."""

    name: str
    number: int
    epoch: int
    """Container epoch."""


@dataclass(slots=True)
class LogExtent:
    """The living records of one file: sequences ``first_sequence <= s < end_sequence``, from
    ``start_offset`` on.
    """

    file: FoundFile
    first_sequence: int
    end_sequence: int
    end_offset: int
    durable_sequence: int
    doubtful: deque[tuple[int, int]] = field(default_factory=deque)
    """Sequence and offset of the last records, those that no later one of the file proves durable."""
    start_offset: int = DATA_OFFSET
    needed_sequence: int = 0
    needed_offset: int = DATA_OFFSET
    """The first record that no truncation has dropped, and its offset: reading back begins there."""


class UnprovenRecords(NamedTuple):
    """The bytes ``start <= offset < end`` of a file: whole records that no later one proves durable."""

    file: FoundFile
    start: int
    end: int


@dataclass(slots=True)
class RecoveredLog:
    """The whole log."""

    extents: list[LogExtent] = field(default_factory=list)
    dead: list[FoundFile] = field(default_factory=list)
    unproven: list[UnprovenRecords] = field(default_factory=list)
    """Whether they are durable is unknown: they must be made so before they are relied upon."""
    next_sequence: int = FIRST_SEQUENCE
    truncation_sequence: int = FIRST_SEQUENCE
    next_number: int = 1


@dataclass(slots=True)
class _Image:
    """A file with a good head."""

    file: FoundFile
    head: FileHead
    first_sequence: int | None
    """Sequence of its first record, None if that is not whole."""
    durable_sequence: int
    """Highest sequence that its marks say is durable."""
    is_marked: bool
    """It has a mark: it is, or was, the file that its owner writes to."""


class RecordCursor:
    """Walks the records of one file in order, verifying each."""

    def __init__(
        self,
        read: ReadAt,
        file: FoundFile,
        log: int,
        offset: int = DATA_OFFSET,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self.offset = offset
        self._window_bytes_max = window_bytes
        self._window_bytes = min(PEEK_BYTES, window_bytes)
        self._read = read
        self._file = file
        self._log = log
        self._base = offset
        self._window = memoryview(b"")

    def next_record(self) -> tuple[RecordHeader, memoryview] | None:
        """Return the whole record of this file's present use at ``offset`` and advance, or None.

        The content is valid until the next call.
        """
        local = self.offset - self._base
        header = decode_header(self._window, local)
        if header is None:
            self._fill(0)
            local = 0
            header = decode_header(self._window)
        if header is None or not belongs_to(header, self._file, self._log):
            return None
        end = local + RECORD_HEADER_BYTES + header.length
        if end > len(self._window):
            self._fill(padded_bytes(header.length))
            end -= local
            local = 0
        if not is_whole(self._window, local, header):
            return None
        self.offset += padded_bytes(header.length)
        return header, self._window[local + RECORD_HEADER_BYTES : end]

    def _fill(self, length_min: int) -> None:
        """Read on: little at first, because most logs end soon, then more and more."""
        length = max(self._window_bytes, length_min)
        self._window_bytes = min(2 * self._window_bytes, self._window_bytes_max)
        self._window = self._read(self._file.name, self.offset, length)
        self._base = self.offset


def belongs_to(header: RecordHeader, file: FoundFile, log: int) -> bool:
    """Say whether the record was written into ``file`` in its present use."""
    return header.file_number == file.number and header.epoch == file.epoch and header.log == log


def find_records(read: ReadAt, file: FoundFile, log: int, offset: int) -> Iterator[tuple[int, RecordHeader]]:
    """Yield offset and header of every whole record of the file's present use at or behind ``offset``.

    Looks at every block, so it finds records behind damage of any size.
    """
    length = PEEK_BYTES
    while True:
        window = read(file.name, offset, length)
        count = len(window)
        # Judged before anything else is read: a record that goes beyond the window needs another one.
        judged = [
            (at, header, is_whole(window, at, header) if at + _record_bytes(header) <= count else None)
            for at, header in find_headers(window)
            if belongs_to(header, file, log)
        ]
        for at, header, whole in judged:
            if whole is None:
                record = read(file.name, offset + at, padded_bytes(header.length))
                whole = is_whole(record, 0, header)
            if whole:
                yield offset + at, header
        if count < length:
            return
        offset += length
        length = min(2 * length, WINDOW_BYTES)


def _record_bytes(header: RecordHeader) -> int:
    return RECORD_HEADER_BYTES + header.length


def recover_log(
    files: Sequence[FoundFile],
    log_id: bytes,
    read: ReadAt,
    path: str = "",
    named: Sequence[NewestFile] = (),
) -> RecoveredLog:
    """Decide what ``files`` mean.

    ``named``: the newest file as its owner has named it, and the one that it named before.

    Raises:
        DataCorruptionError: an acknowledged record, or a head in front of one, is damaged or missing.
    """
    return _Recovery(log_id, read, path).run(files, named)


class _Recovery:
    def __init__(self, log_id: bytes, read: ReadAt, path: str) -> None:
        self._log_id = log_id
        self._log = short_log_id(log_id)
        self._read = read
        self._path = path
        self._result = RecoveredLog()

    def run(self, files: Sequence[FoundFile], named: Sequence[NewestFile]) -> RecoveredLog:
        result = self._result
        images = []
        for file in sorted(files, key=lambda found: (found.epoch, found.number)):
            result.next_number = max(result.next_number, file.number + 1)
            images.append(self._look_at(file))
        self._check_named(images, named)
        images = self._skip_truncated(self._skip_stale(images))
        if images:
            result.next_sequence = self._walk_epochs(images)
        else:
            result.next_sequence = result.truncation_sequence
        return result

    def _check_named(self, images: list[_Image], named: Sequence[NewestFile]) -> None:
        """Refuse a log that has lost the file before its newest one.

        No record need show the loss: there may be none in the newest one, or those of both were in flight
        together. That file is removed only when the log is truncated up to a record of the newest one, which
        is marked first.
        """
        if len(named) < 2:
            return
        newest, former = named[0], named[1]
        found = {(image.file.number, image.file.epoch): image for image in images}
        image = found.get((newest.number, newest.epoch))
        if image is None or (former.number, former.epoch) in found or images[-1] is not image:
            return
        first = image.first_sequence
        if not image.is_marked if first is None else first > self._result.truncation_sequence:
            name = format_name(former.number, former.epoch)
            raise DataCorruptionError(f"the log file {name} is missing", path=self._path)

    def _look_at(self, file: FoundFile) -> _Image:
        head = decode_head(self._read(file.name, 0, BLOCK_BYTES))
        if head is None or (head.log_id, head.epoch, head.number) != (self._log_id, file.epoch, file.number):
            raise self._corruption("the head of a log file is damaged", file, 0)
        if head.file_bytes and not len(self._read(file.name, head.file_bytes - 1, 1)):
            raise self._corruption("the end of a log file is missing", file, head.file_bytes)
        truncation = head.truncation_sequence
        durable, is_marked = 0, False
        for offset in MARK_OFFSETS:
            mark = decode_mark(self._read(file.name, offset, BLOCK_BYTES))
            if mark is not None and (mark.log_id, mark.epoch, mark.number) == head[:3]:
                truncation = max(truncation, mark.truncation_sequence)
                durable = max(durable, mark.durable_sequence)
                is_marked = True
        self._result.truncation_sequence = max(self._result.truncation_sequence, truncation)
        record = RecordCursor(self._read, file, self._log, window_bytes=PEEK_BYTES).next_record()
        first = None if record is None else record[0].sequence
        return _Image(file, head, first, durable, is_marked)

    def _skip_stale(self, images: list[_Image]) -> list[_Image]:
        """Drop files of older container epochs that hold nothing, or only what is stale."""
        began = {image.file.epoch: image.head.epoch_first_sequence for image in images}
        ends: dict[int, int] = {}
        for epoch, following in pairwise(began):
            if began[epoch] > began[following]:
                raise self._corruption(
                    "an older container epoch begins after a newer one", images[-1].file, 0
                )
            ends[epoch] = began[following]
        living = []
        for image in images:
            end = ends.get(image.file.epoch)
            start = None if end is None else self._find_start(image)
            if end is None or (start is not None and start < end):
                living.append(image)
            else:
                self._result.dead.append(image.file)
        self._check_none_vanished(images, living, began, ends)
        return living

    def _check_none_vanished(
        self, images: list[_Image], living: list[_Image], began: dict[int, int], ends: dict[int, int]
    ) -> None:
        """Refuse an older container epoch that had records and shows none: late records of the container
        epoch before would be taken for them.
        """
        shown = {image.file.epoch for image in living}
        for image in images:
            epoch = image.file.epoch
            end = ends.get(epoch, 0)
            if epoch not in shown and end > max(began[epoch], self._result.truncation_sequence):
                raise self._corruption(f"record {began[epoch]} is damaged", image.file, DATA_OFFSET)

    def _skip_truncated(self, images: list[_Image]) -> list[_Image]:
        """Drop the files in front of the one in which the truncation point lies."""
        start = 0
        for index, image in enumerate(images):
            if image.first_sequence is not None and image.first_sequence <= self._result.truncation_sequence:
                start = index
        self._result.dead.extend(image.file for image in images[:start])
        return images[start:]

    def _find_start(self, image: _Image) -> int | None:
        """Return the sequence with which a file begins, or None if it holds nothing."""
        if image.first_sequence is not None:
            return image.first_sequence
        for _offset, header in find_records(self._read, image.file, self._log, DATA_OFFSET):
            return header.file_first_sequence
        return None

    def _walk_epochs(self, images: list[_Image]) -> int:
        result = self._result
        truncation = result.truncation_sequence
        start = self._find_start(images[0])
        if start is None:
            start = max(truncation, images[0].head.epoch_first_sequence)
        if start > truncation:
            message = f"the log begins at {start} but was truncated at {truncation}"
            raise self._corruption(message, images[0].file, DATA_OFFSET)
        sequence = start
        by_epoch: dict[int, list[_Image]] = {}
        for image in images:
            by_epoch.setdefault(image.file.epoch, []).append(image)
        groups = [by_epoch[epoch] for epoch in sorted(by_epoch)]
        for index, group in enumerate(groups[:-1]):
            end = groups[index + 1][0].head.epoch_first_sequence
            sequence, broken, offset = self._walk(group, sequence, end)
            if sequence != end:
                raise self._corruption(f"record {sequence} is damaged or missing", broken, offset)
        sequence = self._walk_newest(groups[-1], sequence)
        if sequence < truncation:
            message = f"the log ends at {sequence} but was truncated at {truncation}"
            raise self._corruption(message, images[-1].file, DATA_OFFSET)
        return sequence

    def _walk_newest(self, group: list[_Image], sequence: int) -> int:
        first = sequence
        sequence, broken, offset = self._walk(group, sequence, None)
        durable = max(image.durable_sequence for image in group)
        for extent in self._result.extents:
            durable = max(durable, extent.durable_sequence)
        for header in self._find_witnesses(group, broken, offset):
            durable = max(durable, header.durable_sequence)
            if header.kind == KIND_CLOSE and header.sequence == sequence:
                break  # the owner wrote nothing behind it
        if durable >= sequence:
            raise self._corruption(f"record {sequence} is damaged but was acknowledged", broken, offset)
        for extent in self._result.extents:
            if extent.first_sequence >= first and extent.end_sequence - 1 > durable:
                offsets = (offset for doubtful, offset in extent.doubtful if doubtful > durable)
                start = next(offsets, DATA_OFFSET)
                self._result.unproven.append(UnprovenRecords(extent.file, start, extent.end_offset))
        return sequence

    def _find_witnesses(self, group: list[_Image], broken: FoundFile, offset: int) -> Iterator[RecordHeader]:
        """Yield the headers of whole records behind the end of the log."""
        for image in group:
            if image.file.number >= broken.number:
                start = offset if image.file is broken else DATA_OFFSET
                for _offset, header in find_records(self._read, image.file, self._log, start):
                    yield header

    def _walk(self, group: list[_Image], sequence: int, end: int | None) -> tuple[int, FoundFile, int]:
        """Walk one epoch's files; return where their records end or break off: sequence, file and offset."""
        broken, offset = group[0].file, DATA_OFFSET
        for image in group:
            extent = LogExtent(image.file, sequence, sequence, DATA_OFFSET, 0)
            if image.first_sequence == sequence:
                self._walk_file(extent, end)
                broken, offset = image.file, extent.end_offset
                sequence = extent.end_sequence
            if extent.end_sequence > extent.first_sequence:
                self._result.extents.append(extent)
            else:
                self._result.dead.append(image.file)
        return sequence, broken, offset

    def _walk_file(self, extent: LogExtent, end: int | None) -> None:
        cursor = RecordCursor(self._read, extent.file, self._log)
        sequence = extent.needed_sequence = extent.first_sequence
        doubtful = extent.doubtful
        while sequence != end:
            if sequence == self._result.truncation_sequence:
                extent.needed_sequence, extent.needed_offset = sequence, extent.end_offset
            record = cursor.next_record()
            if record is None or record[0].sequence != sequence or record[0].kind != KIND_DATA:
                later = self._find_needed(extent.file, extent.end_offset, sequence, end)
                if later is None:
                    break
                extent.start_offset, sequence = later
                extent.first_sequence, extent.end_offset = sequence, extent.start_offset
                extent.needed_sequence, extent.needed_offset = sequence, extent.start_offset
                cursor = RecordCursor(self._read, extent.file, self._log, extent.start_offset)
                doubtful.clear()
                continue
            doubtful.append((sequence, extent.end_offset))
            sequence += 1
            extent.durable_sequence = record[0].durable_sequence
            extent.end_offset = cursor.offset
            while doubtful and doubtful[0][0] <= extent.durable_sequence:
                doubtful.popleft()
        extent.end_sequence = sequence

    def _find_needed(
        self, file: FoundFile, offset: int, sequence: int, end: int | None
    ) -> tuple[int, int] | None:
        """Return offset and sequence of the next record from which on all that is needed may be there.

        Truncated records are not needed: damage there is passed over, if there is a whole record behind it
        that does not lie above the truncation point.
        """
        truncation = self._result.truncation_sequence
        last = truncation if end is None else min(truncation, end - 1)
        if sequence >= last:
            return None
        for at, header in find_records(self._read, file, self._log, offset):
            if header.kind == KIND_DATA and sequence < header.sequence <= last:
                return at, header.sequence
        return None

    def _corruption(self, message: str, file: FoundFile, offset: int) -> DataCorruptionError:
        return DataCorruptionError(message, path=f"{self._path}/{file.name}", offset=offset)

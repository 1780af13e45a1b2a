"""Log files as bytes in a dictionary, made record by record, for the deciding part of recovery."""

from __future__ import annotations

from headrace.wal.config import BLOCK_BYTES
from headrace.wal.file.recovery_plan import FoundFile, RecordCursor, RecoveredLog, recover_log
from headrace.wal.file.segment_format import (
    DATA_OFFSET,
    MARK_OFFSETS,
    FileHead,
    TruncationMark,
    decode_head,
    encode_head,
    encode_mark,
    format_name,
    parse_name,
    short_log_id,
)
from headrace.wal.record_format import (
    KIND_CLOSE,
    KIND_DATA,
    RECORD_HEADER_BYTES,
    encode_header,
    padded_bytes,
    seal_record,
)

LOG_ID = bytes(range(16))


def content_of(sequence: int, epoch: int = 1) -> bytes:
    return b"record %d of epoch %d" % (sequence, epoch)


class Image:
    """One file under construction."""

    def __init__(self, number, epoch, began, truncation=1, log_id=LOG_ID, size=64 * 1024):
        self.number = number
        self.epoch = epoch
        self.log_id = log_id
        self.first = 0
        self.data = bytearray(size)
        self.data[:DATA_OFFSET] = encode_head(FileHead(log_id, epoch, number, began, truncation))
        self.position = DATA_OFFSET
        self.offsets = {}

    @property
    def name(self):
        return format_name(self.number, self.epoch)

    def add(self, sequence, durable=None, content=None, kind=KIND_DATA):
        """Append a record; by default all earlier ones are durable."""
        content = content_of(sequence, self.epoch) if content is None else content
        self.first = self.first or sequence
        raw = encode_record(
            content,
            kind=kind,
            epoch=self.epoch,
            file_number=self.number,
            sequence=sequence,
            durable_sequence=sequence - 1 if durable is None else durable,
            file_first_sequence=self.first,
            log=short_log_id(self.log_id),
        )
        self.offsets[sequence] = self.position
        self.data[self.position : self.position + len(raw)] = raw
        self.position += len(raw)
        return self

    def add_many(self, *sequences, **options):
        for sequence in sequences:
            self.add(sequence, **options)
        return self

    def close(self, sequence):
        return self.add(sequence, content=b"", kind=KIND_CLOSE)

    def mark(self, turn, truncation, durable=0):
        at = MARK_OFFSETS[turn % 2]
        self.data[at : at + BLOCK_BYTES] = encode_mark(
            TruncationMark(self.log_id, self.epoch, self.number, turn, truncation, durable)
        )
        return self

    def sized(self):
        """Cut the file behind the block after its last record, and have the head say so (version 2)."""
        del self.data[self.position + BLOCK_BYTES :]
        _, epoch, number, began, truncation, _ = decode_head(memoryview(self.data))
        head = FileHead(self.log_id, epoch, number, began, truncation, len(self.data))
        self.data[:BLOCK_BYTES] = encode_head(head)[:BLOCK_BYTES]
        return self

    def damage(self, sequence, at=RECORD_HEADER_BYTES):
        self.data[self.offsets[sequence] + at] ^= 1
        return self


def encode_record(content, **fields):
    raw = memoryview(bytearray(padded_bytes(len(content))))
    raw[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + len(content)] = content
    encode_header(raw, length=len(content), **fields)
    seal_record(raw, len(content))
    return bytes(raw)


class Reader:
    """``ReadAt`` over bytes by name."""

    def __init__(self, files):
        self.files = files

    def __call__(self, name, offset, length):
        return memoryview(self.files[name])[offset : offset + length]


def recover_files(files, log_id=LOG_ID) -> tuple[RecoveredLog, dict[int, bytes]]:
    """Recover; return what was decided and the living records."""
    found = []
    for name in files:
        parsed = parse_name(name)
        assert parsed is not None
        found.append(FoundFile(name, *parsed))
    read = Reader(files)
    log = recover_log(found, log_id, read, "/log")
    records = {}
    for extent in log.extents:
        cursor = RecordCursor(read, extent.file, short_log_id(log_id), extent.start_offset)
        for sequence in range(extent.first_sequence, extent.end_sequence):
            record = cursor.next_record()
            assert record is not None
            assert record[0].sequence == sequence
            assert sequence not in records
            records[sequence] = bytes(record[1])
    return log, {
        sequence: content for sequence, content in records.items() if sequence >= log.truncation_sequence
    }


def recover(*images, log_id=LOG_ID):
    return recover_files({image.name: image.data for image in images}, log_id)

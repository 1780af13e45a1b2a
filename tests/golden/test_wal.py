"""The file log's formats, pinned for ever: two whole small logs, made of fixed values.

What they hold is described in ``tests/golden/wal/v1/README.md`` and ``v2/README.md``: version 2 of the head
of segment files knows the size of its file; everything else is version 1 in both.
"""

from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.file import FileWal
from headrace.wal.file.owner_format import (
    NEWEST_SLOT_COUNT,
    NEWEST_SLOTS_AT,
    SLOT_BYTES,
    NewestFile,
    OwnerRecord,
    choose_newest_slot,
    decode_newest,
    decode_owner,
    encode_newest,
    encode_owner,
    find_named,
)
from headrace.wal.file.segment_format import (
    FileHead,
    TruncationMark,
    decode_head,
    decode_mark,
    encode_head,
    encode_mark,
    format_name,
    short_log_id,
)
from headrace.wal.record_format import (
    KIND_CLOSE,
    KIND_DATA,
    RECORD_HEADER_BYTES,
    RecordHeader,
    decode_header,
    encode_header,
    is_whole,
    padded_bytes,
    seal_record,
)

GOLDEN = Path(__file__).parent / "wal" / "v1"
GOLDEN_2 = Path(__file__).parent / "wal" / "v2"
GOLDEN_3 = Path(__file__).parent / "wal" / "v3"
GOLDEN_4 = Path(__file__).parent / "wal" / "v4"
LOG_ID = bytes(range(16))
LOG = short_log_id(LOG_ID)

FIRST_OWNER = OwnerRecord(LOG_ID, 1, 0, 1_700_000_000_000, b"\x11" * 8)
SECOND_OWNER = OwnerRecord(LOG_ID, 2, 1, 1_700_000_060_000, b"\x22" * 8)
FIRST_HEAD = FileHead(LOG_ID, 1, 1, 1, 1)
SECOND_HEAD = FileHead(LOG_ID, 2, 2, 3, 2)
MARK = TruncationMark(LOG_ID, 1, 1, 1, 2)
CONTENTS = {1: b"first", 2: b"", 3: b"third", 4: bytes(range(256)) * 20}


def record(sequence, *, epoch, number, durable, first, kind=KIND_DATA):
    content = CONTENTS[sequence] if kind == KIND_DATA else b""
    raw = memoryview(bytearray(padded_bytes(len(content))))
    raw[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + len(content)] = content
    encode_header(
        raw,
        kind=kind,
        length=len(content),
        epoch=epoch,
        file_number=number,
        sequence=sequence,
        durable_sequence=durable,
        file_first_sequence=first,
        log=LOG,
    )
    seal_record(raw, len(content))
    return bytes(raw)


def build():
    """Return the files of the golden log."""
    first = bytearray(encode_head(FIRST_HEAD))
    first[8192:12288] = encode_mark(MARK)
    first += record(1, epoch=1, number=1, durable=0, first=1)
    first += record(2, epoch=1, number=1, durable=0, first=1)
    second = bytearray(encode_head(SECOND_HEAD))
    second += record(3, epoch=2, number=2, durable=2, first=3)
    second += record(4, epoch=2, number=2, durable=3, first=3)
    second += record(5, epoch=2, number=2, durable=4, first=3, kind=KIND_CLOSE)
    return {
        "owner": encode_owner(FIRST_OWNER) + encode_owner(SECOND_OWNER),
        format_name(1, 1): bytes(first),
        format_name(2, 2): bytes(second),
    }


SIZED_HEAD = FileHead(LOG_ID, 1, 1, 1, 1, 24576)
DURABLE_MARK = TruncationMark(LOG_ID, 1, 1, 1, 1, 2)


def build_2():
    """Return the files of the golden log whose head is of version 2."""
    file = bytearray(encode_head(SIZED_HEAD))
    file[8192:12288] = encode_mark(DURABLE_MARK)
    file += record(1, epoch=1, number=1, durable=0, first=1)
    file += record(2, epoch=1, number=1, durable=1, first=1)
    return {
        "owner": encode_owner(FIRST_OWNER) + bytes(4096),
        format_name(1, 1): bytes(file.ljust(24576, b"\0")),
    }


@pytest.mark.parametrize("name", sorted(build_2()))
def test_today_s_code_writes_the_golden_bytes_of_version_2(name):
    assert build_2()[name] == (GOLDEN_2 / name).read_bytes()


def test_the_head_of_version_2_decodes_to_the_values_it_was_made_of():
    data = memoryview((GOLDEN_2 / format_name(1, 1)).read_bytes())
    assert decode_head(data) == SIZED_HEAD
    assert decode_mark(data[4096:]) is None
    assert decode_mark(data[8192:]) == DURABLE_MARK
    assert len(data) == SIZED_HEAD.file_bytes


async def test_the_golden_log_of_version_2_opens_and_notices_a_lost_end(tmp_path):
    for cut in (0, 1):
        directory = tmp_path / str(cut)
        directory.mkdir()
        for name in build_2():
            data = (GOLDEN_2 / name).read_bytes()
            (directory / name).write_bytes(data[: len(data) - cut])
    wal = FileWal(str(tmp_path / "0"))
    await wal.open()
    assert [(found.address, bytes(found.payload)) async for found in wal.records()] == [
        (1, b"first"),
        (2, b""),
    ]
    await wal.close()
    wal = FileWal(str(tmp_path / "1"))
    with pytest.raises(DataCorruptionError, match="the end of a log file is missing"):
        await wal.open()
    await wal.close()


@pytest.mark.parametrize("name", sorted(build()))
def test_today_s_code_writes_the_golden_bytes(name):
    assert build()[name] == (GOLDEN / name).read_bytes()


def test_the_golden_log_decodes_to_the_values_it_was_made_of():
    owner = memoryview((GOLDEN / "owner").read_bytes())
    assert decode_owner(owner) == FIRST_OWNER
    assert decode_owner(owner[4096:]) == SECOND_OWNER
    first = memoryview((GOLDEN / format_name(1, 1)).read_bytes())
    assert decode_head(first) == FIRST_HEAD
    assert decode_mark(first[4096:]) is None
    assert decode_mark(first[8192:]) == MARK
    header = decode_header(first, 12288)
    assert header == RecordHeader(header.crc, KIND_DATA, 5, 1, 1, 1, 0, 1, LOG)
    assert is_whole(first, 12288, header)
    assert bytes(first[12288 + 64 : 12288 + 69]) == b"first"


async def test_the_golden_log_opens(tmp_path):
    for name in build():
        (tmp_path / name).write_bytes((GOLDEN / name).read_bytes())
    wal = FileWal(str(tmp_path))
    await wal.open()
    assert wal.epoch == 3
    assert [(found.address, bytes(found.payload)) async for found in wal.records()] == [
        (sequence, CONTENTS[sequence]) for sequence in (2, 3, 4)
    ]
    await wal.close()


FORMER_NEWEST = NewestFile(LOG_ID, 1, 1)
NEWEST = NewestFile(LOG_ID, 2, 2)


def build_4():
    """Return an owner file that names the newest file of the first golden log."""
    slots = [bytes(SLOT_BYTES)] * NEWEST_SLOT_COUNT
    for newest in (FORMER_NEWEST, NEWEST):
        slots[choose_newest_slot(newest.epoch, 0)] = encode_newest(newest)
    return build()["owner"] + b"".join(slots)


def test_today_s_code_writes_the_golden_owner_file_that_names_the_newest_file():
    assert build_4() == (GOLDEN_4 / "owner").read_bytes()


def test_the_names_of_the_newest_files_decode_to_the_values_they_were_made_of():
    data = (GOLDEN_4 / "owner").read_bytes()
    slots = [data[at : at + SLOT_BYTES] for at in range(NEWEST_SLOTS_AT, len(data), SLOT_BYTES)]
    assert [decode_newest(memoryview(slot)) for slot in slots] == [NEWEST, None, FORMER_NEWEST, None]
    assert find_named(slots) == ([NEWEST], [])


def test_two_slots_as_earlier_versions_wrote_them_in_turn_name_the_same_file():
    data = (GOLDEN_3 / "owner").read_bytes()
    assert find_named([data[8192:12288], data[12288:], bytes(64), bytes(64)]) == ([NEWEST], [])


@pytest.mark.parametrize("golden", [GOLDEN_3, GOLDEN_4])
async def test_the_golden_log_that_names_its_newest_file_opens_and_notices_that_it_was_lost(tmp_path, golden):
    for lost in (False, True):
        directory = tmp_path / str(lost)
        directory.mkdir()
        (directory / "owner").write_bytes((golden / "owner").read_bytes())
        for name in build():
            if name != "owner" and not (lost and name == format_name(2, 2)):
                (directory / name).write_bytes((GOLDEN / name).read_bytes())
    wal = FileWal(str(tmp_path / "False"))
    await wal.open()
    assert [found.address async for found in wal.records()] == [2, 3, 4]
    await wal.close()
    wal = FileWal(str(tmp_path / "True"))
    with pytest.raises(DataCorruptionError, match=r"000000000002-000000000002\.wal is missing"):
        await wal.open()
    await wal.close()

"""The objects of a log in a bucket, pinned for ever: a small log of two owners, made of fixed values."""

from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.objects.object_format import HEADER_BYTES, Kind, ObjectHeader, decode_object, encode_object
from headrace.wal.objects.object_names import check_header

GOLDEN = Path(__file__).parent / "wal" / "objects_v1"
ONE = bytes(range(16))
TWO = bytes(range(16, 32))

OBJECTS = {
    "3/e1": (ObjectHeader(Kind.CLAIM, 3, 1, write_id=ONE), []),
    "3/r1-0": (ObjectHeader(Kind.RECORD, 3, 1, 0, 1, 0, ONE), [b"first", b""]),
    "3/r1-1": (ObjectHeader(Kind.RECORD, 3, 1, 1, 3, 1, ONE), [bytes(range(256)) * 20]),
    "3/r1-2": (ObjectHeader(Kind.FENCE, 3, 1, 2, write_id=TWO), []),
    "3/e2": (ObjectHeader(Kind.CLAIM, 3, 2, write_id=TWO), []),
    "3/h1-0-2": (ObjectHeader(Kind.HEAD, 3, 1, 0, 2), []),
    "system": (ObjectHeader(Kind.SYSTEM, 8, 0, write_id=ONE), []),
    "7/e999": (ObjectHeader(Kind.START, 7, 999), []),
}


def golden(name):
    return (GOLDEN / name).read_bytes()


@pytest.mark.parametrize("name", OBJECTS)
def test_today_s_code_writes_the_golden_bytes(name):
    header, frames = OBJECTS[name]
    assert b"".join(encode_object(header, frames)) == golden(name)


@pytest.mark.parametrize("name", OBJECTS)
def test_the_golden_bytes_decode_to_the_values_they_were_made_of(name):
    header, frames = OBJECTS[name]
    found = decode_object(golden(name), name)
    assert (found.header, [bytes(frame) for frame in found.frames]) == (header, frames)
    check_header(found.header, name)


@pytest.mark.parametrize("name", ["3/e1", "3/r1-0", "3/r1-2"])
def test_an_object_with_any_byte_changed_cut_or_added_is_refused_with_its_name(name):
    whole = golden(name)
    damaged = [whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(len(whole))]
    damaged += [whole[:length] for length in range(len(whole))]
    damaged += [whole + b"\0"]
    for raw in damaged:
        with pytest.raises(DataCorruptionError) as caught:
            decode_object(raw, name)
        assert caught.value.path == name


def test_an_object_of_a_newer_version_is_refused_and_says_what_to_do():
    newer = bytearray(golden("3/r1-0"))
    newer[8] = 2
    with pytest.raises(DataCorruptionError, match=r"version 2.*use the release that wrote it"):
        decode_object(newer, "3/r1-0")


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_under_the_name_of_another_is_refused(name):
    header, _ = OBJECTS[name]
    others = [other for other in OBJECTS if other != name]
    for other in [*others, f"4/{name[2:]}"]:
        with pytest.raises(DataCorruptionError, match="says that it is"):
            check_header(header, other)


def test_the_length_tells_records_from_all_others():
    for name, (header, _) in OBJECTS.items():
        assert (len(golden(name)) > HEADER_BYTES) == (header.kind is Kind.RECORD)

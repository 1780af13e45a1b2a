"""The bytes of chunk metadata are pinned: rows written by version 1 stay readable."""

from array import array
from pathlib import Path

import pytest

from headrace.storage.chunks.chunk_names import ChunkName, chunk_name, parse_chunk_name
from headrace.storage.metadata import rows
from headrace.storage.providers.files.chunk_paths import decode_chunk_path, encode_chunk_path

HERE = Path(__file__).parent / "storage_rows" / "v1"
EARLIER_NAME = "s/t/0.#epoch.0.5.E-3-O-100.0123abcd000102030405060708090a0b"
NAME = "c7/s/t/0.#epoch.0.5.E-3-O-100-0123abcd000102030405060708090a0b"

ROWS = {
    "segment": (
        rows.SegmentRow(3, 131172, 120, True, 1 << 27, 100, 1, EARLIER_NAME, EARLIER_NAME),
        rows.encode_segment_row,
        rows.decode_segment_row,
    ),
    "segment_empty": (
        rows.SegmentRow(1, 0, 0, False, 1 << 27, 0, 0),
        rows.encode_segment_row,
        rows.decode_segment_row,
    ),
    "chunk": (
        rows.ChunkRow(3, 131072, 65536, array("I", [1, 0xFFFFFFFF]), "next"),
        rows.encode_chunk_row,
        rows.decode_chunk_row,
    ),
    "checksums": (array("I", range(256)), rows.encode_checksum_row, rows.decode_checksum_row),
    "garbage": (rows.GarbageRow(EARLIER_NAME, 2), rows.encode_garbage_row, rows.decode_garbage_row),
    "incarnation": ("0123abcd", rows.encode_incarnation_row, rows.decode_incarnation_row),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_bytes_it_always_had(name):
    row, encode, decode = ROWS[name]
    golden = bytes.fromhex((HERE / f"{name}.hex").read_text())
    assert encode(row) == golden
    assert decode(golden) == row


def test_keys_are_what_they_always_were():
    assert rows.INCARNATION_KEY == "i"
    assert rows.segment_key("s/t/0.5") == "s/s/t/0.5"
    assert rows.chunk_key("s.E-1") == "c/s.E-1"
    assert rows.checksum_key("s.E-1", 258) == "k/s.E-1/00000102"
    assert rows.garbage_key(258) == "g/0000000000000102"


def test_a_chunk_name_and_its_path_are_what_they_always_were():
    assert chunk_name(7, "s/t/0.#epoch.0.5", 3, 100, "0123abcd", bytes(range(12))) == NAME
    assert parse_chunk_name(NAME) == ChunkName("s/t/0.#epoch.0.5", 3, 100, "0123abcd", "00010203", 7)
    assert parse_chunk_name(EARLIER_NAME) == ChunkName("s/t/0.#epoch.0.5", 3, 100, "0123abcd", "00010203")
    for name in (NAME, EARLIER_NAME):
        assert encode_chunk_path(name) == f"{name}.chunk"
        assert decode_chunk_path(f"{name}.chunk") == name


def test_a_scope_that_looks_like_a_container_is_none():
    assert parse_chunk_name(f"c7/{EARLIER_NAME}").container is None
    assert parse_chunk_name(f"c7/{NAME}").segment == NAME.partition(".E-")[0]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("..", "%2E..chunk"),
        (".hidden/a", "%2Ehidden/a.chunk"),
        ("a//b", "a/%empty/b.chunk"),
        ("a.chunk/b", "a.chun%6B/b.chunk"),
        ("sp ace/ü%", "sp%20ace/%C3%BC%25.chunk"),
        ("x" * 450, "x" * 200 + "%/" + "x" * 200 + "%/" + "x" * 50 + ".chunk"),
        ("x" * 200 + "../a", "x" * 200 + "%/%2E./a.chunk"),
        ("x" * 200 + ".", "x" * 200 + "%/%2E.chunk"),
        ("x" * 200 + ".y", "x" * 200 + "%/%2Ey.chunk"),
    ],
)
def test_odd_names_have_the_paths_they_always_had(name, path):
    assert encode_chunk_path(name) == path
    assert decode_chunk_path(path) == name

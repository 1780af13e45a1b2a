"""The bytes of catalogue rows are pinned, and no damage to one goes unnoticed."""

from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.catalogue_row import decode_row, encode_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.chunks.segment_layout import Rows, SegmentLayout, load_layout

NEWER = bytes.fromhex((Path(__file__).parent / "catalogue_row/v1/segment_row_4.hex").read_text())
GOLDEN = bytes.fromhex((Path(__file__).parent / "catalogue_row/v1/row.hex").read_text())
WITH_STORAGE = bytes.fromhex((Path(__file__).parent / "catalogue_row/v2/row.hex").read_text())
NAME = "sc/st/0.#epoch.0"
WRITER = bytes.fromhex("00112233445566778899aabbccddeeff")


def test_a_row_has_the_bytes_it_always_had():
    state = SegmentState(5, NAME, accepted_start_offset=13, accepted_length=133, accepted_sealed=True)
    state.last_modified_ms = 1_700_000_000_000
    state.attributes.accept({WRITER: 4})
    assert encode_row(state) == NEWER
    check_decoded(NEWER, has_index=False)
    check_decoded(GOLDEN, has_index=True)  # it may have one: rows did not tell
    state.note_index()
    check_decoded(encode_row(state), has_index=True)


def check_decoded(row, *, has_index):
    segment = decode_row(NAME, row).segment
    assert segment.attributes.has_index == has_index
    assert segment.stored_length == 133
    assert (segment.segment_id, segment.start_offset, segment.durable_length, segment.sealed) == (
        5,
        13,
        133,
        True,
    )
    assert segment.attributes.durable == {WRITER: 4}


def test_a_row_with_rows_of_storage_is_read():
    rows: Rows = {}
    SegmentLayout("s/a.5", 3, 65536).put_segment_row(rows)
    row = decode_row("s/a", WITH_STORAGE)
    assert (row.segment.segment_id, row.storage_rows) == (5, rows)


def test_the_page_shows_the_golden_bytes():
    page = (Path(__file__).parents[2] / "docs/formats/catalogue-row.md").read_text()
    for shown, golden in zip(page.split("```")[1::2], (NEWER, WITH_STORAGE), strict=True):
        lines = shown.strip().splitlines()
        assert bytes.fromhex("".join(line[4:].replace(" ", "") for line in lines)) == golden


@pytest.mark.parametrize(("name", "golden"), [(NAME, GOLDEN), (NAME, NEWER), ("s/a", WITH_STORAGE)])
def test_every_flipped_bit_and_every_cut_is_corruption(name, golden):
    damaged = [golden[:size] for size in range(len(golden))] + [golden + b"\0"]
    for bit in range(8 * len(golden)):
        flipped = bytearray(golden)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        with pytest.raises(DataCorruptionError):
            decode_row(name, data)


@given(st.integers(0, len(WITH_STORAGE)), st.binary(max_size=40))
def test_a_row_that_is_whole_but_not_well_formed_is_corruption(cut, tail):
    body = WITH_STORAGE[:-4][:cut] + tail
    if len(body) > 1 and body != WITH_STORAGE[:-4]:
        with pytest.raises(DataCorruptionError):
            decode_all(body + crc32c(body).to_bytes(4, "big"))


def decode_all(data):
    """Decode a row and the rows of storage in it."""
    return load_layout("s/a.5", decode_row("s/a", data).storage_rows.get)


def test_a_row_under_another_name_is_corruption():
    with pytest.raises(DataCorruptionError):
        decode_row("sc/st/1.#epoch.0", GOLDEN)


@pytest.mark.parametrize("side", ["accepted_deleted", "accepted_merged"])
def test_a_row_of_what_is_gone_is_corruption(side):
    state = SegmentState(5, NAME)
    setattr(state, side, True)
    with pytest.raises(DataCorruptionError):
        decode_row(NAME, encode_row(state))

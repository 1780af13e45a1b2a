"""The bytes of catalogue rows are pinned, and no damage to one goes unnoticed."""

from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.catalogue_row import decode_row, encode_row
from headrace.segmentstore.container.segment_state import SegmentState

GOLDEN = bytes.fromhex((Path(__file__).parent / "catalogue_row/v1/row.hex").read_text())
NAME = "sc/st/0.#epoch.0"
WRITER = bytes.fromhex("00112233445566778899aabbccddeeff")


def test_a_row_has_the_bytes_it_always_had():
    state = SegmentState(5, NAME, accepted_start_offset=13, accepted_length=133, accepted_sealed=True)
    state.last_modified_ms = 1_700_000_000_000
    state.accepted_attributes = {WRITER: 4}
    assert encode_row(state) == GOLDEN
    segment = decode_row(NAME, GOLDEN).segment
    assert (segment.segment_id, segment.start_offset, segment.durable_length, segment.sealed) == (
        5,
        13,
        133,
        True,
    )
    assert segment.attributes == {WRITER: 4}


def test_the_page_shows_the_golden_bytes():
    page = (Path(__file__).parents[2] / "docs/formats/catalogue-row.md").read_text()
    shown = page.split("```")[1]
    assert bytes.fromhex("".join(line[4:].replace(" ", "") for line in shown.strip().splitlines())) == GOLDEN


def test_every_flipped_bit_and_every_cut_is_corruption():
    damaged = [GOLDEN[:size] for size in range(len(GOLDEN))] + [GOLDEN + b"\0"]
    for bit in range(8 * len(GOLDEN)):
        flipped = bytearray(GOLDEN)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        with pytest.raises(DataCorruptionError):
            decode_row(NAME, data)


def test_a_row_under_another_name_is_corruption():
    with pytest.raises(DataCorruptionError):
        decode_row("sc/st/1.#epoch.0", GOLDEN)

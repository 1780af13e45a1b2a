"""Rows of metadata checkpoints: whole ones, and those too large for a part."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import (
    CheckpointSnapshot,
    decode_segment_row,
    encode_segment_row,
    install,
    join_rows,
    split_row,
)
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState

ROWS = st.lists(st.binary(min_size=1, max_size=60).map(lambda body: b"\x01" + body), max_size=8)


@given(rows=ROWS, bytes_max=st.integers(2, 70))
def test_rows_that_were_cut_are_joined_to_what_they_were(rows, bytes_max):
    pieces = [piece for row in rows for piece in split_row(row, bytes_max)]
    assert all(len(piece) <= bytes_max for piece in pieces)
    assert [bytes(row) for row in join_rows(pieces)] == rows


def test_a_row_without_its_end_is_corruption():
    row = b"\x01" + bytes(50)
    pieces = list(split_row(row, 20))
    assert len(pieces) == 3
    for damaged in (pieces[:-1], [*pieces[:-1], row], [*pieces[:1], row]):
        with pytest.raises(DataCorruptionError):
            list(join_rows(damaged))


def test_a_row_of_another_version_or_with_bytes_behind_it_is_corruption():
    row = encode_segment_row(SegmentState(1, "s/a", attributes=SegmentAttributes({bytes(16): 1})))
    assert decode_segment_row(row).name == "s/a"
    for damaged in (b"\x02" + row[1:], row + b"\0"):
        with pytest.raises(DataCorruptionError):
            decode_segment_row(damaged)


def test_a_segment_of_ten_thousand_writers_fits_parts_of_any_size():
    state = ContainerState(1)
    writers = {number.to_bytes(16, "big"): number for number in range(10_000)}
    state.insert(SegmentState(1, "s/small"))
    state.insert(SegmentState(2, "s/large", attributes=SegmentAttributes(writers)))
    state.insert(SegmentState(3, "s/last"))
    snapshot = CheckpointSnapshot(state)
    parts = [rows for rows, _ in snapshot.parts(1000)]
    assert max(sum(map(len, rows)) for rows in parts) < 2000
    assert [decode_segment_row(row).name for row in join_rows(row for rows in parts for row in rows)] == [
        "s/small",
        "s/large",
        "s/last",
    ]
    recovered = ContainerState(1)
    steps = install(recovered, join_rows(row for rows in parts for row in rows), {})
    assert len(list(steps)) == 3
    assert recovered.by_name["s/large"].attributes.accepted == writers

import pytest

from headrace.errors import DataCorruptionError
from headrace.model.tables import TableEntry
from headrace.segmentstore.inspection.segment_content import read_entries, read_table
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.entry_format import encode_entries, encode_removals

PUT, _ = encode_entries([TableEntry(b"a", b"1"), TableEntry(b"b", b"22"), TableEntry(b"a", b"333")])
REMOVED = encode_removals([b"b"])
LOG = PUT + REMOVED


class Pieces:
    """A segment's bytes from an offset on, in pieces."""

    def __init__(self, start, *pieces):
        self.start = start
        self.data = pieces

    def pieces(self, _):
        at = self.start
        for data in self.data:
            yield at, memoryview(data)
            at += len(data)


def table(start):
    return SegmentState(1, "t", start_offset=start)


@pytest.mark.slow
@pytest.mark.parametrize("cut", range(len(LOG) + 1))
def test_a_table_is_read_however_its_bytes_are_cut(cut):
    contents = Pieces(100, LOG[:cut], LOG[cut:])
    assert read_table(contents, table(100)) == {b"a": b"333"}
    offsets = [offset for offset, _, _ in read_entries(contents, table(100))]
    assert offsets == [100, 119, 139, 160]


@pytest.mark.slow
@pytest.mark.parametrize("length", range(1, len(LOG)))
def test_a_table_that_ends_within_an_entry_is_damaged(length):
    contents = Pieces(0, LOG[:length])
    if length in {19, 39, 60}:
        read_table(contents, table(0))
        return
    with pytest.raises(DataCorruptionError, match="the table ends with"):
        read_table(contents, table(0))


def test_what_is_no_entry_is_named_with_its_offset():
    with pytest.raises(DataCorruptionError, match="t at offset 119"):
        read_table(Pieces(100, LOG[:19] + b"\x02" + LOG[20:]), table(100))

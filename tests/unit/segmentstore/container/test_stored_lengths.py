"""What rows of long-term storage say about segments while the log is replayed."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.container.rows.stored_lengths import StoredLengths
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.metadata.rows import SegmentRow, encode_segment_row, segment_key


class Index:
    def __init__(self):
        self.told = []

    def on_changed(self, segment):
        self.told.append(segment.stored_length)

    def free_unneeded(self, segment):
        pass


def test_stored_lengths_follow_the_rows_never_back_and_never_beyond_the_log():
    container, index = ContainerState(0), Index()
    segment = SegmentState(0x1F, "a.b", durable_length=100, accepted_length=100)
    container.insert(segment)
    lengths = StoredLengths(container, index)

    def claim(length):
        row = encode_segment_row(SegmentRow(1, length, 0, False, 1000, 0, 1, "c", "c"))
        lengths.on_rows({segment_key(segment.storage_name): row})

    for length in (40, 30, 100):
        claim(length)
    assert index.told == [40, 100]
    with pytest.raises(DataCorruptionError, match=r"101 bytes of segment 'a\.b', the log knows 100"):
        claim(101)
    assert segment.stored_length == 100
    segment.check()

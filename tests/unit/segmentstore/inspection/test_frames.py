from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.inspection.frames import read_operations, summarise_frames
from headrace.wal.logs import LogFrame

GOLDEN = Path(__file__).parents[3] / "golden" / "data_frame" / "v1" / "one_delete.hex"
ONE_DELETE = bytes.fromhex(GOLDEN.read_text())


def frame(address, payload):
    return LogFrame("000000000001-000000000001.wal", 4096 * address, address, 1, memoryview(payload))


def test_a_frame_is_summarised_by_what_it_holds():
    (summary,) = summarise_frames([frame(3, ONE_DELETE)])
    assert (summary.time_ms, summary.size_bytes, summary.entries, summary.operations) == (7, 41, 1, 1)
    assert (summary.first_sequence, summary.last_sequence) == (1, 1)


def test_operations_know_where_they_begin():
    found = list(read_operations([frame(3, ONE_DELETE)]))
    assert [(item.begin_address, item.frame.offset, item.time_ms) for item in found] == [(3, 12288, 7)]


@pytest.mark.parametrize("read", [read_operations, summarise_frames])
@pytest.mark.parametrize("at", [0, 7, 19, 21, 22])
def test_what_does_not_decode_is_named_with_file_and_offset(read, at):
    payload = bytearray(ONE_DELETE)
    payload[at] ^= 0x40
    with pytest.raises(DataCorruptionError, match=r"000000000001-000000000001\.wal at offset 12288"):
        list(read([frame(3, payload)]))


@pytest.mark.parametrize("read", [read_operations, summarise_frames])
def test_frames_cut_or_out_of_order_are_named(read):
    with pytest.raises(DataCorruptionError, match="at offset 12288"):
        list(read([frame(3, ONE_DELETE[:-1])]))
    with pytest.raises(DataCorruptionError, match="at offset 8192"):
        list(read([frame(3, ONE_DELETE), frame(2, ONE_DELETE)]))

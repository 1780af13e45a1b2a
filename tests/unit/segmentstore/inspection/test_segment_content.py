"""Bytes of a segment are put together from chunks and log, and none is taken for another."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.segmentstore.inspection.segment_content import SegmentContents
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.storage.inspect import ChunkFiles
from headrace.wal.file.logs import FoundFileLog
from tests.unit.segmentstore.inspection.logs import checkpoint, make_log, store_segment

WRITER = bytes(16)
CONTENT = bytes(range(30))


class Place:
    """A container of one segment, of which the checkpoint knows ``CONTENT[:length]``."""

    def __init__(self, directory):
        self.log = directory / "log"
        self.files = ReadOnlyFiles()
        self.chunks = ChunkFiles(str(directory / "chunks"), self.files)

    async def make(self, *behind, length, stored=b"", start=0, before=()):
        _, rows = store_segment(self.chunks, "demo/s.1", stored, start_offset=start) if stored else (0, {})
        row = SegmentState(1, "demo/s", accepted_length=length, accepted_start_offset=start)
        behind = [*behind, ops.StorageRows(7, rows)]
        begin = checkpoint(encode_segment_row(row))
        await make_log(self.log, [*before, *begin, *behind], operations_per_frame=1)
        return self

    def read(self):
        replayed = replay_container(0, FoundFileLog(str(self.log), self.files))
        segment = replayed.state.get("demo/s")
        contents = SegmentContents(replayed, [segment], self.chunks)
        found = b""
        for offset, data in contents.pieces(segment):
            assert offset == segment.start_offset + len(found)
            found += data
        return found


def append(sequence, offset, end):
    return ops.Append(sequence, 1, offset, {}, CONTENT[offset:end])


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stored", "start"),
    [(20, 0), (21, 0), (29, 0), (30, 0), (20, 12), (25, 20), (25, 22), (30, 12)],
)
async def test_what_storage_and_log_hold_is_read_whole_wherever_they_overlap(place, stored, start):
    before = [append(-1, 0, 10), append(0, 10, 20)]
    behind = [append(4, 20, 25), append(5, 25, 30)]
    if start > 20:
        behind.append(ops.Truncate(6, 1, start))
    begins = min(start, 20)
    await place.make(*behind, before=before, length=20, stored=CONTENT[:stored], start=begins)
    assert place.read() == CONTENT[start:]


async def test_an_append_run_counts_like_any_append(place):
    await place.make(ops.AppendBatch(4, 1, 10, WRITER, 1, 1, CONTENT[10:]), length=10, stored=CONTENT[:10])
    assert place.read() == CONTENT


@pytest.mark.parametrize("stored", [b"", CONTENT[:9]])
async def test_bytes_that_neither_storage_nor_log_holds_are_missing(place, stored):
    await place.make(append(4, 10, 20), length=10, stored=stored)
    with pytest.raises(DataCorruptionError, match=f"from {len(stored)} on are missing"):
        place.read()


async def test_bytes_behind_a_gap_never_stand_for_those_of_the_gap(place):
    """In front of the first checkpoint nobody has compared operations with each other."""
    before = [append(-1, 10, 20), append(0, 10, 20)]
    await place.make(before=before, length=20)
    with pytest.raises(DataCorruptionError, match="from 0 on are missing"):
        place.read()

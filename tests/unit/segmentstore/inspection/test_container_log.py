"""Logs that are long, that change while they are read, or that contradict themselves."""

import os
import tracemalloc

import pytest

from headrace.errors import DataCorruptionError, SnapshotLostError
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.read_only_files import ReadOnlyFiles
from headrace.segmentstore.inspection.container_check import check_container
from headrace.segmentstore.inspection.container_replay import replay_container
from headrace.segmentstore.inspection.frames import read_operations
from headrace.segmentstore.operations import catalogue as ops
from headrace.storage.inspect import ChunkFiles
from headrace.wal.file.log_snapshot import FileLogSnapshot
from headrace.wal.file.logs import FoundFileLog
from headrace.wal.file.owner_format import NEWEST_SLOTS_AT
from headrace.wal.file.segment_format import parse_name
from tests.unit.segmentstore.inspection.logs import BEGINNING, make_log

SEGMENT = ops.MapSegment(3, 3, "demo/s", {})
WRITER = bytes(16)


def appends(count, size=100):
    for number in range(count):
        yield ops.AppendBatch(4 + number, 3, size * number, WRITER, number, 1, b"x" * size)


class ChangingFiles(OsFilesystem):
    """Files of a server that works: what one look sees is gone, or mended, at the next."""

    def __init__(self, *, damaged_looks=0, vanishing_looks=0, moving=False):
        super().__init__()
        self.looks = 0
        self.damaged_looks = damaged_looks
        self.vanishing_looks = vanishing_looks
        self.moving = moving

    def listdir(self, path):
        self.looks += 1
        return super().listdir(path)

    def open(self, path, flags, mode=0o644):
        if path.endswith(".wal") and self.looks <= self.vanishing_looks:
            raise FileNotFoundError(path)
        return super().open(path, flags, mode)

    def pread_into(self, fd, buffer, offset):
        count = super().pread_into(fd, buffer, offset)
        if self.looks <= self.damaged_looks and os.fstat(fd).st_size > 8192:
            at = 12288 + (4096 * self.looks if self.moving else 4096) + 70
            if offset <= at < offset + count:
                buffer[at - offset] ^= 1
        return count


@pytest.mark.slow
async def test_a_long_log_is_read_in_little_memory(tmp_path):
    count = 8_000
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, *appends(count)])
    tracemalloc.start()
    try:
        replayed = replay_container(0, FoundFileLog(str(tmp_path / "log"), ReadOnlyFiles()))
        found = sum(1 for _ in read_operations(replayed.log.frames()))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found == replayed.operations == count + 3
    assert replayed.state.get("demo/s").durable_length == 100 * count
    assert [(item.offset, item.end) for item in replayed.coverage.ranges(replayed.state.get("demo/s"))] == [
        (0, 100 * count)
    ]
    assert peak < 3 << 20  # the operations themselves would take three times as much


async def test_damage_that_is_gone_at_the_second_look_was_a_record_in_flight(tmp_path):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, *appends(20)], operations_per_frame=1)
    log = FileLogSnapshot(str(tmp_path / "log"), ChangingFiles(damaged_looks=1))
    assert not log.problem
    assert sum(1 for _ in log.frames()) == 23


async def test_damage_that_stays_is_damage(tmp_path):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, *appends(20)], operations_per_frame=1)
    log = FileLogSnapshot(str(tmp_path / "log"), ChangingFiles(damaged_looks=1000))
    assert "offset 16384" in log.problem
    shown = []
    with pytest.raises(DataCorruptionError, match="offset 16384"):
        shown.extend(frame.address for frame in log.frames())
    assert shown == [1]


async def test_a_log_that_never_holds_still_is_said_to_be_one(tmp_path):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, *appends(20)], operations_per_frame=1)
    with pytest.raises(SnapshotLostError):
        FileLogSnapshot(str(tmp_path / "log"), ChangingFiles(damaged_looks=1000, moving=True))
    with pytest.raises(SnapshotLostError):
        FileLogSnapshot(str(tmp_path / "log"), ChangingFiles(vanishing_looks=1000))


async def test_a_file_that_is_recycled_meanwhile_is_looked_for_again(tmp_path):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, *appends(20)])
    assert not FileLogSnapshot(str(tmp_path / "log"), ChangingFiles(vanishing_looks=2)).problem


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (ops.AppendBatch(9, 3, 7, WRITER, 1, 1, b"abc"), "appends at 7, length is 0"),
        (ops.AppendBatch(9, 8, 0, WRITER, 1, 1, b"abc"), "is about a segment that is not there"),
        (ops.Seal(9, 3, 5), "seals at 5"),
        (ops.MapSegment(2, 2, "demo/t", {}), "operation 2 follows 3"),
        (ops.CheckpointBegin(9, 4, 1), "this is the log of container 4, not of 0"),
    ],
)
async def test_a_log_that_contradicts_itself_is_a_finding_with_its_place(tmp_path, wrong, words):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT, wrong], operations_per_frame=1)
    chunks = ChunkFiles(str(tmp_path / "chunks"), ReadOnlyFiles())
    report = check_container(0, FoundFileLog(str(tmp_path / "log"), ReadOnlyFiles()), chunks, deep=False)
    (finding,) = report.findings
    assert words in finding.what
    assert "000000000001-000000000001.wal at offset 24576" in finding.what
    assert not report.complete


async def test_operations_without_a_checkpoint_are_a_finding(tmp_path):
    await make_log(tmp_path / "log", [SEGMENT, *appends(3)])
    chunks = ChunkFiles(str(tmp_path / "chunks"), ReadOnlyFiles())
    report = check_container(0, FoundFileLog(str(tmp_path / "log"), ReadOnlyFiles()), chunks, deep=False)
    assert [finding.what for finding in report.findings] == [
        "the log holds operations but no whole metadata checkpoint"
    ]


async def test_a_log_whose_newest_file_was_deleted_is_reported_with_its_name(tmp_path):
    log = tmp_path / "log"
    await make_log(log, [*BEGINNING, SEGMENT])
    await make_log(log, appends(3))
    lost = max(path.name for path in log.iterdir() if path.suffix == ".wal")
    files = ReadOnlyFiles()
    chunks = ChunkFiles(str(tmp_path / "chunks"), files)
    assert not FileLogSnapshot(str(log), files).problem
    (log / lost).unlink()
    assert lost in FileLogSnapshot(str(log), files).problem
    report = check_container(0, FoundFileLog(str(log), files), chunks, deep=False)
    assert report.damaged
    assert lost in report.findings[0].what


async def test_a_log_without_the_files_that_its_owner_vouches_for_is_refused_although_the_rest_is_whole(
    tmp_path,
):
    log, files = tmp_path / "log", ReadOnlyFiles()
    for operations in ([*BEGINNING, SEGMENT], appends(3), []):
        await make_log(log, operations)
    with (log / "owner").open("r+b") as owner:
        owner.truncate(NEWEST_SLOTS_AT)  # as of an earlier version, which did not name the newest file

    def remove(epoch):
        lost = [path for path in log.iterdir() if (name := parse_name(path.name)) and name[1] == epoch]
        assert lost
        for path in lost:
            path.unlink()

    remove(epoch=3)
    assert not FileLogSnapshot(str(log), files).problem, "its owner may have died before it made a file"
    remove(epoch=2)
    assert (
        FileLogSnapshot(str(log), files).problem
        == f"log files of container epoch 2 are missing ({log}/owner)"
    )


async def test_an_owner_record_that_is_older_than_the_files_is_refused(tmp_path):
    log = tmp_path / "log"
    await make_log(log, [*BEGINNING, SEGMENT])
    former = (log / "owner").read_bytes()
    await make_log(log, appends(3))
    (log / "owner").write_bytes(former)
    problem = FileLogSnapshot(str(log), ReadOnlyFiles()).problem
    assert problem == f"the owner record says container epoch 1, but files of 2 exist ({log}/owner)"


async def test_frames_are_counted_where_operations_span_several(tmp_path):
    await make_log(tmp_path / "log", [*BEGINNING, SEGMENT], spanning=appends(2))
    replayed = replay_container(0, FoundFileLog(str(tmp_path / "log"), ReadOnlyFiles()))
    assert replayed.operations == 5
    assert replayed.frames == sum(1 for _ in replayed.log.frames()) == 5

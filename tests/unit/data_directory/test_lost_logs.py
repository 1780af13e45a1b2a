"""A container whose log was lost is never begun anew; one that never had a log is."""

import asyncio
import os
import shutil

import pytest

from headrace.data_directory import lost_logs
from headrace.errors import DataCorruptionError
from headrace.processes.config import StandaloneConfig
from headrace.processes.standalone import StandaloneServer
from headrace.runtime.filesystem import OsFilesystem
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations import codec
from headrace.storage.checkpoints.object_names import CheckpointId, manifest_name
from headrace.storage.metadata.rows import SegmentRow, encode_segment_row
from headrace.storage.providers.files.chunk_paths import encode_chunk_path
from headrace.wal.config import WalConfig
from headrace.wal.file.file_wal import FileWal
from headrace.wal.stores import find_logs

FILES = OsFilesystem()


class Forbidding(OsFilesystem):
    """Directories of these names may not be read."""

    def __init__(self, names):
        super().__init__()
        self.names = names

    def listdir(self, path):
        if path.endswith(self.names):
            raise PermissionError(13, "Permission denied", path)
        return super().listdir(path)


def check_logs(files, directory, containers):
    return lost_logs.check_logs(find_logs(str(directory), files), files, str(directory), containers)


def find_unmade(files, directory, containers):
    return lost_logs.find_unmade(find_logs(str(directory), files), files, str(directory), containers)


CONFIG = WalConfig(segment_file_bytes=1 << 20, frame_bytes_max=4096, zero_ahead_bytes=0, spare_files_max=0)


async def make_log(directory, number, *operations):
    """A log as a container leaves it: a first checkpoint, then ``operations``."""
    wal = FileWal(f"{directory}/wal/container-{number}", CONFIG)
    await wal.open()
    frame = wal.acquire_frame()
    at = FRAME_HEADER.size
    first = [ops.CheckpointBegin(1, number, 1), ops.CheckpointEnd(2, 1, 0, 0)]
    for operation in [*first, *operations]:
        data = b"".join(map(bytes, codec.encode(operation)))
        ENTRY_HEADER.pack_into(frame.view, at, len(data), 3)
        at += ENTRY_HEADER.size
        frame.view[at : at + len(data)] = data
        at += len(data)
    FRAME_HEADER.pack_into(frame.view, 0, 1, 0, 0, at - FRAME_HEADER.size, 7)
    frame.length = at
    written = asyncio.get_running_loop().create_future()
    wal.append(frame, lambda _, error: written.set_result(error))
    assert await written is None
    wal.release_frame(frame)
    await wal.close()


async def start(directory):
    """What a server of two containers does with container 1, as far as it may be refused."""
    check_logs(FILES, directory, 2)
    wal = FileWal(f"{directory}/wal/container-1", CONFIG)
    try:
        await wal.open()
    finally:
        await wal.close()


OWN = ops.MapSegment(3, 3, "_system/containers/metadata_0", {})
USED = ops.MapSegment(4, 4, "_system/_tables/scopes", {})


async def test_a_new_directory_has_no_logs_yet(tmp_path):
    check_logs(FILES, tmp_path, 4)
    (tmp_path / "chunks").mkdir()
    check_logs(FILES, tmp_path, 4)


async def test_a_first_start_that_died_goes_on(tmp_path):
    await make_log(tmp_path, 0, OWN)
    check_logs(FILES, tmp_path, 4)
    # Its directory was made and nothing in it.
    (tmp_path / "wal" / "container-1").mkdir()
    check_logs(FILES, tmp_path, 4)


@pytest.mark.parametrize("size", [0, 4096, 24576])
async def test_a_first_start_that_died_before_it_wrote_an_owner_record_goes_on(tmp_path, size):
    for number in (0, 1):
        (tmp_path / f"wal/container-{number}").mkdir(parents=True)
    (tmp_path / "wal/container-0/owner").write_bytes(bytes(size))
    check_logs(FILES, tmp_path, 4)
    for number in (0, 2, 3):
        await make_log(tmp_path, number)
    check_logs(FILES, tmp_path, 4)


async def test_a_log_of_which_a_blank_owner_file_is_left_is_lost_if_another_was_used(tmp_path):
    await make_log(tmp_path, 0, OWN, USED)
    (tmp_path / "wal/container-1").mkdir()
    for content in (b"", bytes(24576)):
        (tmp_path / "wal/container-1/owner").write_bytes(content)
        with pytest.raises(DataCorruptionError, match="the log of this container is missing"):
            check_logs(FILES, tmp_path, 2)


def move_aside(log):
    (log / "old").mkdir()
    for path in list(log.iterdir()):
        if path.name != "old":
            path.rename(log / "old" / path.name)


def mount_an_empty_disk(log):
    shutil.rmtree(log)
    (log / "lost+found").mkdir(parents=True)


def lose_files(log, keep=24576):
    for path in log.glob("*.wal"):
        path.unlink()
    os.truncate(log / "owner", keep)


def lose_files_and_their_names(log):
    lose_files(log, keep=4096)


def lose_files_and_owner(log):
    lose_files(log, keep=0)
    (log / "owner").write_bytes(b"something else")


def lose_files_but_a_draft(log):
    lose_files(log, keep=0)
    (log / "000000000009-000000000001.draft").touch()


@pytest.mark.parametrize(
    "lose",
    [
        move_aside,
        mount_an_empty_disk,
        lose_files,
        lose_files_and_their_names,
        lose_files_and_owner,
        lose_files_but_a_draft,
    ],
)
async def test_no_remains_of_a_lost_log_are_taken_for_a_new_one(tmp_path, lose):
    """What stays in its directory, or lies in another one there, hides nothing from whoever looks."""
    for number in (0, 1):
        await make_log(tmp_path, number, OWN, USED)
    lose(tmp_path / "wal" / "container-1")
    with pytest.raises(DataCorruptionError, match="missing"):
        await start(tmp_path)


async def test_a_first_start_that_died_before_it_made_a_file_goes_on(tmp_path):
    await make_log(tmp_path, 0, OWN)
    await make_log(tmp_path, 1)
    lose_files_and_their_names(tmp_path / "wal" / "container-1")
    assert find_unmade(FILES, tmp_path, 2) == [1]
    await make_log(tmp_path, 1, OWN)
    assert find_unmade(FILES, tmp_path, 2) == []


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_log_that_is_lost_while_another_was_used_is_named(tmp_path, lost):
    for number in range(2):
        await make_log(tmp_path, number, OWN, *([USED] if number != lost else []))
    check_logs(FILES, tmp_path, 2)
    shutil.rmtree(tmp_path / "wal" / f"container-{lost}")
    with pytest.raises(DataCorruptionError, match=rf"missing.*container-{lost}"):
        check_logs(FILES, tmp_path, 2)
    (tmp_path / "wal" / f"container-{lost}").mkdir()
    with pytest.raises(DataCorruptionError, match=rf"missing.*container-{lost}"):
        check_logs(FILES, tmp_path, 2)


async def test_a_log_whose_segments_all_left_memory_was_used(tmp_path):
    await make_log(tmp_path, 0, OWN, ops.Append(4, 3, 0, {}, b"a row"))
    with pytest.raises(DataCorruptionError, match=r"missing.*container-1"):
        check_logs(FILES, tmp_path, 2)


async def test_a_chunk_proves_that_there_were_logs(tmp_path):
    chunk = tmp_path / "chunks" / "demo" / ("s.5.E-1-O-0." + "0" * 32 + ".chunk")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"content")
    with pytest.raises(DataCorruptionError, match=r"missing.*container-0"):
        check_logs(FILES, tmp_path, 1)


async def test_where_only_chunks_are_left_nobody_guesses_the_number_of_containers(tmp_path):
    """A record that a refused start has written would be believed when the logs are put back."""
    chunk = tmp_path / "chunks" / "demo" / ("s.5.E-1-O-0." + "0" * 32 + ".chunk")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"content")
    with pytest.raises(DataCorruptionError, match="the log of this container is missing"):
        await StandaloneServer(StandaloneConfig(data_dir=str(tmp_path))).start()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["LOCK", "chunks"]
    assert [path.name for path in (tmp_path / "chunks").iterdir()] == ["demo"]


async def test_what_cannot_be_looked_into_proves_that_there_were_logs(tmp_path):
    (tmp_path / "chunks").mkdir()
    (tmp_path / "chunks" / "demo").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DataCorruptionError, match=r"chunks/demo cannot be looked into.*container-0"):
        check_logs(FILES, tmp_path, 1)


async def test_what_a_mounted_volume_brings_along_proves_nothing(tmp_path):
    for name in ("lost+found", ".snapshot"):
        (tmp_path / "chunks" / name).mkdir(parents=True)
    check_logs(Forbidding(("lost+found", ".snapshot")), tmp_path, 1)
    (tmp_path / "chunks" / "demo").mkdir()
    with pytest.raises(DataCorruptionError, match="chunks/demo cannot be looked into"):
        check_logs(Forbidding(("demo",)), tmp_path, 1)


async def test_what_containers_keep_for_themselves_proves_nothing(tmp_path):
    chunk = tmp_path / "chunks" / "_system" / "containers" / ("metadata_0.3.E-1-O-0." + "0" * 32 + ".chunk")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"content")
    row = encode_segment_row(SegmentRow(1, 0, 0, False, 1 << 20, 0, 0))
    await make_log(tmp_path, 0, OWN, ops.StorageRows(4, {"s/_system/containers/metadata_0.3": row}))
    check_logs(FILES, tmp_path, 2)


async def test_a_log_without_its_owner_is_not_missing(tmp_path):
    # Opening it says what is wrong.
    await make_log(tmp_path, 0, OWN, USED)
    (tmp_path / "wal" / "container-0" / "owner").unlink()
    check_logs(FILES, tmp_path, 1)


async def test_a_log_beyond_the_number_of_containers_is_never_passed_over(tmp_path):
    for number in range(3):
        await make_log(tmp_path, number, OWN, USED)
    check_logs(FILES, tmp_path, 3)
    with pytest.raises(DataCorruptionError, match=r"2 containers.*container 2 exists.*headrace\.json"):
        check_logs(FILES, tmp_path, 2)
    # Also if nothing is left in it, and nothing else is missing.
    shutil.rmtree(tmp_path / "wal" / "container-2")
    (tmp_path / "wal" / "container-9").mkdir()
    with pytest.raises(DataCorruptionError, match="at least 10"):
        check_logs(FILES, tmp_path, 2)


@pytest.mark.parametrize("container", [0, 1])
async def test_a_copy_of_a_log_proves_that_this_log_existed_and_no_other(tmp_path, container):
    await make_log(tmp_path, 0)
    copied = manifest_name(container, CheckpointId(1, 0))
    path = tmp_path / "chunks" / encode_chunk_path(copied)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    if container == 0:  # it was quick, the other one was never made
        assert find_unmade(FILES, tmp_path, 2) == [1]
    else:
        with pytest.raises(DataCorruptionError, match="the log of this container is missing"):
            find_unmade(FILES, tmp_path, 2)

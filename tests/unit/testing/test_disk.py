import errno
import itertools
import mmap
import os

import pytest

from headrace.runtime.entropy import SeededEntropy
from headrace.testing.disk import DiskConfig, Moment, SimulatedDisk
from headrace.testing.disk_files import SECTOR_BYTES, Survival
from headrace.testing.failures import PowerLossError, ProcessGoneError
from headrace.testing.filesystem import SimulatedFilesystem

NEW = os.O_RDWR | os.O_CREAT


def make(survival=Survival.NONE, seed=0, **config):
    disk = SimulatedDisk(SeededEntropy(seed), DiskConfig(survival=survival, **config))
    return disk, SimulatedFilesystem(disk)


def content(disk, path="/log"):
    return bytes(disk.find_file(path).content)


def settle(disk, files, path="/log"):
    """Make a file and its name durable and return its descriptor."""
    fd = files.open(path, NEW)
    files.fsync(fd)
    files.fsync_directory("/")
    return fd


def power_cycle(disk):
    disk.lose_power()
    disk.restore_power()
    disk.check()


# ---- what survives


def test_synced_bytes_survive_and_unsynced_ones_do_not():
    disk, files = make()
    fd = settle(disk, files)
    files.pwrite(fd, b"synced", 0)
    files.fdatasync(fd)
    files.pwrite(fd, b"UN", 2)
    files.pwrite(fd, b"tail", 6)
    power_cycle(disk)
    assert content(disk) == b"synced"


def test_a_name_that_was_not_synced_is_lost_even_if_its_bytes_were():
    disk, files = make()
    fd = files.open("/log", NEW)
    files.pwrite(fd, b"x", 0)
    files.fsync(fd)
    power_cycle(disk)
    assert list(disk.files()) == []


def test_a_file_in_a_directory_whose_own_name_was_not_synced_is_lost():
    disk, files = make()
    files.mkdir("/a/b")
    fd = files.open("/a/b/log", NEW)
    files.fsync(fd)
    files.fsync_directory("/a/b")
    files.fsync_directory("/a")
    power_cycle(disk)
    assert not disk.root.entries


def test_an_unsynced_rename_leaves_the_old_name_and_the_replaced_file():
    disk, files = make()
    for name, text in (("/old", b"new"), ("/name", b"replaced")):
        fd = files.open(name, NEW)
        files.pwrite(fd, text, 0)
        files.fsync(fd)
    files.fsync_directory("/")
    files.rename("/old", "/name")
    power_cycle(disk)
    assert (content(disk, "/old"), content(disk, "/name")) == (b"new", b"replaced")


def test_a_rename_without_syncing_the_file_first_may_leave_an_empty_file():
    """The classic: write, rename, sync the directory, and forget the file."""
    disk, files = make()
    fd = files.open("/new", NEW)
    files.pwrite(fd, b"content", 0)
    files.rename("/new", "/name")
    files.fsync_directory("/")
    power_cycle(disk)
    assert content(disk, "/name") == b""


def test_an_unsynced_unlink_brings_the_file_back():
    disk, files = make()
    fd = settle(disk, files)
    files.pwrite(fd, b"x", 0)
    files.fsync(fd)
    files.unlink("/log")
    power_cycle(disk)
    assert content(disk) == b"x"


def test_an_unsynced_truncation_brings_the_bytes_back():
    disk, files = make()
    fd = settle(disk, files)
    files.pwrite(fd, b"0123456789", 0)
    files.fsync(fd)
    files.ftruncate(fd, 3)
    power_cycle(disk)
    assert content(disk) == b"0123456789"


def test_a_write_through_a_synchronous_descriptor_is_durable_at_once_and_alone():
    disk, files = make()
    plain = settle(disk, files)
    durable = files.open("/log", os.O_WRONLY | os.O_DSYNC)
    files.pwrite(plain, b"aaaaaaaa", 0)
    files.pwrite(durable, b"BB", 3)
    disk.check()
    power_cycle(disk)
    assert content(disk) == b"\x00\x00\x00BB"


def test_older_unsynced_bytes_never_overwrite_newer_durable_ones():
    for seed in range(20):
        disk, files = make(Survival.SOME, seed)
        plain = settle(disk, files)
        durable = files.open("/log", os.O_WRONLY | os.O_DSYNC)
        files.pwrite(plain, b"a" * 2000, 0)
        files.pwrite(durable, b"B" * 700, 500)
        disk.check()
        power_cycle(disk)
        assert content(disk)[500:1200] == b"B" * 700


def test_everything_may_survive_too():
    disk, files = make(Survival.ALL)
    fd = files.open("/log", NEW)
    files.pwrite(fd, b"x" * 5000, 0)
    power_cycle(disk)
    assert content(disk) == b"x" * 5000


def test_unsynced_writes_survive_by_whole_sectors_in_no_particular_order():
    seen = set()
    for seed in range(60):
        disk, files = make(Survival.SOME, seed)
        fd = settle(disk, files)
        files.pwrite(fd, bytes(4 * SECTOR_BYTES), 0)
        files.fsync(fd)
        files.pwrite(fd, b"x" * (3 * SECTOR_BYTES), SECTOR_BYTES // 2)
        power_cycle(disk)
        borders = [0, 256, 512, 1024, 1536, 1792, 2048]
        pieces = [set(content(disk)[a:b]) for a, b in itertools.pairwise(borders)]
        assert all(len(piece) == 1 for piece in pieces)
        seen.add(tuple(piece == {ord("x")} for piece in pieces))
    assert (False, False, False, False, False, False) in seen
    assert (False, True, True, True, True, False) in seen
    assert any(
        not a and b for a, b in ((piece[1], piece[2]) for piece in seen)
    )  # a later one without an earlier
    assert len(seen) > 6


def test_directory_changes_survive_in_order():
    for seed in range(30):
        disk, files = make(Survival.SOME, seed)
        for number in range(5):
            files.close(files.open(f"/{number}", NEW))
        power_cycle(disk)
        names = list(disk.root.entries)
        assert names == [str(number) for number in range(len(names))]


def test_the_seed_decides_what_survives_when_nothing_else_does():
    def left(seed):
        disk, files = make(None, seed)
        fd = files.open("/log", NEW)
        files.pwrite(fd, b"x", 0)
        power_cycle(disk)
        return disk.root.entries.keys()

    assert [left(seed) for seed in range(20)] == [left(seed) for seed in range(20)]
    assert {len(left(seed)) for seed in range(20)} == {0, 1}


def test_a_killed_process_loses_nothing_it_wrote_but_its_locks():
    disk, files = make()
    fd = files.open("/log", NEW)
    files.pwrite(fd, b"written", 0)
    assert files.lock(fd)
    files.kill()
    with pytest.raises(ProcessGoneError):
        files.pread_into(fd, memoryview(bytearray(1)), 0)
    after = SimulatedFilesystem(disk)
    assert after.lock(after.open("/log", os.O_RDONLY))
    assert content(disk) == b"written"


# ---- power loss at a durable write


def three_writes(files):
    fd = files.open("/log", NEW)  # the name is durable with 1
    files.fsync_directory("/")
    files.pwrite(fd, b"a" * 1024, 0)
    files.fdatasync(fd)  # 2
    durable = files.open("/log", os.O_WRONLY | os.O_DSYNC)
    files.pwrite(durable, b"b" * 2048, 1024)  # 3


@pytest.mark.parametrize(
    ("number", "moment", "left"),
    [
        (1, Moment.BEFORE, None),
        (1, Moment.AFTER, b""),
        (2, Moment.BEFORE, b""),
        (2, Moment.AFTER, b"a" * 1024),
        (3, Moment.BEFORE, b"a" * 1024),
        (3, Moment.AFTER, b"a" * 1024 + b"b" * 2048),
    ],
)
def test_power_is_lost_before_or_after_the_nth_durable_write(number, moment, left):
    disk, files = make()
    disk.plan_power_loss(number, moment)
    with pytest.raises(PowerLossError):
        three_writes(files)
    assert disk.statistics().durable_writes == number
    disk.restore_power()
    assert (content(disk) if disk.root.entries else None) == left


def test_an_interrupted_durable_write_is_torn_at_sector_borders():
    seen = set()
    for seed in range(200):
        disk, files = make(seed=seed)
        disk.plan_power_loss(3, Moment.WITHIN)
        with pytest.raises(PowerLossError):
            three_writes(files)
        disk.restore_power()
        tail = content(disk)[1024:].ljust(2048, b"\x00")
        sectors = [set(tail[at : at + SECTOR_BYTES]) for at in range(0, 2048, SECTOR_BYTES)]
        assert all(sector in ({0}, {ord("b")}) for sector in sectors)
        seen.add(tuple(sector == {ord("b")} for sector in sectors))
    assert (True, True, False, False) in seen  # a prefix
    assert any(not sectors[0] and any(sectors) for sectors in seen)  # a tail without its head
    assert len(seen) == 16


def test_an_interrupted_sync_leaves_some_of_its_sectors():
    lengths = set()
    for seed in range(40):
        disk, files = make(seed=seed)
        disk.plan_power_loss(2, Moment.WITHIN)
        with pytest.raises(PowerLossError):
            three_writes(files)
        disk.restore_power()
        lengths.add(len(content(disk)))
    assert {0, 512, 1024} <= lengths


def test_after_a_power_loss_every_call_of_the_old_process_says_so_and_never_as_an_exception():
    disk, files = make()
    fd = files.open("/log", NEW)
    disk.lose_power()
    for call in (lambda: files.open("/x", NEW), lambda: files.fsync(fd), lambda: files.fsync_directory("/")):
        with pytest.raises(ProcessGoneError) as raised:
            call()
        assert not isinstance(raised.value, Exception)
    disk.restore_power()
    with pytest.raises(ProcessGoneError):
        files.size(fd)


# ---- errors, space, rot, alignment


def test_the_nth_matching_call_fails_with_the_planned_error():
    disk, files = make()
    fd = files.open("/log", NEW)
    fault = disk.fail("pwrite", path="log", skip=1, count=2, error=errno.EIO)
    files.pwrite(fd, b"1", 0)
    for _ in range(2):
        with pytest.raises(OSError) as raised:
            files.pwrite(fd, b"2", 0)
        assert raised.value.errno == errno.EIO
    files.pwrite(fd, b"3", 0)
    assert fault.met == 2
    assert disk.statistics().faults_met == 2


def test_a_failed_sync_has_lost_the_changes_though_the_next_one_succeeds():
    disk, files = make()
    fd = settle(disk, files)
    files.pwrite(fd, b"gone", 0)
    disk.fail("fdatasync")
    with pytest.raises(OSError):
        files.fdatasync(fd)
    files.fdatasync(fd)
    assert content(disk) == b"gone"  # programs still see it
    disk.check()
    power_cycle(disk)
    assert content(disk) == b""


def test_each_descriptor_that_was_open_is_told_once_of_a_failed_sync():
    disk, files = make()
    other = SimulatedFilesystem(disk)
    fd = settle(disk, files)
    beside = files.open("/log", os.O_RDWR)
    synchronous = other.open("/log", os.O_RDWR | os.O_DSYNC)
    files.pwrite(fd, b"lost", 0)
    disk.fail("fdatasync")
    with pytest.raises(OSError, match="Input/output"):
        files.fdatasync(fd)
    later = files.open("/log", os.O_RDWR)
    files.fdatasync(fd)
    files.fdatasync(later)
    with pytest.raises(OSError, match="Input/output"):
        files.fdatasync(beside)
    files.fdatasync(beside)
    with pytest.raises(OSError, match="Input/output"):
        other.pwrite(synchronous, b"more", 8)
    other.pwrite(synchronous, b"more", 12)
    power_cycle(disk)
    assert content(disk) == bytes(8) + b"moremore"


def test_a_failed_sync_of_a_directory_can_be_repeated():
    disk, files = make()
    files.open("/log", NEW)
    disk.fail("fsync_directory")
    with pytest.raises(OSError):
        files.fsync_directory("/")
    files.fsync_directory("/")
    power_cycle(disk)
    assert list(disk.root.entries) == ["log"]


def test_a_full_disk_cuts_a_write_short_and_refuses_the_next():
    _disk, files = make(capacity_bytes=10 * SECTOR_BYTES + 100)
    fd = files.open("/log", NEW)
    assert files.pwrite(fd, b"x" * 8000, 0) == 10 * SECTOR_BYTES
    with pytest.raises(OSError) as raised:
        files.pwrite(fd, b"y" * SECTOR_BYTES, 10 * SECTOR_BYTES)
    assert raised.value.errno == errno.ENOSPC
    assert files.pwrite(fd, b"z" * SECTOR_BYTES, 0) == SECTOR_BYTES  # overwriting needs no space
    with pytest.raises(OSError):
        files.allocate(fd, 0, 1 << 20)
    with pytest.raises(OSError):
        files.ftruncate(fd, 1 << 20)
    assert files.size(fd) == 10 * SECTOR_BYTES
    assert files.free_bytes("/") == 100


def test_removing_truncating_and_replacing_give_space_back():
    _disk, files = make(capacity_bytes=8192)
    first, second = files.open("/1", NEW), files.open("/2", NEW)
    files.pwrite(first, bytes(4096), 0)
    files.pwrite(second, bytes(4096), 0)
    assert files.free_bytes("/") == 0
    files.ftruncate(first, 1096)
    assert files.free_bytes("/") == 3000
    files.rename("/1", "/2")
    assert files.free_bytes("/") == 7096
    files.unlink("/2")
    assert files.free_bytes("/") == 8192


def test_a_flipped_bit_is_read_and_stays_after_a_power_loss():
    disk, files = make()
    fd = settle(disk, files)
    files.pwrite(fd, b"\x00" * 8, 0)
    files.fsync(fd)
    disk.flip_bit("/log", 3, 7)
    disk.check()
    buffer = bytearray(8)
    files.pread_into(fd, memoryview(buffer), 0)
    assert buffer == b"\x00\x00\x00\x80\x00\x00\x00\x00"
    power_cycle(disk)
    assert content(disk) == bytes(buffer)


def test_direct_descriptors_want_aligned_addresses_lengths_and_offsets():
    _disk, files = make()
    fd = files.open("/log", NEW | os.O_DIRECT | os.O_DSYNC)
    page = memoryview(mmap.mmap(-1, 8192))
    assert files.pwrite(fd, page, 0) == 8192
    assert files.pread_into(fd, page[:512], 512) == 512
    for data, offset in (
        (page[:100], 0),
        (page[:512], 100),
        (page[8:520], 0),
        (page[:512].toreadonly()[:511], 0),
    ):
        with pytest.raises(OSError) as raised:
            files.pwrite(fd, data, offset)
        assert raised.value.errno == errno.EINVAL


def test_a_disk_may_know_nothing_of_direct_descriptors():
    _disk, files = make(direct=False)
    with pytest.raises(OSError) as raised:
        files.open("/log", NEW | os.O_DIRECT)
    assert raised.value.errno == errno.EINVAL


def test_renaming_across_directories_is_refused():
    _disk, files = make()
    files.mkdir("/d")
    files.close(files.open("/log", NEW))
    with pytest.raises(OSError) as raised:
        files.rename("/log", "/d/log")
    assert raised.value.errno == errno.EXDEV


def test_calls_cost_virtual_time_by_their_size_and_a_slow_disk_costs_more():
    disk, files = make()
    fd = files.open("/log", NEW)
    disk.take_cost_s()
    files.pwrite(fd, bytes(1 << 20), 0)
    fast = disk.take_cost_s()
    disk.slowness = 50
    files.pwrite(fd, bytes(1 << 20), 0)
    assert disk.take_cost_s() == pytest.approx(50 * fast)
    assert disk.take_cost_s() == 0


def test_no_descriptor_is_left_when_all_are_closed():
    _disk, files = make()
    fds = [files.open(f"/{number}", NEW) for number in range(3)]
    assert files.open_files == ["/0", "/1", "/2"]
    for fd in fds:
        files.close(fd)
    assert files.open_files == []

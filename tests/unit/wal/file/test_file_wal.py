"""The driver on the simulated disk: full and failing disks, recycling, fallbacks, bounds."""

import asyncio
import errno
from dataclasses import replace

import pytest

from headrace.errors import DataCorruptionError, FencedOutError, StorageFullError, WalWriteError
from headrace.limits import KIB, MIB
from headrace.testing.disk import DiskConfig
from headrace.testing.filesystem import SimulatedFilesystem
from headrace.wal.config import WalConfig
from headrace.wal.file.idle_mark import DURABLE_MARK_AFTER_S
from headrace.wal.file.segment_format import parse_name
from headrace.wal.inspect import RecordStatus, inspect_log, inspect_records
from tests.effort import sampled
from tests.unit.wal.world import DIRECTORY, SMALL, History, Machine, append_some, read_all

#: Many frames, few writers, one file.
WIDE = WalConfig(frame_bytes_max=512, frames_max=20, segment_file_bytes=1 * MIB, zero_step_bytes=64 * KIB)


def contents(start, count, size=300):
    return [b"%05d " % number + b"x" * (size - 6) for number in range(start, start + count)]


def find_record(machine, sequence):
    """Return path and offset of the living record ``sequence``."""
    filesystem = SimulatedFilesystem(machine.disk)
    log = inspect_log(DIRECTORY, filesystem)
    for file in log.files:
        for record in inspect_records(log, file.name, filesystem):
            if record.status is RecordStatus.LIVING and record.header.sequence == sequence:
                return f"{DIRECTORY}/{file.name}", record.offset
    raise AssertionError(f"no record {sequence}")


def segment_names(machine):
    names = [path.rpartition("/")[2] for path, _ in machine.disk.files()]
    return [name for name in names if parse_name(name)]


def set_capacity(machine, capacity):
    object.__setattr__(machine.disk.config, "capacity_bytes", capacity)


async def fill(wal, history):
    """Append until the disk holds the log up; return what waits for its answers."""

    async def append_for_ever():
        for start in range(0, 10_000, 10):
            await append_some(wal, history, contents(start, 10))
            if history.errors or wal.statistics().frames_written > 200:
                return

    task = asyncio.ensure_future(append_for_ever())
    while not wal.statistics().space_waiting:  # noqa: ASYNC110 - virtual time, and nobody tells
        await asyncio.sleep(0.1)
    return task


class TestFullDisk:
    @pytest.mark.slow
    @pytest.mark.parametrize("direct", [True, False])
    @pytest.mark.parametrize("capacity", [200 * KIB, 200 * KIB + 5000, 221 * KIB, 235 * KIB])
    def test_frames_wait_and_the_log_goes_on_when_there_is_space(self, direct, capacity):
        machine, history = Machine(config=DiskConfig(capacity_bytes=capacity, direct=direct)), History()

        async def scenario():
            wal = await machine.open()
            filling = await fill(wal, history)
            written = wal.statistics().frames_written
            assert written > 15
            await asyncio.sleep(60)
            assert not filling.done()
            assert wal.statistics().frames_written <= written + 2
            wal.check()
            set_capacity(machine, 16 * MIB)
            await asyncio.sleep(2)
            assert wal.statistics().frames_written > written + 2
            await filling
            assert wal.statistics().space_waits >= 1
            assert wal.statistics().space_waiting == 0
            await wal.close()
            wal = await machine.open()
            history.check(await read_all(wal))
            await wal.close()

        machine.run(scenario())
        assert history.errors == []
        assert list(history.acknowledged) == list(range(1, len(history.acknowledged) + 1))

    @pytest.mark.parametrize("direct", [True, False])
    @pytest.mark.parametrize("end", ["stop_waiting", "close"])
    def test_frames_fail_typed_when_their_owner_ends_and_the_log_opens_again_when_there_is_space(
        self, direct, end
    ):
        machine, history = Machine(config=DiskConfig(capacity_bytes=200 * KIB, direct=direct)), History()

        async def scenario():
            wal = await machine.open()
            filling = await fill(wal, history)
            if end == "stop_waiting":
                wal.stop_waiting()
                await filling
                count = len(history.errors)
                assert count >= 1
                await append_some(wal, history, contents(900, 3))
                assert len(history.errors) == count + 3
            await wal.close()
            if end == "close":
                filling.cancel()
                await asyncio.gather(filling, return_exceptions=True)
            assert {type(error) for error in history.errors} == {StorageFullError}
            assert wal.statistics().space_waiting == 0
            with pytest.raises(StorageFullError):
                await machine.open()
            set_capacity(machine, 4 * MIB)
            history.errors.clear()
            wal = await machine.open()
            records = await read_all(wal)
            history.check(records)
            history.adopt(records)
            await append_some(wal, history, contents(300, 30))
            await wal.close()
            wal = await machine.open()
            history.check(await read_all(wal))
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    @pytest.mark.parametrize("spare", [0, 2])
    def test_truncation_makes_space_and_the_log_goes_on_by_itself(self, spare):
        config = replace(SMALL, spare_files_max=spare)
        machine, history = Machine(config=DiskConfig(capacity_bytes=200 * KIB), wal=config), History()

        async def scenario():
            wal = await machine.open()
            filling = await fill(wal, history)
            before = wal.statistics().frames_written
            history.truncation_asked = max(history.acknowledged)
            await wal.truncate(history.truncation_asked)
            await asyncio.sleep(5)
            assert wal.statistics().frames_written >= before + 5
            wal.stop_waiting()
            await filling
            history.errors.clear()
            await wal.close()
            set_capacity(machine, 4 * MIB)
            wal = await machine.open()
            history.check(await read_all(wal))
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    def test_an_owner_that_waits_for_space_is_fenced_like_any_other(self):
        machine, history = Machine(config=DiskConfig(capacity_bytes=200 * KIB)), History()

        async def scenario():
            old = await machine.open()
            filling = await fill(old, history)
            set_capacity(machine, 4 * MIB)
            new = await machine.open()
            await asyncio.sleep(5)
            await filling
            assert {type(error) for error in history.errors} == {FencedOutError}
            history.check(await read_all(new))
            await old.close()
            await new.close()

        machine.run(scenario())

    def test_a_sync_that_finds_no_space_is_not_repeated(self):
        """The system may have dropped what it could not store: a second sync would succeed and lie."""
        config = replace(WIDE, zero_ahead_bytes=0)
        machine, history = Machine(config=DiskConfig(direct=False), wal=config), History()

        async def scenario():
            wal = await machine.open()
            machine.disk.fail("fdatasync", path="/log/", error=errno.ENOSPC)
            await append_some(wal, history, contents(0, 3))
            assert {type(error) for error in history.errors} == {WalWriteError}
            await wal.close()

        machine.run(scenario())

    def test_an_open_without_room_changes_nothing(self):
        machine, history = Machine(config=DiskConfig(capacity_bytes=200 * KIB)), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 5))
            ballast = machine.make_wal("/ballast")
            await ballast.open()
            while not history.errors:
                await append_some(ballast, History(), contents(0, 5))
                if machine.disk.free_bytes < 64 * KIB:
                    break
            with pytest.raises(StorageFullError):
                await machine.open()
            await append_some(wal, history, contents(5, 1))  # was not fenced
            assert history.errors == []

        machine.run(scenario())


class TestFailingDisk:
    @pytest.mark.parametrize("operation", ["pwrite", "pwritev", "fdatasync"])
    def test_a_failed_write_fails_its_frame_and_all_later_ones(self, operation):
        config = replace(WIDE, zero_ahead_bytes=0)  # so that the only writes are those of records
        machine, history = Machine(config=DiskConfig(direct=operation != "fdatasync"), wal=config), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 3))
            acknowledged = dict(history.acknowledged)
            fault = machine.disk.fail(operation, path="/log/", skip=int(operation != "pwritev"))
            await append_some(wal, history, contents(3, 12))
            assert fault.met == 1
            assert {type(error) for error in history.errors} == {WalWriteError}
            addresses = sorted(history.acknowledged)
            assert addresses == list(range(1, len(addresses) + 1))
            assert len(addresses) + len(history.errors) == 15
            assert acknowledged.items() <= history.acknowledged.items()
            await wal.close()
            history.errors.clear()
            again = await machine.open()
            records = await read_all(again)
            history.check(records)
            history.adopt(records)
            await append_some(again, history, contents(20, 5))
            await again.close()

        machine.run(scenario())
        assert history.errors == []

    @pytest.mark.parametrize(
        "operation", ["open", "fsync", "rename", "fsync_directory", "pwrite", "pread_into"]
    )
    def test_an_open_that_fails_can_be_repeated(self, operation):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 12))
            await wal.close()
            failed = 0
            for skip in range(30):
                machine.disk.heal()
                fault = machine.disk.fail(operation, skip=skip)
                wal = machine.make_wal()
                try:
                    await wal.open()
                except WalWriteError:
                    failed += 1
                await wal.close()
                if not fault.met:
                    break
            assert failed >= 1
            machine.disk.heal()
            wal = await machine.open()
            history.check(await read_all(wal))
            await wal.close()

        machine.run(scenario())
        for process in machine.processes:
            assert process.open_files == []

    def test_a_failed_truncation_loses_nothing_and_can_be_repeated(self):
        for operation in ("pwrite", "unlink", "fsync_directory", "open", "pread_into"):
            machine, history = Machine(), History()

            async def scenario(machine=machine, history=history, operation=operation):
                wal = await machine.open()
                await append_some(wal, history, contents(0, 30))
                await asyncio.sleep(1)  # nothing goes on in the background any more
                fault = machine.disk.fail(operation)
                history.truncation_asked = 25
                with pytest.raises(WalWriteError):
                    await wal.truncate(25)
                assert fault.met
                await append_some(wal, history, contents(30, 10))
                await wal.truncate(25)
                await wal.truncate(35)
                history.truncation_asked = history.truncation_done = 35
                await append_some(wal, history, contents(40, 10))
                await wal.close()
                again = await machine.open()
                history.check(await read_all(again))
                await again.close()

            machine.run(scenario())
            assert history.errors == []

    def test_preparing_the_next_file_is_tried_again_when_it_is_needed(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            fault = machine.disk.fail("open", path=".draft", error=errno.ENOSPC)
            await append_some(wal, history, contents(0, 3))
            await asyncio.sleep(1)
            assert fault.met == 1
            await append_some(wal, history, contents(3, 20))
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    def test_an_owner_record_that_cannot_be_read_stops_acknowledgements(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 2))
            machine.disk.fail("pread_into", path="owner", count=2)  # one may hit the next file being named
            await append_some(wal, history, contents(2, 3))
            assert [type(error) for error in history.errors] == [WalWriteError] * 3
            await wal.close()

        machine.run(scenario())


class TestFiles:
    def test_files_are_recycled_and_their_old_frames_never_seen(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            for start in range(0, 300, 10):
                await append_some(wal, history, contents(start, 10))
                await wal.truncate(max(history.acknowledged) - 2)
                history.truncation_asked = history.truncation_done = max(history.acknowledged) - 2
                assert len(segment_names(machine)) <= 2 + 1 + SMALL.spare_files_max + 2
            calls = machine.disk.statistics().calls
            assert calls["rename"] > 40
            lengths = {len(file.content) for path, file in machine.disk.files() if path.endswith(".wal")}
            assert max(lengths) == SMALL.segment_file_bytes
            again = await machine.open()  # the first one was never closed
            history.check(await read_all(again))
            await again.close()
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    def test_restarting_without_appending_leaves_no_files_behind(self):
        machine = Machine()

        async def scenario():
            for _ in range(30):
                wal = await machine.open()
                await wal.close()
            return len(segment_names(machine))

        assert machine.run(scenario()) == 1

    def test_files_of_earlier_owners_are_deleted_by_truncation_not_recycled(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 30))
            await wal.close()
            wal = await machine.open()
            await append_some(wal, history, contents(30, 3))
            await wal.truncate(32)
            names = segment_names(machine)
            assert {parse_name(name)[1] for name in names} == {2}
            await wal.close()

        machine.run(scenario())

    def test_written_files_are_closed(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 60))
            await asyncio.sleep(1)
            open_files = [path for path in machine.processes[0].open_files if path.endswith(".wal")]
            await wal.close()
            return open_files

        assert len(machine.run(scenario())) <= 2
        assert machine.processes[0].open_files == []

    def test_zeroing_runs_ahead_of_the_write_position_in_steps(self):
        config = WalConfig(
            frame_bytes_max=512,
            segment_file_bytes=1 * MIB,
            zero_step_bytes=64 * KIB,
            zero_ahead_bytes=128 * KIB,
        )
        machine, history = Machine(wal=config), History()

        async def scenario():
            wal = await machine.open()
            await asyncio.sleep(1)
            moved = machine.disk.statistics().bytes_written
            assert 128 * KIB <= moved <= 128 * KIB + 128 * KIB
            await append_some(wal, history, contents(0, 100))
            await asyncio.sleep(1)
            zeroed = machine.disk.statistics().bytes_written - 400 * KIB
            next_file = 256 * KIB  # made ready, and zeroed as far ahead
            assert 400 * KIB + 128 * KIB <= zeroed <= 400 * KIB + 256 * KIB + next_file
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    def test_a_disk_without_direct_writes_is_synced_after_each(self):
        machine, history = Machine(config=DiskConfig(direct=False)), History()

        async def scenario():
            wal = await machine.open()
            before = machine.disk.statistics().calls.get("fdatasync", 0)
            for number in range(10):
                await append_some(wal, history, contents(number, 1))
            assert machine.disk.statistics().calls["fdatasync"] - before >= 10
            await wal.close()

        machine.run(scenario())
        assert len(history.acknowledged) == 10

    def test_a_disk_that_refuses_the_first_direct_write_is_used_without(self):
        machine, history = Machine(config=DiskConfig(alignment_bytes=1 << 20)), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 10))
            await wal.close()

        machine.run(scenario())
        assert len(history.acknowledged) == 10

    def test_frames_that_wait_for_a_writer_are_written_together(self):
        machine, history = Machine(wal=WIDE), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 60))
            await wal.close()

        machine.run(scenario())
        assert machine.disk.statistics().calls["pwritev"] >= 3
        assert len(history.acknowledged) == 60


class TestOwnership:
    @pytest.mark.slow
    def test_a_damaged_owner_record_in_force_is_refused(self):
        for bit in sampled(range(64 * 8), 5):
            machine, history = Machine(), History()

            async def scenario(machine=machine, history=history, bit=bit):
                wal = await machine.open()  # writes slot 0
                await append_some(wal, history, contents(0, 1))
                await wal.close()
                wal = await machine.open()  # writes slot 1
                await wal.close()
                machine.disk.flip_bit(f"{DIRECTORY}/owner", 4096 + bit // 8, bit % 8)
                with pytest.raises(DataCorruptionError) as caught:
                    await machine.open()
                assert caught.value.path == f"{DIRECTORY}/owner"

            machine.run(scenario())

    def test_a_damaged_record_of_the_previous_owner_does_not_matter_until_it_is_overwritten(self):
        machine = Machine()

        async def scenario():
            wal = await machine.open()
            await wal.close()
            wal = await machine.open()
            await wal.close()
            machine.disk.flip_bit(f"{DIRECTORY}/owner", 40, 3)
            wal = await machine.open()
            assert wal.epoch == 3
            await wal.close()

        machine.run(scenario())

    def test_a_lost_owner_file_is_refused(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 1))
            await wal.close()
            machine.processes[0].unlink(f"{DIRECTORY}/owner")
            with pytest.raises(DataCorruptionError):
                await machine.open()

        machine.run(scenario())

    def test_lost_segment_files_are_refused(self):
        machine, history = Machine(), History()

        async def scenario():
            for start in (0, 1):
                wal = await machine.open()
                await append_some(wal, history, contents(start, 1))
                await wal.close()
            for name in segment_names(machine):
                machine.processes[0].unlink(f"{DIRECTORY}/{name}")
            with pytest.raises(DataCorruptionError):
                await machine.open()

        machine.run(scenario())

    def test_a_successor_that_hangs_while_it_takes_over_is_given_up_on(self):
        machine = Machine()

        async def scenario():
            first = await machine.open()
            other = machine.processes[0]
            lock = other.open(f"{DIRECTORY}/owner", 2)
            assert other.lock(lock)
            with pytest.raises(FencedOutError):
                await machine.open()
            other.close(lock)
            second = await machine.open()
            assert second.epoch == 2
            await first.close()
            await second.close()

        machine.run(scenario())


class TestClose:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(20))
    def test_after_a_clean_close_damage_to_any_record_is_corruption(self, seed):
        machine, history = Machine(seed), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 1 + seed % 4))
            await wal.close()

        machine.run(scenario())
        log, records = inspect_all(machine)
        assert log.problem == ""
        for name, record in records:
            machine.disk.flip_bit(f"{DIRECTORY}/{name}", record.offset + 70)
            assert "damaged" in inspect_all(machine)[0].problem
            machine.disk.flip_bit(f"{DIRECTORY}/{name}", record.offset + 70)

    @pytest.mark.parametrize("rest_s", [0.0, DURABLE_MARK_AFTER_S + 0.5])
    def test_after_a_rest_damage_to_the_last_record_is_corruption_even_if_the_owner_was_killed(self, rest_s):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 8))
            await asyncio.sleep(rest_s)
            machine.processes[-1].kill()
            path, offset = find_record(machine, 8)
            machine.disk.find_file(path).content[offset + 100] ^= 1
            if rest_s:
                with pytest.raises(DataCorruptionError, match="record 8 is damaged but was acknowledged"):
                    await machine.open()
            else:  # nobody can tell: it may have been in flight
                assert [address for address, _ in await read_all(await machine.open())] == list(range(1, 8))

        machine.run(scenario())

    def test_a_log_at_rest_vouches_once_for_what_it_holds(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 3))
            await asyncio.sleep(3)
            calls = dict(machine.disk.statistics().calls)
            await asyncio.sleep(60)
            assert machine.disk.statistics().calls == calls
            await append_some(wal, history, contents(3, 1))
            await asyncio.sleep(3)
            file = inspect_log(DIRECTORY, SimulatedFilesystem(machine.disk)).files[0]
            assert max(mark.durable_sequence for mark in file.marks if mark) == 4
            await wal.close()

        machine.run(scenario())
        assert history.errors == []

    @pytest.mark.parametrize("count", range(1, 12))
    def test_a_closed_log_is_vouched_for_wherever_in_its_file_it_ends(self, count):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, count))
            await wal.close()
            path, offset = find_record(machine, count)
            machine.disk.find_file(path).content[offset + 100] ^= 1
            with pytest.raises(DataCorruptionError):
                await machine.open()

        machine.run(scenario())

    def test_a_fenced_owner_that_rests_changes_nothing(self):
        machine, history = Machine(), History()

        async def scenario():
            old = await machine.open()
            await append_some(old, history, contents(0, 3))
            new = await machine.open()
            files = {
                path: bytes(file.content) for path, file in machine.disk.files() if "-000000000001." in path
            }
            await asyncio.sleep(10)
            for path, before in files.items():
                assert bytes(machine.disk.find_file(path).content) == before
            await new.close()
            await old.close()

        machine.run(scenario())

    def test_a_fenced_owner_closes_without_harm(self):
        machine, history = Machine(), History()

        async def scenario():
            first = await machine.open()
            await append_some(first, history, contents(0, 3))
            second = await machine.open()
            await append_some(second, history, contents(3, 3))
            await first.close()
            await append_some(second, history, contents(6, 3))
            await second.close()
            third = await machine.open()
            history.check(await read_all(third))
            await third.close()

        machine.run(scenario())
        assert history.errors == []


def inspect_all(machine):
    machine.make_wal()
    filesystem = machine.processes[-1]
    log = inspect_log(DIRECTORY, filesystem)
    records = [
        (file.name, record) for file in log.files for record in inspect_records(log, file.name, filesystem)
    ]
    return log, [(name, record) for name, record in records if record.status is RecordStatus.LIVING]


class TestBounds:
    @pytest.mark.slow
    def test_very_many_records_in_very_many_files(self):
        machine, history = Machine(), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 1_500, size=20))
            await wal.close()
            wal = await machine.open()
            records = await read_all(wal)
            assert [content for _, content in records] == contents(0, 1_500, size=20)
            await wal.truncate(1_490)
            await wal.close()
            assert len(segment_names(machine)) <= 6
            wal = await machine.open()
            assert [address for address, _ in await read_all(wal)] == list(range(1_490, 1_501))
            await wal.close()

        machine.run(scenario())

    def test_more_frames_than_writers_wait_and_are_answered_in_order(self):
        config = WalConfig(
            frame_bytes_max=512, frames_max=100, frames_in_flight_max=1, segment_file_bytes=64 * KIB
        )
        machine, history = Machine(wal=config), History()

        async def scenario():
            wal = await machine.open()
            await append_some(wal, history, contents(0, 500))
            wal.check()
            await wal.close()

        machine.run(scenario())
        assert list(history.acknowledged.values()) == contents(0, 500)

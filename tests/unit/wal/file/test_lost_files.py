"""An operator deletes files of a log: whatever that takes away is noticed, and nothing else is suspected."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.file.owner_format import NEWEST_SLOTS_AT, SLOT_BYTES
from headrace.wal.file.owner_record import OWNER_FILE
from headrace.wal.file.segment_format import DATA_OFFSET, parse_name
from tests.effort import stride
from tests.unit.wal.world import (
    DIRECTORY,
    SMALL,
    History,
    Machine,
    MortalFilesystem,
    SimulatedFilesystem,
    append_some,
    read_all,
)


def contents(start, count):
    return [b"%05d" % number for number in range(start, start + count)]


class Mortal(MortalFilesystem):
    def call_at_death(self, end):
        self.on_death = end


class Place:
    """A log's directory, as an operator sees it."""

    def __init__(self, seed=1):
        self.machine = Machine(seed)
        self.history = History()
        self.files = SimulatedFilesystem(self.machine.disk)

    def live(self, *counts):
        """Owners that append so many records each, and are killed."""

        async def scenario():
            at = 0
            for count in counts:
                wal = await self.machine.open()
                self.history.check(await read_all(wal))
                await append_some(wal, self.history, contents(at, count))
                at += count
                self.machine.processes[-1].kill()

        self.machine.run(scenario())
        assert not self.history.errors

    def names(self, epoch=None):
        found = sorted(
            (parsed, name) for name in self.files.listdir(DIRECTORY) if (parsed := parse_name(name))
        )
        return [name for (_, of), name in found if epoch in (None, of)]

    def records_of(self, name):
        fd = self.files.open(f"{DIRECTORY}/{name}", 0)
        data = bytearray(SMALL.segment_file_bytes)
        self.files.pread_into(fd, memoryview(data), 0)
        self.files.close(fd)
        return data[DATA_OFFSET:]

    def lose(self, *names):
        for name in names:
            self.files.unlink(f"{DIRECTORY}/{name}")

    def open(self):
        """Open as the next owner does; what it finds must be what was acknowledged."""

        async def scenario():
            wal = await self.machine.open()
            self.history.check(await read_all(wal))
            await wal.close()

        self.machine.run(scenario())

    def damage(self, slot):
        self.machine.disk.flip_bit(f"{DIRECTORY}/{OWNER_FILE}", NEWEST_SLOTS_AT + slot * SLOT_BYTES + 40)


@pytest.mark.parametrize("counts", [(3,), (3, 2), (3, 0, 2), (3, 0), (7, 8), (3, 2, 9)])
def test_losing_every_file_of_the_newest_epoch_is_noticed_and_names_the_newest(counts):
    place = Place()
    place.live(*counts)
    lost = place.names(epoch=len(counts))
    assert lost
    place.lose(*lost)
    for _ in range(2):
        with pytest.raises(DataCorruptionError, match=lost[-1]):
            place.open()


def test_losing_any_one_file_that_holds_something_is_noticed():
    place = Place()
    place.live(7, 8)
    for name in place.names():
        other = Place()
        other.live(7, 8)
        other.lose(name)
        with pytest.raises(DataCorruptionError):
            other.open()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_losing_the_last_file_that_holds_something_is_noticed_although_an_empty_one_is_newer(seed):
    place = Place(seed)

    async def scenario():
        wal = await place.machine.open()
        await append_some(wal, place.history, contents(0, 9))
        await wal.close()  # gives the next file time to be made, and marks the records as durable

    place.machine.run(scenario())
    used = [name for name in place.names() if any(place.records_of(name))]
    place.lose(used[-1])
    with pytest.raises(DataCorruptionError):
        place.open()


def test_files_that_were_truncated_and_removed_are_not_missed():
    place = Place()

    async def scenario():
        wal = await place.machine.open()
        for number in range(6):
            await append_some(wal, place.history, contents(10 * number, 10))
            place.history.truncation_asked = place.history.truncation_done = 10 * number
            await wal.truncate(10 * number)
        place.machine.processes[-1].kill()

    place.machine.run(scenario())
    for _ in range(5):
        place.open()


@pytest.mark.slow
def test_an_owner_that_dies_at_any_call_of_its_start_is_not_mistaken_for_one_whose_files_were_lost():
    calls = 0
    while True:
        calls += stride(0.5)
        place = Place()
        place.live(3, 0, 4)
        mortal = Mortal(place.machine.disk, calls)

        async def scenario(place=place, mortal=mortal):
            wal = place.machine.make_wal(filesystem=mortal)
            await wal.open()
            await wal.close()

        died = place.machine.run_until(scenario(), mortal.call_at_death)
        place.open()
        place.open()
        if not died:
            break
    assert calls > 20


@pytest.mark.parametrize("slot", [0, 1])
def test_a_damaged_name_of_the_newest_file_is_no_damage_to_the_log_and_is_mended(slot):
    place = Place()
    place.live(3, 2)
    place.damage(slot)
    place.open()
    place.live(2)
    lost = place.names(epoch=4)
    place.lose(*lost)
    with pytest.raises(DataCorruptionError, match=lost[-1]):
        place.open()


def test_a_log_of_an_earlier_version_opens_and_has_its_newest_file_named_from_then_on():
    place = Place()
    place.live(3)
    fd = place.files.open(f"{DIRECTORY}/{OWNER_FILE}", 2)
    place.files.ftruncate(fd, NEWEST_SLOTS_AT)
    place.files.fsync(fd)
    place.files.close(fd)
    place.open()
    lost = place.names(epoch=2)
    place.lose(*lost)
    with pytest.raises(DataCorruptionError, match=lost[-1]):
        place.open()


def test_an_owner_of_an_earlier_version_that_names_nothing_is_no_reason_to_refuse_the_log():
    place = Place()
    place.live(3, 2)
    path = f"{DIRECTORY}/{OWNER_FILE}"
    fd = place.files.open(path, 2)
    before = bytearray(2 * SLOT_BYTES)
    place.files.pread_into(fd, memoryview(before), NEWEST_SLOTS_AT)
    place.open()  # removes the empty file of nobody; the record of what it named is taken back:
    place.files.pwrite(fd, bytes(before), NEWEST_SLOTS_AT)
    place.files.close(fd)
    place.open()
    place.open()

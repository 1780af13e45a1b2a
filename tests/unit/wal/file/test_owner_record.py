"""The owner file, while a process stands still at any call."""

import contextlib

import pytest

from headrace.errors import DirectoryLockedError, FencedOutError
from headrace.runtime.entropy import SeededEntropy
from headrace.wal.file.owner_format import (
    NEWEST_SLOT_COUNT,
    NEWEST_SLOTS_AT,
    SLOT_BYTES,
    NewestFile,
    find_named,
)
from headrace.wal.file.owner_record import OWNER_FILE, OwnerFile
from headrace.wal.file.segment_files import SegmentFiles
from headrace.wal.file.segment_format import FileHead
from tests.unit.wal.world import DIRECTORY, FixedClock, Machine, SimulatedFilesystem


class Interrupted(SimulatedFilesystem):
    """A process that stands still before one of its calls while ``meanwhile`` goes on."""

    def __init__(self, disk, meanwhile):
        super().__init__(disk)
        self.meanwhile = meanwhile
        self.calls_left = -1

    def _begin(self, operation, path, **fields):
        self.calls_left -= 1
        if self.calls_left == 0:
            self.meanwhile()
        super()._begin(operation, path, **fields)


class Place:
    """A log's directory and its owners."""

    def __init__(self):
        self.disk = Machine().disk
        self.entropy = SeededEntropy(1)
        self.owners = []

    def take(self, filesystem=None):
        """Take the log as a process does that opens it, and make its first file; return the owner."""
        filesystem = SimulatedFilesystem(self.disk) if filesystem is None else filesystem
        owner = Owner(filesystem)
        owner.record = record = owner.file.take(FixedClock(), self.entropy)
        owner.file.run_owned(lambda: owner.make_file(number=10 * record.epoch))
        self.owners.append(owner)
        return owner

    def named(self):
        names = self.names()
        return names[0] if names else None

    def names(self):
        files = SimulatedFilesystem(self.disk)
        fd = files.open(f"{DIRECTORY}/{OWNER_FILE}", 0)
        slots = []
        for slot in range(NEWEST_SLOT_COUNT):
            data = bytearray(SLOT_BYTES)
            files.pread_into(fd, memoryview(data), NEWEST_SLOTS_AT + slot * SLOT_BYTES)
            slots.append(bytes(data))
        files.close(fd)
        return find_named(slots)[0]


class Owner:
    def __init__(self, filesystem):
        self.files = SegmentFiles(DIRECTORY, filesystem)
        self.file = OwnerFile(DIRECTORY, filesystem)
        self.record = None

    def make_file(self, number):
        """Make a file and name it as the newest, as the log does when the one before is nearly full."""
        self.files.create(FileHead(self.record.log_id, self.record.epoch, number, 1, 1, 0))
        self.file.note_newest(self.record.epoch, number)


@pytest.mark.parametrize("successors", [1, 2, 3])
def test_an_owner_that_stands_still_while_it_makes_a_file_keeps_nobody_out_and_takes_back_nothing(successors):
    call = 0
    fenced = 0
    while True:
        call += 1
        place = Place()

        def meanwhile(place=place):
            for _ in range(successors):
                place.take()

        still = Interrupted(place.disk, meanwhile)
        first = place.take(still)
        still.calls_left = call
        try:
            first.make_file(number=11)
        except FencedOutError:
            fenced += 1
        if still.calls_left > 0:
            break
        last = place.owners[-1]
        assert last.record.epoch == 1 + successors
        if successors == 1:  # two epochs later the slots are the same, and a late name may cover one
            assert place.named() == NewestFile(last.record.log_id, last.record.epoch, 10 * last.record.epoch)
        last.make_file(number=10 * last.record.epoch + 1)
        assert place.named().number == 10 * last.record.epoch + 1
        place.take()
    assert call > 8
    assert fenced == call - 3  # not if it stood still before its last two calls: it had asked by then


def test_a_damaged_name_is_cleared_by_the_next_owner_whatever_its_epoch():
    for slot in range(NEWEST_SLOT_COUNT):
        for epoch in (2, 3):
            place = Place()
            for _ in range(epoch - 1):
                place.take()
            place.owners[-1].make_file(number=15)
            place.disk.flip_bit(f"{DIRECTORY}/{OWNER_FILE}", NEWEST_SLOTS_AT + slot * SLOT_BYTES + 40)
            assert place.named() is None
            last = place.take()
            assert place.named() == NewestFile(last.record.log_id, epoch, 10 * epoch)


def test_a_file_that_an_owner_makes_and_names_while_another_takes_the_log_is_not_taken_for_a_lost_one():
    call = 0
    while True:
        call += 1
        place = Place()
        first = place.take()

        def meanwhile(first=first):
            try:
                first.make_file(number=11)
            except FencedOutError:
                first.files.create(FileHead(first.record.log_id, 1, 12, 1, 1, 0))

        second = Interrupted(place.disk, meanwhile)
        second.calls_left = call
        owner = place.take(second)
        if second.calls_left > 0:
            break
        assert owner.record.epoch == 2
        place.take()
    assert call > 20


def test_a_name_that_could_not_be_written_leaves_the_one_before_it():
    place = Place()
    owner = place.take()
    for number in (11, 12):
        fault = place.disk.fail("pwrite", path=OWNER_FILE)
        with pytest.raises(OSError, match="Input/output error"):
            owner.make_file(number)
        assert fault.met == 1
        assert place.named().number == number - 1
        owner.make_file(number)
    assert [name.number for name in place.names()] == [12, 11]


def test_an_owner_that_was_fenced_never_makes_the_newest_give_up():
    """Also if it was the newest when it looked, and stands still with the lock: then the newest waits."""
    outcomes = []
    for call in range(1, 9):
        place, done = Place(), []
        old = place.take(stopped := Interrupted(place.disk, lambda: None))
        new = place.take()

        def meanwhile(new=new, done=done):
            done.append(_try_to_own(new))

        stopped.meanwhile = meanwhile
        stopped.calls_left = call
        assert _try_to_own(old) == "fenced"
        outcomes += done
        assert _try_to_own(new) == "owned"
    assert outcomes
    assert set(outcomes) == {"owned"}


def test_an_owner_that_is_overtaken_between_its_look_and_the_lock_makes_the_newest_wait():
    answers = []
    for call in range(1, 9):
        place = Place()
        old = place.take(stopped := Interrupted(place.disk, lambda: None))

        def meet(place=place, stopped=stopped):
            answers.append(_try_to_own(place.owners[-1]))
            stopped.calls_left = 1  # and so before each call that is left

        def overtake(place=place, stopped=stopped, meet=meet):
            with contextlib.suppress(DirectoryLockedError):
                place.take()
                stopped.meanwhile = meet
                stopped.calls_left = 1

        stopped.meanwhile = overtake
        stopped.calls_left = call
        outcome = _try_to_own(old)
        stopped.calls_left = -1
        assert outcome == ("owned" if len(place.owners) == 1 else "fenced")
        assert _try_to_own(place.owners[-1]) == "owned"
    assert set(answers) == {"owned", "waits"}


def _try_to_own(owner):
    try:
        return owner.file.run_owned(lambda: "owned")
    except FencedOutError:
        return "fenced"
    except DirectoryLockedError:
        return "waits"


def test_a_slot_whose_sync_failed_fences_for_ever_once_a_later_one_was_published():
    """The system shows it until it forgets the page: then everybody sees what the disk has."""
    place = Place()
    first = place.take()
    second = OwnerFile(DIRECTORY, SimulatedFilesystem(place.disk))
    fault = place.disk.fail("fsync", path=OWNER_FILE)
    with pytest.raises(OSError, match="Input/output"):
        second.take(FixedClock(), place.entropy)
    assert fault.met
    assert second.take(FixedClock(), place.entropy).epoch == 3
    file = place.disk.find_file(f"{DIRECTORY}/{OWNER_FILE}")
    file.content[:] = file.durable
    assert not first.file.still_held()
    assert second.still_held()

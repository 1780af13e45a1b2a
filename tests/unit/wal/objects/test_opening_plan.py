"""What an owner does with what former owners left."""

import pytest

from headrace.errors import DataCorruptionError, FencedOutError
from headrace.wal.objects.object_format import Kind, LogObject, ObjectHeader, object_bytes
from headrace.wal.objects.object_names import Head, Position, claim_name, head_name, record_name
from headrace.wal.objects.opening_plan import open_log
from headrace.wal.objects.requests import Create, Delete, ListNames, Read
from headrace.wal.objects.truncation_plan import truncate_log

ME = b"m" * 16
FORMER = b"f" * 16


class Store:
    """Answers the requests of plans at once; ``listings`` are answers to be given first."""

    def __init__(self):
        self.objects = {}
        self.listings = []
        self.made = []
        self.deletes = True

    def claim(self, number):
        self.put(claim_name(0, number), ObjectHeader(Kind.CLAIM, 0, number, write_id=FORMER))

    def record(self, number, sequence, address, acknowledged=0, frames=(b"x",)):
        header = ObjectHeader(Kind.RECORD, 0, number, sequence, address, acknowledged, FORMER)
        self.put(record_name(0, Position(number, sequence)), header, frames)

    def fence(self, number, sequence):
        header = ObjectHeader(Kind.FENCE, 0, number, sequence, write_id=FORMER)
        self.put(record_name(0, Position(number, sequence)), header)

    def head(self, number, sequence, address):
        head = Head(Position(number, sequence), address)
        self.put(head_name(0, head), ObjectHeader(Kind.HEAD, 0, number, sequence, address))

    def put(self, name, header, frames=()):
        self.objects[name] = LogObject(header, [memoryview(frame) for frame in frames])

    def run(self, plan):
        answers = None
        while True:
            try:
                requests = plan.send(answers)
            except StopIteration as end:
                return end.value
            answers = [self.make(request) for request in requests]

    def make(self, request):
        match request:
            case Create(name, header):
                self.made.append(name)
                if name in self.objects:
                    return self.objects[name]
                self.put(name, header)
            case Read(name):
                return self.objects.get(name)
            case Delete(name):
                if self.deletes:
                    self.objects.pop(name, None)
                return self.deletes
            case ListNames(prefix):
                if self.listings and prefix == "0/":
                    return self.listings.pop(0)
                return {
                    name: object_bytes(found)
                    for name, found in self.objects.items()
                    if name.startswith(prefix)
                }
        return None

    def open(self):
        return self.run(open_log(0, ME, 2))


@pytest.fixture
def store():
    return Store()


def positions(taken):
    return [tuple(record.position) for record in taken.living.records]


def test_the_first_owner_claims_epoch_1_of_an_empty_log(store):
    taken = store.open()
    assert (taken.container_epoch, positions(taken), taken.living.next_address) == (1, [], 1)
    assert list(store.objects) == ["0/e1"]


def test_an_epoch_that_another_took_meanwhile_is_left_to_it(store):
    store.claim(1)
    store.listings = [{}]
    assert store.open().container_epoch == 2


def test_older_epochs_are_fenced_oldest_first_each_behind_its_records(store):
    for number in (1, 2):  # the second one died before it had fenced the first
        store.claim(number)
    store.record(1, 0, 1, frames=[b"x", b"y"])
    taken = store.open()
    fences = [f"0/r1-{sequence}" for sequence in range(1, 6)]
    fences += [f"0/r2-{sequence}" for sequence in range(5)]
    assert store.made == ["0/e3", *fences]
    assert positions(taken) == [(1, 0)]
    assert taken.living.next_address == 3


def test_an_epoch_that_has_its_fence_is_not_fenced_again(store):
    store.claim(1)
    store.record(1, 0, 1)
    store.fence(1, 1)
    store.open()
    assert store.made == ["0/e2"]


def test_a_former_owner_that_was_quicker_is_fenced_further_on(store):
    store.claim(1)
    store.listings = [{"0/e1": 72}, {"0/e1": 72, "0/e2": 72}]
    for sequence in range(7):
        store.record(1, sequence, sequence + 1)
    taken = store.open()
    assert positions(taken) == [(1, sequence) for sequence in range(7)]
    assert store.objects["0/r1-7"].header.kind is Kind.FENCE


def test_records_above_the_fence_are_void_and_garbage(store):
    store.claim(1)
    store.record(1, 0, 1)
    store.fence(1, 1)
    store.record(1, 2, 3)
    taken = store.open()
    assert positions(taken) == [(1, 0)]
    assert taken.garbage == ["0/r1-2"]


def test_a_record_that_is_missing_in_front_of_what_a_later_owner_wrote_is_refused(store):
    store.claim(1)
    store.record(1, 0, 1)
    store.record(1, 2, 3)
    store.fence(1, 3)
    store.claim(2)
    store.record(2, 0, 4)
    before = set(store.objects)
    with pytest.raises(DataCorruptionError, match="0/r1-1"):
        store.open()
    assert set(store.objects) - before == {"0/e3"}


def test_a_missing_record_that_a_later_one_knew_to_be_acknowledged_is_refused(store):
    store.claim(1)
    store.record(1, 0, 1)
    store.record(1, 2, 3, acknowledged=2)
    with pytest.raises(DataCorruptionError, match=r"acknowledged is missing.*0/r1-1"):
        store.open()
    assert "0/r1-1" not in store.objects


def test_a_hole_that_was_in_flight_is_the_end(store):
    store.claim(1)
    store.record(1, 0, 1)
    store.record(1, 2, 3, acknowledged=1)
    taken = store.open()
    assert positions(taken) == [(1, 0)]
    assert store.objects["0/r1-1"].header.kind is Kind.FENCE


def test_a_log_that_a_former_owner_truncates_while_it_is_listed_is_opened_from_the_new_head(store):
    """Its first record looks free: a fence in its place is no end."""
    store.claim(1)
    store.record(1, 1, 2)
    store.head(1, 1, 2)
    store.listings = [{"0/e1": 72}, {"0/e1": 72, "0/e2": 72, "0/r1-1": 77}]
    taken = store.open()
    assert positions(taken) == [(1, 1)]
    assert taken.living.next_address == 3
    assert store.objects["0/r1-2"].header.kind is Kind.FENCE


def test_a_successor_that_uses_the_log_already_is_noticed(store):
    store.claim(1)
    store.claim(2)
    store.head(2, 0, 5)
    store.listings = [{}]
    store.objects.pop("0/e1")
    with pytest.raises(FencedOutError):
        store.open()


# ---- truncation


def test_the_head_is_there_before_anything_is_deleted(store):
    store.claim(1)
    for sequence in range(3):
        store.record(1, sequence, 10 * sequence + 1, frames=[b"x"] * 10)
    taken = store.open()
    for record, address in zip(taken.living.records, (1, 11, 21), strict=True):
        record.address = address
    requests = truncate_log(taken.living, taken.garbage, 2, 15)
    made = [next(requests)]
    made += [requests.send([None]), requests.send([None])]
    assert [type(each) for each in made[1]] == [Create]
    assert [each.name for each in made[1]] == ["0/h1-1-15"]
    assert {each.name for each in made[2]} >= {"0/r1-0", "0/r1-4", "0/r1-5"}
    assert "0/r1-3" not in {each.name for each in made[2]}


def test_what_was_not_deleted_is_deleted_by_the_next_truncation(store):
    store.claim(1)
    store.record(1, 0, 1)
    taken = store.open()
    store.deletes = False
    store.run(truncate_log(taken.living, taken.garbage, 2, 2))
    assert "0/r1-0" in store.objects
    store.deletes = True
    store.run(truncate_log(taken.living, taken.garbage, 2, 2))
    assert "0/r1-0" not in store.objects
    assert sorted(store.objects) == ["0/e1", "0/e2", "0/h2-0-2", "0/r1-1"]


def test_a_former_owner_drops_nothing(store):
    taken = store.open()
    store.claim(2)
    with pytest.raises(FencedOutError):
        store.run(truncate_log(taken.living, taken.garbage, 1, 1))

"""Two and three owners of one log in a bucket lose nothing and acknowledge nothing that a successor lacks; a
fault in any of the rules that this follows from is found.
"""

import pytest

from headrace.wal.objects import opening_plan, truncation_plan
from headrace.wal.objects.append_window import AppendWindow
from headrace.wal.objects.creation import Creation, Put
from headrace.wal.objects.living_log import LivingRecord
from headrace.wal.objects.object_format import Kind, ObjectHeader, is_record_length
from headrace.wal.objects.object_names import Position, head_name, parse_listing, record_name
from headrace.wal.objects.requests import Create, Delete, Read
from tests.effort import examples
from tests.unit.wal.objects.log_owners import Owner, World

SEEDS_OF_A_PLANT = 500


@pytest.mark.slow
def test_owners_in_any_order_of_events_keep_the_log():
    for seed in range(examples(800)):
        assert World(seed).run() == [], f"seed {seed}"


@pytest.mark.slow
def test_the_model_reaches_what_it_is_about():
    reached = {"acknowledged": 0, "truncated": 0, "recovered": 0, "fenced": 0}
    for seed in range(60):
        world = World(seed)
        world.run()
        reached["acknowledged"] += len(world.acks)
        reached["truncated"] += world.truncated
        reached["recovered"] += sum(len(owner.recovered) for owner in world.owners)
        reached["fenced"] += sum(
            owner.taken is not None and hasattr(owner, "window") and owner.window.failure is not None
            for owner in world.owners
        )
    assert all(count > 20 for count in reached.values()), reached


# ---- plants


class AcknowledgesInAnyOrder(Owner):
    class Window(AppendWindow):
        def next_answered(self):
            for record in self._records:
                if record.state.name == "CREATED":
                    self._records.remove(record)
                    return record.frames, record
            return super().next_answered()


class BelievesThatALostAnswerWasGood(Owner):
    class Creation(Creation):
        def on_put(self, outcome):
            super().on_put(Put.CREATED if outcome is Put.UNKNOWN else outcome)


class SharesNamesWithAllEpochs(Owner):
    """Goes on behind what is there, under the names of epoch 1."""

    def make(self, request, answer):
        match request:
            case Create(name, header) if header.kind is Kind.FENCE:
                request = Create(self.shared(name), header)
            case Read(name, length):
                request = Read(self.shared(name), length)
            case Delete(name):
                request = Delete(self.shared(name))
        super().make(request, answer)

    def create(self, name, found, on_end):
        super().create(self.shared(name), found, on_end)

    def shared(self, name):
        return f"0/r1-{name.partition('-')[2]}" if name.startswith("0/r") else name

    def on_read(self, result):
        listing = parse_listing(self.bucket.page("", "", first=False), 0)
        self.first_sequence = max(listing.records.get(1, {-1: 0})) + 1
        super().on_read(result)


def read_void_records(plan_reading):
    def plan(container, listing, container_epoch):
        living, garbage = plan_reading(container, listing, container_epoch)
        known = {record.position for record in living}
        for epoch, lengths in listing.records.items():
            for sequence, length in lengths.items():
                position = Position(epoch, sequence)
                is_void = position not in known and position > listing.head.position
                if is_void and epoch < container_epoch and is_record_length(length):
                    living.append(LivingRecord(position, length))
        return sorted(living, key=lambda record: record.position), garbage

    return plan


def fence_only_the_newest(fence_epoch):
    def fence(container, listing, container_epoch, write_id, window):
        if container_epoch == max(listing.claims) - 1:
            yield from fence_epoch(container, listing, container_epoch, write_id, window)

    return fence


def delete_fences(plan_reading):
    def plan(container, listing, container_epoch):
        living, garbage = plan_reading(container, listing, container_epoch)
        for epoch, lengths in listing.records.items():
            if epoch < container_epoch:
                fences = [each for each, length in lengths.items() if not is_record_length(length)]
                garbage += [record_name(container, Position(epoch, each)) for each in fences]
        return living, garbage

    return plan


class DeletesBeforeTheHead(Owner):
    def plan_truncate(self, address):
        living, garbage = self.taken.living, self.taken.garbage
        head = living.plan_head(address)
        if head is not None:
            garbage += living.cut(head)
        yield from truncation_plan.delete_garbage(garbage)
        if head is not None:
            yield [Create(head_name(0, head), ObjectHeader(Kind.HEAD, 0, *head.position, head.address))]


PLANTS = {
    "acknowledgement out of order": AcknowledgesInAnyOrder,
    "a lost answer believed to be good": BelievesThatALostAnswerWasGood,
    "one name space for all epochs": SharesNamesWithAllEpochs,
    "delete before head": DeletesBeforeTheHead,
}


@pytest.mark.parametrize("plant", PLANTS)
def test_an_owner_with_a_fault_is_found(plant):
    assert first_found(PLANTS[plant]) is not None


PATCHES = {
    "void records read": ("plan_reading", read_void_records),
    "a newer epoch read before an older one is fenced": ("fence_epoch", fence_only_the_newest),
    "a fence deleted with its epoch": ("plan_reading", delete_fences),
}


@pytest.mark.parametrize("plant", PATCHES)
def test_an_opening_with_a_fault_is_found(plant, monkeypatch):
    name, make = PATCHES[plant]
    monkeypatch.setattr(opening_plan, name, make(getattr(opening_plan, name)))
    assert first_found(Owner) is not None


def first_found(make_owner):
    for seed in range(SEEDS_OF_A_PLANT):
        if World(seed, make_owner).run():
            return seed
    return None

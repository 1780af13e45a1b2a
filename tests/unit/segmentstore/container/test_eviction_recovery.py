"""What recovery makes of evictions and activations, also in a log that is longer than it has to be."""

import pytest

from headrace.errors import DataCorruptionError
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all
from tests.unit.segmentstore.container.test_eviction_crashes import NAMES, Life, look


class KeepingWal(MemoryWal):
    """Drops nothing: as a log on disk, which drops whole files only."""

    async def truncate(self, address):
        pass


async def test_an_evicted_segment_stays_out_of_memory_after_recovery():
    bench = Bench()
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"abc")
    await bench.evict("s/a")
    container = await bench.start()
    assert "s/a" not in container.state.by_name
    await container.log.write_checkpoint()  # which does not list it
    container = await bench.start()
    assert "s/a" not in container.state.by_name
    assert await read_all(container, "s/a") == b"abc"
    container = await bench.start()
    assert "s/a" in container.state.by_name, "its activation is in the log"
    await bench.stop()


async def test_a_log_may_have_operations_from_before_an_eviction():
    bench = Bench()
    bench.make_wal = KeepingWal
    container = await bench.start()
    await container.create("s/a", {})
    await container.create("s/empty", {})
    await append(container, "s/a", b"abc")
    await bench.evict("s/a", "s/empty")
    container = await bench.start()
    assert not {"s/a", "s/empty"} & container.state.by_name.keys()
    await append(container, "s/a", b"d")
    assert await read_all(container, "s/a") == b"abcd"
    await bench.evict("s/a")
    await append(container, "s/a", b"e")
    for _ in range(2):
        container = await bench.start()
        assert await read_all(container, "s/a") == b"abcde"
    await bench.stop()


async def test_a_log_from_which_nothing_was_ever_cut_gives_the_same_segments():
    bench = Bench()
    bench.make_wal = KeepingWal
    await bench.start()
    life = Life(bench)
    await life.run()
    for _ in range(3):
        container = await bench.start()
        for name in NAMES:
            assert await look(container, name) == life.model[name]
        await bench.evict()
    await bench.stop()


@pytest.fixture
def container():
    container = ContainerState(0, sequence=100)
    container.insert(SegmentState(5, "s/a", accepted_length=10, durable_length=10, stored_length=10))
    return container


@pytest.mark.parametrize(
    "row",
    [
        {"accepted_length": 9},
        {"accepted_length": 10, "accepted_start_offset": 1},
        {"accepted_length": 10, "accepted_sealed": True},
        {"accepted_length": 10, "attributes": SegmentAttributes({bytes(16): 1})},
        {"accepted_length": 10, "name": "s/b"},
        {"accepted_length": 10, "segment_id": 6},
    ],
)
def test_an_activation_that_contradicts_the_segment_is_corruption(container, row):
    same = {"segment_id": 5, "name": "s/a"}
    fits = ops.ActivateSegment(101, 5, encode_segment_row(SegmentState(**same, accepted_length=10)))
    transitions.check_replay(container, fits)
    other = SegmentState(**(same | row))
    with pytest.raises(DataCorruptionError):
        transitions.check_replay(
            container, ops.ActivateSegment(101, other.segment_id, encode_segment_row(other))
        )
    with pytest.raises(DataCorruptionError):
        transitions.check_replay(container, ops.ActivateSegment(101, 7, fits.row))


def test_an_eviction_of_what_is_not_there_is_corruption(container):
    transitions.check_replay(container, ops.EvictSegments(101, [5]))
    with pytest.raises(DataCorruptionError):
        transitions.check_replay(container, ops.EvictSegments(101, [5, 6]))
    container.by_id[5].accepted_deleted = True
    with pytest.raises(DataCorruptionError):
        transitions.check_replay(container, ops.EvictSegments(101, [5]))


class LateWal(KeepingWal):
    """Remembers where it is asked to cut the log."""

    def __init__(self, *args):
        super().__init__(*args)
        self.asked = []

    async def truncate(self, address):
        self.asked.append(address)


@pytest.mark.slow
@pytest.mark.parametrize("next_use", ["append", "evict", "delete", "nothing"])
async def test_a_segment_is_the_same_to_those_who_read_more_and_less_of_the_log(next_use):
    bench, wals = Bench(), []

    def make_wal(*args):
        wals.append(LateWal(*args))
        return wals[-1]

    bench.make_wal = make_wal
    container = await bench.start()
    await container.create("s/a", {})
    await append(container, "s/a", b"abc")
    await bench.evict("s/a")
    container = await bench.start()
    assert "s/a" not in container.state.by_name, "although its append is in the log"
    if next_use == "append":
        await append(container, "s/a", b"d")
        await container.flush_storage()
    elif next_use == "evict":
        await bench.evict("s/a")
    elif next_use == "delete":
        await container.delete(await container.resolve("s/a"))
    await MemoryWal.truncate(wals[-1], wals[0].asked[-1])  # the file with the first append goes, no more
    for _ in range(2):
        container = await bench.start()
        if next_use == "delete":
            assert await look(container, "s/a") is None
        else:
            assert await read_all(container, "s/a") == (b"abcd" if next_use == "append" else b"abc")
        await bench.evict()
    await bench.stop()

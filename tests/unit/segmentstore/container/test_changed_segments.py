"""Which segments changed since somebody looked: without touching those that did not."""

import pytest

from headrace.errors import InvalidArgumentError
from headrace.model.change_marker import Looked, decode_marker, encode_marker
from headrace.model.tables import TableEntry
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from tests.unit.segmentstore.container.container_bench import Bench

A, B, TABLE = "s/a", "s/b", "s/table"
LATER_MS = 60_000


def marker_at(bench, time_ms, epoch=None):
    container = bench.container
    looked = Looked(container.state.epoch if epoch is None else epoch, time_ms)
    return encode_marker({container.container_id: looked})


class OneContainer:
    """A registry with one container, whose clock a test sets."""

    def __init__(self, bench):
        self.bench = bench

    def get(self, name):
        return self.bench.container

    def running(self):
        return [self.bench.container]


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.start()
    yield bench
    bench.container.check()
    await bench.stop()


@pytest.fixture
async def store(bench):
    store = SegmentStore(OneContainer(bench), SeededEntropy(1))
    for name in (A, B):
        await store.create_segment(name)
        await store.append(name, b"abc")
    await store.create_table(TABLE)
    await store.table_update(TABLE, [TableEntry(b"key", b"value")])
    return store


async def test_all_active_segments_changed_at_first_but_tables(bench, store):
    marker, changed = await store.changed_segments(b"")
    assert sorted(changed) == [(A, 3), (B, 3)]
    assert decode_marker(marker).keys() == {bench.container.container_id}


async def test_later_only_those_that_changed_since(bench, store, monkeypatch):
    _, _ = await store.changed_segments(b"")
    later_ms = bench.container.now_ms() + LATER_MS
    marker = marker_at(bench, later_ms)
    now_ms = bench.container.now_ms
    monkeypatch.setattr(type(bench.container), "now_ms", lambda _: now_ms() + 2 * LATER_MS)
    assert (await store.changed_segments(marker))[1] == []
    bench.container.state.by_name[A].last_modified_ms = later_ms
    assert (await store.changed_segments(marker))[1] == [(A, 3)]


async def test_a_clock_that_went_back_makes_all_of_them_changed(bench, store):
    marker = marker_at(bench, bench.container.now_ms() + LATER_MS)
    following, changed = await store.changed_segments(marker)
    assert sorted(changed) == [(A, 3), (B, 3)]
    assert following < marker


async def test_a_new_owner_reports_everything_whatever_its_clock_says(bench, store, monkeypatch):
    now_ms = bench.container.now_ms()
    monkeypatch.setattr(type(bench.container), "now_ms", lambda _: now_ms + 2 * LATER_MS)
    assert (await store.changed_segments(marker_at(bench, now_ms + LATER_MS)))[1] == []
    former = marker_at(bench, now_ms + LATER_MS, epoch=bench.container.state.epoch - 1)
    assert sorted((await store.changed_segments(former))[1]) == [(A, 3), (B, 3)]


async def test_what_is_no_marker_is_refused(store):
    with pytest.raises(InvalidArgumentError):
        await store.changed_segments(b"garbage")


async def test_inactive_segments_stay_inactive(bench, store):
    await bench.evict(A, B)
    assert (await store.changed_segments(b""))[1] == []
    assert not {A, B} & bench.container.state.by_name.keys()

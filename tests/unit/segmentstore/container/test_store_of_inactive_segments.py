"""The segment store answers for segments that are not in memory as for those that are."""

import pytest

from headrace.errors import (
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentExistsError,
    SegmentSealedError,
    UnsupportedError,
)
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.model.tables import TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.store import SegmentStore
from tests.unit.segmentstore.container.container_bench import Bench

A, B, TABLE = "s/a", "s/b", "s/table"
KEY = bytes(15) + b"\x09"
CATALOGUE = "_system/containers/metadata_0"


class OneContainer:
    """A registry with one container that owns every name."""

    def __init__(self, bench):
        self.bench = bench

    def get(self, name):
        return self.bench.container


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.start()
    yield bench
    bench.container.check()
    await bench.stop()


@pytest.fixture
async def store(bench):
    return SegmentStore(OneContainer(bench), SeededEntropy(1))


async def test_every_call_finds_a_segment_that_is_not_in_memory(bench, store):
    for name in (A, B):
        await store.create_segment(name, rollover_bytes=1 << 20)
        await store.append(name, b"abc")

    async def idle():
        await bench.evict(A, B)

    await idle()
    assert (await store.segment_info(A)).length == 3
    assert await store.get_attribute(A, KEY) == ATTRIBUTE_NULL
    assert store.read_nowait(A, 0, 10) is None
    assert store.append_target(A) is None
    assert A not in bench.container.state.by_name, "so far nothing had to bring it back"
    assert (await store.read(A, 1, 10, wait=False)).to_bytes() == b"bc"
    await idle()
    assert await store.append(A, b"d") == 3
    await idle()
    assert await store.update_attribute(A, KEY, 5, ATTRIBUTE_NULL)
    await idle()
    assert not await store.update_attribute(A, KEY, 6, ATTRIBUTE_NULL)
    assert await store.get_attribute(A, KEY) == 5
    await idle()
    await store.update_policy(A, 1, 100)
    await idle()
    await store.truncate_segment(A, 2)
    await idle()
    update = AttributeUpdate(KEY, UpdateKind.REPLACE_IF_EQUALS, 6, 5)
    assert await store.merge_segments(A, B, [update]) == 7
    await bench.evict(A)
    with pytest.raises(NoSuchSegmentError):
        await store.segment_info(B)
    assert await store.seal_segment(A) == 7
    await bench.evict(A)
    with pytest.raises(SegmentSealedError):
        await store.append(A, b"x")
    target = await store.open_target(A)
    target.close()
    await bench.evict(A)
    await store.delete_segment(A)
    with pytest.raises(NoSuchSegmentError):
        await store.open_target(A)
    assert store.read_nowait("s/unknown", 0, 1) is None
    assert store.append_target("s/unknown") is None
    with pytest.raises(NoSuchSegmentError):
        await store.read("s/unknown", 0, 1, wait=False)
    await store.create_segment(A)


async def test_tables_that_are_not_in_memory_keep_keys_versions_and_kind(bench, store):
    await store.create_table(TABLE)
    [version] = await store.table_update(TABLE, [TableEntry(b"k", b"v")])
    await bench.evict(TABLE)
    for call in (store.append(TABLE, b"x"), store.open_target(TABLE), store.read(TABLE, 0, 1, wait=False)):
        with pytest.raises(UnsupportedError):
            await call
    await bench.evict(TABLE)
    await store.create_segment(A)
    await bench.evict(A)
    with pytest.raises(InvalidArgumentError):
        await store.table_get(A, [b"k"])
    with pytest.raises(UnsupportedError):
        await store.merge_segments(A, TABLE)
    with pytest.raises(SegmentExistsError):
        await store.create_segment(TABLE)
    await bench.evict(TABLE)
    assert [key.key for key in (await store.table_keys(TABLE, b"", 10))[0]] == [b"k"]
    await bench.evict(TABLE)
    await store.table_remove(TABLE, [TableKey(b"k", version)])
    await bench.evict(TABLE)
    await store.delete_table(TABLE, must_be_empty=True)
    await store.create_segment(TABLE)


async def test_clients_can_neither_see_nor_change_the_catalogue(bench, store):
    await store.create_segment(A)
    await bench.evict(A)
    entry = TableEntry(A.encode(), b"")
    for call in (
        store.segment_info(CATALOGUE),
        store.delete_segment(CATALOGUE),
        store.delete_table(CATALOGUE, must_be_empty=False),
        store.table_update(CATALOGUE, [entry]),
        store.table_remove(CATALOGUE, [TableKey(A.encode())]),
        store.table_get(CATALOGUE, [A.encode()]),
        store.table_info(CATALOGUE),
        store.seal_segment(CATALOGUE),
        store.truncate_segment(CATALOGUE, 1),
        store.get_attribute(CATALOGUE, KEY),
        store.update_attribute(CATALOGUE, KEY, 1, ATTRIBUTE_NULL),
        store.update_policy(CATALOGUE, 0, 0),
        store.append(CATALOGUE, b"x"),
        store.open_target(CATALOGUE),
        store.merge_segments(A, CATALOGUE),
        store.merge_segments(CATALOGUE, A),
        store.merge_batch(A, [CATALOGUE]),
    ):
        with pytest.raises((InvalidArgumentError, NoSuchSegmentError, UnsupportedError)):
            await call
    for create in (store.create_segment, store.create_table):
        with pytest.raises(InvalidArgumentError, match="reserved"):
            await create("_system/containers/metadata_7")
    with pytest.raises(NoSuchSegmentError):
        store.append_target(CATALOGUE)
    assert (await store.segment_info(A)).length == 0


async def test_a_table_takes_no_attributes_of_clients_which_would_stay_in_memory_for_ever(bench, store):
    await store.create_table(TABLE)
    with pytest.raises(UnsupportedError, match="is a table: it takes no attributes of clients"):
        await store.update_attribute(TABLE, KEY, 1, ATTRIBUTE_NULL)
    assert await store.get_attribute(TABLE, KEY) == ATTRIBUTE_NULL

"""An owner that was fenced and does not know it yet: nothing it finds is proof of damage, and nothing it
remembers is an answer to who wants something changed.
"""

import asyncio
import dataclasses

import pytest

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    FencedOutError,
    HeadraceError,
    NoSuchSegmentError,
    SegmentExistsError,
    SegmentSealedError,
    WalWriteError,
)
from headrace.limits import MIB
from headrace.model.tables import TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.ingress.reply_mapping import question_of, reply_to
from headrace.segmentstore.store import SegmentStore
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.wal.memory import MemoryWal
from headrace.wire import commands as c
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal, append, read_all, until

A = "s/a"


async def owner_of_stored_bytes(bench):
    """Start an owner that has none of the bytes of ``A`` in memory."""
    container = await bench.start()
    await container.create(A, {})
    await append(container, A, b"abc")
    await container.log.write_checkpoint()
    await container.flush_storage()
    return await bench.start()


async def collect_all(bench, name=A):
    """What the collector of a successor does once the segment was deleted."""
    for chunk in [chunk for chunk in bench.chunks.objects if name in chunk]:
        await bench.chunks.delete(chunk)


async def take_over(bench):
    wal = MemoryWal(bench.logs, "c0")
    await wal.open()
    return wal


async def test_a_fenced_owner_that_misses_a_chunk_ends_as_fenced():
    bench = Bench()
    former = await owner_of_stored_bytes(bench)
    successor = await take_over(bench)
    await collect_all(bench)
    segment = former.find_segment(A)
    with pytest.raises(FencedOutError) as caught:
        await former.read(segment, 0, 3, wait=False)
    request = c.ReadSegment(A, 0, 3, "", 7)
    assert reply_to(caught.value, question_of(request)) == c.WrongHost(7, A, "", "")
    assert [type(error) for error in bench.failures] == [FencedOutError]
    assert not former.online
    await bench.stopping
    await successor.close()


async def test_an_owner_that_misses_a_chunk_of_its_own_says_so():
    bench = Bench()
    owner = await owner_of_stored_bytes(bench)
    await collect_all(bench)
    with pytest.raises(DataCorruptionError):
        await read_all(owner, A)
    assert owner.online
    await owner.stop()


@pytest.mark.parametrize("fenced", [False, True])
async def test_a_part_of_the_container_that_finds_damage_is_believed_only_while_nobody_took_over(fenced):
    bench = Bench()
    container = await bench.start()

    async def find_damage():
        raise DataCorruptionError("a chunk is missing")

    successor = await take_over(bench) if fenced else None
    container.tiers.supervisor.spawn("storage writer", find_damage())
    await until(lambda: bench.failures)
    assert [type(error) for error in bench.failures] == [FencedOutError if fenced else DataCorruptionError]
    await bench.stopping
    if successor is not None:
        await successor.close()


async def test_damage_ends_the_container_at_once_and_is_judged_before_the_log_is_closed():
    bench, wals = Bench(), []

    def make_wal(*args):
        wals.append(HeldWal(*args))
        return wals[-1]

    async def find_damage():
        raise DataCorruptionError("a chunk is missing")

    bench.make_wal = make_wal
    container = await bench.start()
    wals[-1].answers = asyncio.Event()
    container.tiers.supervisor.spawn("storage writer", find_damage())
    await until(lambda: not container.online)
    stopping = asyncio.ensure_future(container.stop())
    successor = await take_over(bench)
    await asyncio.wait([stopping], timeout=0.01)
    assert not bench.failures
    wals[-1].answers.set()
    await stopping
    assert [type(error) for error in bench.failures] == [FencedOutError]
    await bench.stopping
    await successor.close()


@pytest.mark.parametrize("fenced", [False, True])
async def test_damage_met_at_the_start_is_believed_only_while_nobody_took_over(fenced):
    bench = Bench()
    container = await bench.start()
    await container.create(A, {})
    successors = []

    class Overtaken(MemoryWal):
        async def records(self):
            if fenced:
                successors.append(MemoryWal(bench.logs, "c0"))
                self._log.epoch += 1
            raise DataCorruptionError("record 1 is damaged")
            yield

    bench.make_wal = Overtaken
    with pytest.raises(FencedOutError if fenced else DataCorruptionError):
        await bench.start()
    await container.stop()


async def test_a_read_that_fails_while_its_container_ends_does_not_speak_of_damage():
    bench = Bench()
    owner = await owner_of_stored_bytes(bench)
    segment = owner.find_segment(A)

    class Ending:
        async def read(self, *_, wait):
            owner.tiers.term.online = False
            raise DataCorruptionError("gone")

    index, owner._read_index = owner._read_index, Ending()
    with pytest.raises(ContainerOfflineError):
        await owner.read(segment, 0, 3, wait=False)
    owner._read_index = index
    await owner.stop()


T = "s/table"
KEY = b"key"


def bench_of_two():
    """Nothing is stored by itself: the former owner learns nothing from a write of its own."""
    bench = Bench()
    writer = dataclasses.replace(bench.config.storage_writer, flush_age_s=1e9, flush_bytes=16 * MIB)
    bench.config = dataclasses.replace(bench.config, storage_writer=writer)
    return bench


async def start_beside(bench):
    """Start a successor while the former owner goes on."""
    bench.container = None
    return await bench.start()


async def test_a_removal_is_not_acknowledged_by_who_cannot_know_the_key():
    """It was: its successor had the key, and kept it."""
    bench = bench_of_two()
    former = await bench.start()
    await former.tables.create(T)
    await former.tables.remove(T, [TableKey(KEY)])
    successor = await start_beside(bench)
    await successor.tables.update(T, [TableEntry(KEY, b"value")])
    with pytest.raises(FencedOutError) as caught:
        await former.tables.remove(T, [TableKey(KEY)])
    request = c.RemoveTableKeys(7, T, "", [])
    assert reply_to(caught.value, question_of(request)) == c.WrongHost(7, T, "", "")
    assert len(await successor.tables.get(T, [KEY])) == 1
    await successor.tables.remove(T, [TableKey(KEY)])
    await successor.tables.remove(T, [TableKey(KEY)])
    assert await successor.tables.get(T, [KEY]) == [None]
    await former.stop()
    await successor.stop()


async def test_an_index_of_a_table_that_a_successor_deleted_is_no_damage():
    bench = bench_of_two()
    unindexed = UnindexedConfig(entries_max=1)
    bench.config = dataclasses.replace(bench.config, tables=TablesConfig(unindexed=unindexed))
    bench.index_cache_bytes = 0
    former = await bench.start()
    await former.tables.create(T)
    await former.tables.update(T, [TableEntry(KEY, b"value")])
    await until(lambda: former.tables.statistics().index_rounds)
    successor = await take_over(bench)
    await collect_all(bench, "index")
    with pytest.raises(FencedOutError):
        await former.tables.get(T, [KEY])
    assert not former.online
    await former.stop()
    await successor.close()


async def test_a_merge_counts_as_made_before_only_for_who_can_know_that():
    """A batch passes over sources that are gone: to a former owner those of its successor look like that."""
    bench = bench_of_two()
    former = await bench.start()
    target = await former.create(A, {})
    await former.create("s/old", {})
    await append(former, "s/old", b"old")
    await former.create("s/empty", {})
    assert await former.merge_batch(target, ["s/old", "s/empty", "s/never"]) == [3, 3, 3]
    assert await former.merge(target, "s/old") == 3
    successor = await start_beside(bench)
    await successor.create("s/new", {})
    await append(successor, "s/new", b"new")
    for name in ("s/new", "s/old", "s/empty"):
        with pytest.raises(FencedOutError):
            await former.merge_batch(target, [name])
        with pytest.raises(FencedOutError):
            await former.merge(target, name)
    again = await successor.resolve(A)
    assert await successor.merge_batch(again, ["s/old", "s/new"]) == [3, 6]
    assert await read_all(successor, A) == b"oldnew"
    await former.stop()
    await successor.stop()


class BreakingWal(MemoryWal):
    """Fails its next write once ``broken`` is set."""

    broken = False

    def _find_failure(self, frame):
        return WalWriteError("broken") if self.broken else super()._find_failure(frame)


@pytest.mark.parametrize("remove", ["merge", "delete"])
async def test_a_batch_believes_that_a_source_is_gone_only_once_that_is_durable(remove):
    """The container fails with the log, so all that a batch passed over would be there again."""
    bench = bench_of_two()
    bench.make_wal = BreakingWal
    container = await bench.start()
    target = await container.create(A, {})
    source = await container.create("s/source", {})
    await append(container, "s/source", b"bytes")
    BreakingWal.broken = True
    try:
        first = container.merge(target, "s/source") if remove == "merge" else container.delete(source)
        outcomes = await asyncio.gather(
            first, container.merge_batch(target, ["s/source"]), return_exceptions=True
        )
    finally:
        BreakingWal.broken = False
    assert all(isinstance(outcome, HeadraceError) for outcome in outcomes), outcomes
    await bench.stopping
    again = await bench.start()
    assert await read_all(again, "s/source") == b"bytes"
    await bench.stop()


class Registry:
    """Of one container, whatever the segment."""

    def __init__(self, container):
        self.get = lambda _: container


async def test_what_counts_as_success_is_not_refused_by_who_only_remembers_it():
    """A segment that exists, is sealed or is gone: for its successor all of that may have changed."""
    bench = bench_of_two()
    former = await bench.start()
    old = SegmentStore(Registry(former), SeededEntropy(1))
    await old.create_segment(A)
    await old.seal_segment(A)
    with pytest.raises(SegmentSealedError):
        await old.seal_segment(A)
    with pytest.raises(NoSuchSegmentError):
        await old.delete_segment("s/new")
    successor = await start_beside(bench)
    new = SegmentStore(Registry(successor), SeededEntropy(2))
    await new.create_segment("s/new")
    await new.delete_segment(A)
    for change in (
        lambda: old.create_segment(A),
        lambda: old.create_table(A),
        lambda: old.seal_segment(A),
        lambda: old.seal_segment("s/new"),
        lambda: old.delete_segment("s/new"),
        lambda: old.delete_table("s/new", must_be_empty=True),
        lambda: old.truncate_segment("s/new", 0),
    ):
        with pytest.raises(FencedOutError):
            await change()
    with pytest.raises(NoSuchSegmentError):
        await new.seal_segment(A)
    with pytest.raises(SegmentExistsError):
        await new.create_segment("s/new")
    await former.stop()
    await successor.stop()

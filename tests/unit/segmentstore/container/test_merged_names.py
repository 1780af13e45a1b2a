"""Which merged sources a container remembers when their names are used again."""

import asyncio

import pytest

from headrace.errors import NoSuchSegmentError
from headrace.limits import MIB
from headrace.segmentstore.container import segment_merges
from tests.unit.segmentstore.container.container_bench import Bench, HeldWal, append, until

TARGET, SOURCE = "s/target", "s/source"


@pytest.mark.slow
async def test_a_merge_of_a_name_that_was_used_again_by_a_caller_who_has_left_is_no_repetition():
    bench, wals = Bench(), []

    def make_wal(*args):
        wals.append(HeldWal(*args))
        return wals[-1]

    bench.make_wal = make_wal
    container = await bench.start()
    target = await container.create(TARGET, {})
    await container.create(SOURCE, {})
    await append(container, SOURCE, b"transaction")
    assert await container.merge(target, SOURCE) == 11

    wals[0].held = True
    full = [asyncio.ensure_future(container.append(target, bytes(1 * MIB))) for _ in range(60)]
    await asyncio.sleep(0)
    creating = asyncio.ensure_future(container.create(SOURCE, {}))
    await asyncio.sleep(0)
    assert SOURCE not in container.state.by_name, "it waits for room in the log"
    creating.cancel()  # its connection is lost
    await asyncio.gather(creating, return_exceptions=True)
    wals[0].go_on()
    await asyncio.gather(*full)
    await until(lambda: SOURCE in container.state.by_name)
    await container.log.flush()

    second = await container.resolve(SOURCE)
    await container.append(second, b"another")
    await container.delete(second)
    with pytest.raises(NoSuchSegmentError):
        await container.merge(target, SOURCE)
    await bench.stop()


async def test_a_merge_right_behind_the_deletion_of_a_name_that_was_used_again_is_no_repetition():
    bench, wals = Bench(), []

    def make_wal(*args):
        wals.append(HeldWal(*args))
        return wals[-1]

    bench.make_wal = make_wal
    container = await bench.start()
    target = await container.create(TARGET, {})
    await container.create(SOURCE, {})
    await append(container, SOURCE, b"transaction")
    assert await container.merge(target, SOURCE) == 11
    second = await container.create(SOURCE, {})
    await container.append(second, b"another")

    wals[0].held = True
    deleting = asyncio.ensure_future(container.delete(second))
    await until(lambda: second.accepted_deleted and wals[0].statistics().frames_in_flight)
    wals[0].held = False
    wals[0]._store_next()
    assert second.deleted
    assert not deleting.done(), "it has not noticed yet"
    with pytest.raises(NoSuchSegmentError):
        await container.merge(target, SOURCE)
    await deleting


async def test_a_merge_of_a_name_that_was_used_again_is_remembered_as_long_as_any_other(monkeypatch):
    """It took the place of the former one, and was forgotten by the next merge."""
    monkeypatch.setattr(segment_merges, "MERGED_NAMES_MAX", 3)
    bench = Bench()
    container = await bench.start()
    target = await container.create(TARGET, {})
    for name in (SOURCE, "s/b", "s/c", SOURCE, "s/d"):
        await container.create(name, {})
        await append(container, name, b"x")
        await container.merge(target, name)
    for name in ("s/c", SOURCE, "s/d"):
        assert await container.merge(target, name) == 5
    with pytest.raises(NoSuchSegmentError):
        await container.merge(target, "s/b")
    await bench.stop()

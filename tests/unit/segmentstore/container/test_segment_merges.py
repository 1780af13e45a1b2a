"""Merges that are repeated or refused: success is an answer only for the merge that was made."""

import asyncio
from dataclasses import replace

import pytest

from headrace.errors import (
    InvalidArgumentError,
    NoSuchSegmentError,
    ThrottledError,
)
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.container import segment_merges
from tests.unit.segmentstore.container.container_bench import (
    Bench,
    append,
    queued,
    read_all,
    until,
    withhold_memory,
)

T, U, A = "s/t", "s/u", "s/a"


@pytest.fixture
async def container():
    bench = Bench()
    container = await bench.start()
    for name in (T, U, A):
        await container.create(name, {})
    yield container
    await bench.stop()


@pytest.mark.parametrize("data", [b"first", b""])
async def test_a_merge_is_repeated_into_the_same_target_only(container, data):
    target, other = await container.resolve(T), await container.resolve(U)
    if data:
        await append(container, A, data)
    assert await container.merge(target, A) == len(data)
    assert await container.merge(target, A) == len(data)
    with pytest.raises(NoSuchSegmentError):
        await container.merge(other, A)
    assert await container.merge_batch(other, [A]) == [0]  # a batch passes over sources that are gone
    assert (await read_all(container, T), await read_all(container, U)) == (data, b"")


async def test_an_empty_source_is_gone_for_good_and_updates_are_made_with_that_once():
    bench = Bench()
    container = await bench.start()
    for name in (T, A):
        await container.create(name, {})
    updates = [AttributeUpdate(b"k" * 16, UpdateKind.ACCUMULATE, 1)]
    for _ in range(2):  # the answer may not have arrived
        assert await container.merge(await container.resolve(T), A, updates) == 0
    for _ in range(2):  # with what the log holds, and with what a checkpoint does
        container = await bench.start()
        assert await container.read_attribute(T, b"k" * 16) == 1
        with pytest.raises(NoSuchSegmentError):
            await container.resolve(A)
        await bench.evict()
        await until(lambda: not bench.container.state.retired)
    await container.create(A, {})
    await bench.stop()


async def test_a_name_that_is_used_again_stands_for_its_new_segment(container):
    target = await container.resolve(T)
    await append(container, A, b"first")
    assert await container.merge(target, A) == 5
    await container.create(A, {})
    await append(container, A, b"second")
    await container.delete(await container.resolve(A))
    with pytest.raises(NoSuchSegmentError):
        await container.merge(target, A)
    assert await read_all(container, T) == b"first"


async def test_a_batch_of_too_many_sources_is_refused_as_a_whole(container, monkeypatch):
    monkeypatch.setattr(segment_merges, "MERGE_SOURCES_MAX", 2)
    target = await container.resolve(T)
    await append(container, A, b"first")
    with pytest.raises(InvalidArgumentError, match="nothing was merged"):
        await container.merge_batch(target, [A, "s/b", "s/c"])
    assert await read_all(container, T) == b""
    assert await container.merge_batch(target, [A, "s/b"]) == [5, 5]


async def test_the_lengths_of_a_batch_are_those_after_each_source_in_order(container):
    """Sources that are empty were deleted behind all merges, and those that are gone have no operation."""
    target = await container.resolve(T)
    await append(container, T, b"target")
    await append(container, A, b"first")
    await append(container, U, b"second")
    for name in ("s/e", "s/f"):
        await container.create(name, {})
    sources = ["s/gone", "s/e", A, "s/f", A, "s/gone", U, "s/gone"]
    assert await container.merge_batch(target, sources) == [6, 6, 11, 11, 11, 11, 17, 17]
    assert await container.merge_batch(target, sources) == [17] * 8
    await container.create(U, {})
    await append(container, U, b"third")
    assert await container.merge_batch(target, ["s/gone", U, A]) == [17, 22, 22]


async def test_an_empty_source_that_could_not_be_sealed_is_not_deleted():
    """It was: with what was appended, and acknowledged, while the target's attributes were written."""
    bench = Bench()
    bench.config = replace(bench.config, requests_max=1)
    container = await bench.start()
    for name in (T, U, A):
        await container.create(name, {})
    target, source = await container.resolve(T), await container.resolve(A)
    give_memory = withhold_memory(container)
    waiting = asyncio.ensure_future(append(container, U, b"takes the only place in the line"))
    await until(lambda: queued(container))
    updates = [AttributeUpdate(b"k" * 16, UpdateKind.REPLACE, 1, 0)]
    merging = asyncio.ensure_future(container.merge(target, A, updates))
    await asyncio.sleep(0)
    give_memory()
    with pytest.raises(ThrottledError):
        await merging
    await waiting
    await append(container, A, b"acknowledged")
    assert await read_all(container, A) == b"acknowledged"
    assert not source.sealed
    assert await container.merge(target, A, updates) == 12
    assert await read_all(container, T) == b"acknowledged"
    await bench.stop()


async def test_a_batch_into_a_target_that_is_merged_itself_is_no_success(container):
    target, other = await container.resolve(T), await container.resolve(U)
    await append(container, T, b"target")
    await append(container, A, b"source")
    outcomes = await asyncio.gather(
        container.merge(other, T), container.merge_batch(target, [A]), return_exceptions=True
    )
    assert outcomes[0] == 6
    assert isinstance(outcomes[1], NoSuchSegmentError)
    assert await read_all(container, A) == b"source"


@pytest.mark.parametrize("batch", [False, True])
async def test_a_truncated_source_changes_nothing(container, batch):
    target = await container.resolve(T)
    for name in (A, U):
        await append(container, name, b"bytes")
    await container.truncate(await container.resolve(A), 1)
    with pytest.raises(InvalidArgumentError, match="truncated"):
        await (container.merge_batch(target, [U, A]) if batch else container.merge(target, A))
    assert await read_all(container, T) == b""
    assert await read_all(container, U) == b"bytes"
    assert not (await container.resolve(A)).sealed
    assert not (await container.resolve(U)).sealed


async def test_a_large_batch_does_not_fill_the_line_of_requests():
    """It did, and was refused as not begun when a part of it was merged."""
    bench = Bench()
    bench.config = replace(bench.config, requests_max=16)
    container = await bench.start()
    sources = [f"s/{number}" for number in range(40)]
    for name in (T, *sources):
        await container.create(name, {})
    for name in sources:
        await append(container, name, name.encode())
    target = await container.resolve(T)
    give_memory = withhold_memory(container)
    merging = asyncio.ensure_future(container.merge_batch(target, sources))
    await until(lambda: queued(container))
    give_memory()
    content = "".join(sources).encode()
    assert (await merging)[-1] == len(content)
    assert await read_all(container, T) == content
    await bench.stop()


@pytest.mark.slow
@pytest.mark.parametrize("begun_anew", [False, True])
async def test_a_batch_may_have_more_sources_than_may_be_in_memory(begun_anew):
    bench = Bench(active_segments_max=8, eviction_cut_s=2.0)
    container = await bench.start()
    await container.create(T, {})
    names = [f"{T}.{number}" for number in range(12)]
    for name in names:
        await container.create(name, {})
        await append(container, name, b"x")
    if begun_anew:
        container = await bench.start()
    assert await container.merge_batch(await container.resolve(T), names) == list(range(1, 13))
    assert await read_all(container, T) == b"x" * 12
    await bench.stop()

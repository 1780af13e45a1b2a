"""Merges that are repeated: success is an answer only for the merge that was made."""

import pytest

from headrace.errors import InvalidArgumentError, NoSuchSegmentError
from headrace.segmentstore.container import segment_merges
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

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

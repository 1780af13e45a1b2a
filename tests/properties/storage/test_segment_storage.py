"""Random histories of chunked segments against a model that is a bytearray per segment."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import NoSuchSegmentError, RequestError, SegmentTruncatedError
from headrace.runtime.entropy import SeededEntropy
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_layout import load_layout, walk_chunks
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.metadata.rows import CHUNK_PREFIX, SEGMENT_PREFIX
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.testing.memory_row_store import MemoryRowStore
from tests.effort import examples

SMALL = SegmentStorageConfig(
    rollover_bytes=64,
    block_bytes=4,
    concat_copy_bytes_max=20,
    garbage_delay_s=0.0,
    read_parallel_max=3,
    walk_rows_max=2,
    merge_bytes_max=48,
    merge_chunks_min=3,
)


@dataclass
class ModelSegment:
    data: bytearray = field(default_factory=bytearray)
    start: int = 0
    sealed: bool = False


names = st.sampled_from(["a", "b/c", "d#transaction.1"])
operations = st.one_of(
    st.tuples(st.just("write"), names, st.lists(st.binary(max_size=40), max_size=4)),
    st.tuples(st.just("seal"), names),
    st.tuples(st.just("truncate"), names, st.integers(0, 200)),
    st.tuples(st.just("concat"), names, names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("merge"), names),
    st.tuples(st.just("purge"), names),
    st.tuples(st.just("new_owner")),
    st.tuples(st.just("garbage")),
)


def perform_on_model(model: dict[str, ModelSegment], operation) -> bool:
    """Change the model; False if the operation must be refused."""
    match operation:
        case ("write", name, buffers):
            segment = model.setdefault(name, ModelSegment())
            if segment.sealed:
                return False
            segment.data += b"".join(buffers)
        case ("seal", name):
            if name not in model:
                return False
            model[name].sealed = True
        case ("truncate", name, offset):
            if name not in model or offset > len(model[name].data):
                return False
            model[name].start = max(model[name].start, offset)
        case ("concat", target, source):
            if target == source or target not in model or source not in model:
                return False
            if model[target].sealed or not model[source].sealed or model[source].start:
                return False
            model[target].data += model.pop(source).data
        case ("delete", name):
            return model.pop(name, None) is not None
        case ("merge", name):
            return name in model
    return True


async def perform(storage: ChunkedSegmentStorage, operation) -> None:
    match operation:
        case ("write", name, buffers):
            info = await storage.info(name)
            await storage.write(name, info.length if info else 0, buffers, create=True)
        case ("seal", name):
            await storage.seal(name)
        case ("truncate", name, offset):
            await storage.truncate(name, offset)
        case ("concat", target, source):
            info = await storage.info(target)
            await storage.concat(target, info.length if info else 0, source)
        case ("delete", name):
            await storage.delete(name)
        case ("garbage",):
            await storage.garbage.collect()
        case ("merge", name):
            await merge_all(storage, name)
        case ("purge", name):
            await storage.make_rewriter().drop_truncated(name)


async def merge_all(storage, name) -> None:
    rewriter, place, steps = storage.make_rewriter(), 0, 0
    while not (step := await rewriter.merge_some(name, place)).is_done:
        place = step.place
        steps += 1
        assert steps < 1000


async def check_against(storage, rows, provider, model) -> None:
    assert sorted(key.removeprefix(SEGMENT_PREFIX) for key in rows.keys(SEGMENT_PREFIX)) == sorted(model)
    for name, expected in model.items():
        info = await storage.info(name)
        assert (info.length, info.start_offset, info.sealed) == (
            len(expected.data),
            expected.start,
            expected.sealed,
        )
        chunks = list(walk_chunks(load_layout(name, rows.rows.get), rows.rows.get))
        assert len(chunks) == info.chunk_count
        length = info.length - info.start_offset
        assert await storage.read_stored(name, info.start_offset, length) == expected.data[expected.start :]
        for offset in range(info.start_offset, info.length, 7):
            part = await storage.read_stored(name, offset, min(5, info.length - offset))
            assert part == expected.data[offset : offset + 5]
        if expected.start:
            with pytest.raises(SegmentTruncatedError):
                await storage.read_stored(name, expected.start - 1, 1)


def check_purged(rows, name) -> None:
    layout = load_layout(name, rows.rows.get)
    assert layout is None or layout.first_chunk_start == layout.start_offset


async def run_history(history, *, supports_append: bool, forgets: bool) -> None:
    provider = MemoryChunkProvider(supports_append=supports_append)
    rows = MemoryRowStore(forgets=forgets)
    entropy = SeededEntropy(1)
    epoch = 1
    storage = ChunkedSegmentStorage(provider, rows, epoch, entropy, SMALL)
    model: dict[str, ModelSegment] = {}
    for operation in history:
        if operation == ("new_owner",):
            epoch += 1
            storage = ChunkedSegmentStorage(provider, rows, epoch, entropy, SMALL)
        elif perform_on_model(model, operation):
            await perform(storage, operation)
            if operation[0] == "purge":
                check_purged(rows, operation[1])
        else:
            with pytest.raises(RequestError):
                await perform(storage, operation)
    await check_against(storage, rows, provider, model)
    while await storage.garbage.collect():
        pass
    await check_against(storage, rows, provider, model)
    rows.forgets = False
    used = {chunk.name for name in model for chunk in storage.chunks(name)}
    rows.forgets = forgets
    assert set(provider.objects) == used
    assert {key.removeprefix(CHUNK_PREFIX) for key in rows.keys(CHUNK_PREFIX)} == used
    storage = ChunkedSegmentStorage(provider, rows, epoch + 1, entropy, SMALL)
    assert await storage.garbage.collect_orphans() == 0
    for name in list(model):
        await storage.delete(name)
        with pytest.raises(NoSuchSegmentError):
            await storage.read_stored(name, 0, 0)
    while await storage.garbage.collect():
        pass
    assert not provider.objects
    assert set(rows.rows) <= {"i", "n"}


@settings(max_examples=examples(150))
@given(st.lists(operations, max_size=40), st.booleans(), st.booleans())
def test_any_history_reads_back_as_the_model_and_leaves_no_object_behind(history, supports_append, forgets):
    asyncio.run(run_history(history, supports_append=supports_append, forgets=forgets))

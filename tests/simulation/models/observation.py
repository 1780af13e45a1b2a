"""Looks at everything a container holds, and at what storage holds for it, when no client is at work."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import TypeVar

from headrace.btree.check import check
from headrace.errors import (
    ContainerOfflineError,
    CorruptionError,
    NoSuchSegmentError,
    RequestError,
    StorageReadError,
    ThrottledError,
)
from headrace.limits import MIB
from headrace.model.attributes import ATTRIBUTE_NULL, is_core_attribute
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.attributes.segment_index import SegmentIndex
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.testing.failures import SimulationError, StalledError
from tests.simulation.models.container_calls import ObserveAnswer, ObservedSegment, SegmentAnswer
from tests.simulation.models.container_model import ModelSegment
from tests.simulation.models.table_model import TableAnswer
from tests.table_rows import storage_rows_of

T = TypeVar("T")

_READ_ATTEMPTS_MAX = 300


async def facts_of(container: SegmentContainer, name: str) -> SegmentAnswer:
    """Return what the container says about a segment, with the attributes that are in memory."""
    info = await container.read_info(name)
    return SegmentAnswer(info.start_offset, info.length, info.sealed, dict(info.attributes))


async def all_facts_of(container: SegmentContainer, name: str) -> SegmentAnswer:
    """Return what the container says about a segment, with the value of each attribute, asked one by one.

    Which there are is known from memory and from the attribute index, whatever the container believes to be
    in which of them.
    """
    state = await _retry(container, lambda: container.resolve(name))
    with state.held():
        known = set(state.attributes.durable)
        known |= (await read_index(container, state)).keys()
        known |= state.attributes.durable.keys()
    values = {}
    for key in sorted(known):
        value = await _retry(container, lambda key=key: container.read_attribute(name, key))  # type: ignore[misc]
        if value != ATTRIBUTE_NULL:
            values[key] = value
    info = await container.read_info(name)
    return SegmentAnswer(info.start_offset, info.length, info.sealed, values, is_whole=True)


async def read_index(container: SegmentContainer, state: SegmentState) -> dict[bytes, int]:
    """Return what the attribute index of a segment has in storage, which is proved to be whole."""
    storage = container.tiers.storage
    assert storage is not None

    async def read() -> dict[bytes, int]:
        name = state.index_storage_name
        before = await storage.info(name)
        index = SegmentIndex(name, 16, lambda: storage, PageCache(1 * MIB), AttributesConfig())
        try:
            root = await index.open()
            found = await index.read_range(bytes(16), b"\xff" * 16, 10_000)
            proof = check(root)
            with contextlib.suppress(StopIteration):
                refs = next(proof)
                while True:
                    pages = [await storage.read_stored(name, ref.offset, ref.length) for ref in refs]
                    refs = proof.send(pages)
        except (CorruptionError, RequestError) as error:
            if await storage.info(name) == before:
                raise
            raise StorageReadError("it is written and truncated meanwhile") from error
        keys = [found.keys[at : at + 16] for at in range(0, len(found.keys), 16)]
        return dict(zip(keys, found.values, strict=True))

    return await _retry(container, read)


async def _retry(container: SegmentContainer, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until storage answers.

    Raises:
        StalledError: it takes too often.
    """
    for _ in range(_READ_ATTEMPTS_MAX):
        try:
            return await ask()
        except (StorageReadError, ContainerOfflineError, ThrottledError):
            if not container.online:
                raise
            await asyncio.sleep(0.05)
    raise StalledError("storage does not answer")


async def observe(container: SegmentContainer, names: Iterable[str], entropy: SeededEntropy) -> ObserveAnswer:
    """Return facts and bytes of those segments that exist."""
    seen: dict[str, ObservedSegment] = {}
    for name in names:
        try:
            facts = await all_facts_of(container, name)
        except NoSuchSegmentError:
            continue
        seen[name] = ObservedSegment(facts, await read_all(container, name, entropy))
        again = await all_facts_of(container, name)
        assert again == facts, f"{again} right behind {facts}"
    return ObserveAnswer(seen)


async def observe_table(container: SegmentContainer, name: str) -> TableAnswer:
    """Return everything in a table, which its iterator and its look-ups agree about."""
    seen: dict[bytes, tuple[bytes, int]] = {}
    token = b""
    try:
        while True:
            page, token = await container.tables.entries(name, token, 3)
            if not page:
                break
            seen.update((entry.key, (bytes(entry.value), entry.version)) for entry in page)
        found = await container.tables.get(name, list(seen))
    except NoSuchSegmentError:
        return TableAnswer(None)
    for entry in found:
        assert entry is not None
        assert seen[entry.key] == (bytes(entry.value), entry.version)
    return TableAnswer(seen)


def check_known(container: SegmentContainer, names: Collection[str]) -> None:
    """Check the container itself, and that it has no unknown segments."""
    container.check()
    found = {name for name in container.state.by_name if not name.startswith("_system/")} - set(names)
    assert not found, f"no client has created {sorted(found)}"


async def read_all(container: SegmentContainer, name: str, entropy: SeededEntropy) -> bytes:
    """Read a segment from its start to its end, in pieces of any size, however often that takes.

    Raises:
        StalledError: it takes too often.
    """
    content, failures, offset = b"", 0, 0
    while True:
        try:
            state = await container.resolve(name)
            offset = state.start_offset + len(content)
            if offset == state.durable_length:
                return content
            result = await container.read(
                state, offset, 1 + entropy.randbelow(5000), wait=bool(entropy.randbelow(2))
            )
        except (StorageReadError, ContainerOfflineError, ThrottledError):  # it may have been evicted
            if not container.online:
                raise
            failures += 1
            if failures > _READ_ATTEMPTS_MAX:
                raise StalledError(f"{name} cannot be read at {offset}") from None
            await asyncio.sleep(0.05)
            continue
        data = result.to_bytes()
        assert data, f"no bytes at {offset} of {name}, which has {state.durable_length}"
        content += data


async def check_stored(
    container: SegmentContainer, segments: Mapping[str, ModelSegment], unjudged: Collection[str] = ()
) -> None:
    """Flush, and compare what storage holds with what clients know; look for garbage.

    ``unjudged`` are segments that exist, too, with a content that is not judged here.

    Raises:
        SimulationError: they differ.
        ContainerOfflineError: the container has ended.
    """
    storage, writer = container.tiers.storage, container.tiers.writer
    assert storage is not None
    assert writer is not None
    await asyncio.sleep(0.001)
    try:
        async with asyncio.timeout(300):
            await writer.flush_all()
    except TimeoutError:
        tasks = "\n".join(str(task) for task in sorted(asyncio.all_tasks(), key=str))
        raise StalledError(f"storage does not catch up: {tasks}") from None
    writer.check()
    live: set[str] = set()
    for name in unjudged:
        state = await container.resolve(name)
        live |= {state.storage_name, state.index_storage_name}
    for name, found in segments.items():
        state = await container.resolve(name)
        live.add(state.index_storage_name)
        await _check_index(container, state, found)
        stored = await storage.info(state.storage_name)
        if stored is None:
            if found.length:
                raise SimulationError(f"storage does not know {name}")
            continue
        shown = (stored.start_offset, stored.length, stored.sealed)
        if shown != (found.start, found.length, found.sealed):
            raise SimulationError(f"storage says {shown} of {name}")
        data = await storage.read_stored(state.storage_name, found.start, found.length - found.start)
        if data != found.content(found.start, found.length):
            raise SimulationError(f"storage holds other bytes of {name}")
        live.add(state.storage_name)
    # The index of a retired segment is deleted when the segment is forgotten, behind a truncation of the log.
    live |= {retired.index_storage_name for retired in container.state.retired}
    stale = {key[2:] for key in await storage_rows_of(container) if key.startswith("s/")} - live
    if stale:
        raise SimulationError(f"storage has not forgotten {sorted(stale)}")
    # What merges chunks may make more for ever: what is deleted are rows, which are stored, too.
    end = storage.garbage.next_number
    for _ in range(600):
        if storage.garbage.first_number >= end:
            return
        await asyncio.sleep(0.1)
        if (checkpoints := container.tiers.checkpoints) is not None:
            await checkpoints.renew()  # nothing is logged any more: those there are would hold it for ever
    raise StalledError("garbage is not collected")


async def _check_index(container: SegmentContainer, state: SegmentState, found: ModelSegment) -> None:
    """Compare attribute index and newer values with what clients know.

    Raises:
        SimulationError: they differ.
    """
    with state.held():
        values = await read_index(container, state)
    attributes = state.attributes
    values |= {key: attributes.durable[key] for key in attributes.newer}
    set_now = {key: value for key, value in values.items() if value != ATTRIBUTE_NULL}
    known = {key: value for key, value in found.attributes.items() if not is_core_attribute(key)}
    if set_now != known:
        raise SimulationError(f"index and log have other attributes of {state.name}")

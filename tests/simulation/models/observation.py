"""Looks at everything a container holds, and at what storage holds for it, when no client is at work."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping

from headrace.errors import ContainerOfflineError, NoSuchSegmentError, StorageReadError, ThrottledError
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.container import SegmentContainer
from headrace.testing.failures import SimulationError, StalledError
from tests.simulation.models.container_calls import ObserveAnswer, ObservedSegment, SegmentAnswer
from tests.simulation.models.container_model import ModelSegment
from tests.simulation.models.table_model import TableAnswer

_READ_ATTEMPTS_MAX = 300


async def facts_of(container: SegmentContainer, name: str) -> SegmentAnswer:
    """Return what the container says about a segment."""
    info = await container.read_info(name)
    return SegmentAnswer(info.start_offset, info.length, info.sealed, dict(info.attributes))


async def observe(container: SegmentContainer, names: Iterable[str], entropy: SeededEntropy) -> ObserveAnswer:
    """Return facts and bytes of those segments that exist."""
    seen: dict[str, ObservedSegment] = {}
    for name in names:
        try:
            facts = await facts_of(container, name)
        except NoSuchSegmentError:
            continue
        seen[name] = ObservedSegment(facts, await read_all(container, name, entropy))
        assert await facts_of(container, name) == facts
    return ObserveAnswer(seen)


async def observe_table(container: SegmentContainer, name: str) -> TableAnswer:
    """Return everything in a table, which its iterator and its look-ups agree about."""
    seen: dict[bytes, tuple[bytes, int]] = {}
    token = b""
    try:
        while True:
            page, token = await container.tables.table_entries(name, token, 3)
            if not page:
                break
            seen.update((entry.key, (bytes(entry.value), entry.version)) for entry in page)
        found = await container.tables.table_get(name, list(seen))
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
        live.add((await container.resolve(name)).storage_name)
    for name, found in segments.items():
        state = await container.resolve(name)
        stored = storage.info(state.storage_name)
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
    stale = {name for name in storage.segments() if not name.startswith("_system/")} - live
    if stale:
        raise SimulationError(f"storage has not forgotten {sorted(stale)}")
    for _ in range(600):
        if not storage.statistics().garbage_runs:
            return
        await asyncio.sleep(0.1)
    raise StalledError("garbage is not collected")

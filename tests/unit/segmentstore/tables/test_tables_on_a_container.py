"""What tables need of the log of a container that it may not have."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from headrace.limits import KIB, MIB
from headrace.model.tables import NO_VERSION, TableEntry
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import SystemEntropy
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.tables.config import TablesConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryLogStore, MemoryWal

T = "scope/table"


async def start(tables: TablesConfig, wal: WalConfig) -> SegmentContainer:
    components = ContainerComponents(
        wal=MemoryWal(MemoryLogStore(), "c0", wal),
        chunks=MemoryChunkProvider(),
        cache=BlockCache(CacheConfig(bytes_max=128 * MIB)),
        clock=SystemClock(),
        entropy=SystemEntropy(),
    )
    config = dataclasses.replace(ContainerConfig(), tables=tables)
    container = SegmentContainer(0, components, config, lambda *_: None)
    await container.start()
    return container


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compaction_bytes_max", "frames_max", "frame_bytes_max"),
    [
        (512 * KIB, 4, 64 * KIB),
        # What `headrace standalone` has unless told otherwise, and a setting that it takes.
        (32 * MIB, 12, 2 * MIB),
    ],
)
async def test_compaction_moves_no_more_at_once_than_the_log_can_take(
    compaction_bytes_max, frames_max, frame_bytes_max
):
    """The settings that bound a round and the log know nothing of each other."""
    wal = WalConfig(frames_max=frames_max, frame_bytes_max=frame_bytes_max)
    container = await start(TablesConfig(compaction_bytes_max=compaction_bytes_max), wal)
    tables = container.tables
    await tables.create(T)
    size = min(compaction_bytes_max // 8, 1000 * KIB)
    for number in range(compaction_bytes_max // size):
        await tables.update(T, [TableEntry(b"live%d" % number, bytes(size), NO_VERSION)])
    for _ in range(2 * (compaction_bytes_max // size)):
        await tables.update(T, [TableEntry(b"busy", bytes(size), NO_VERSION)])
    table = await tables._tables.get(T)
    while table.compacting or table.indexing:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0)
    info = await tables.info(T)
    await container.stop()
    assert info.start_offset > 0  # nothing was ever cut off: "exceeds the limit", again and again

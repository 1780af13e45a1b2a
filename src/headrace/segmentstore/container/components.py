"""Components of a container: its log, storage, cache, clock and entropy."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.storage.providers.contract import ChunkProvider
from headrace.wal.contract import Wal


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerComponents:
    """Components, as opposed to settings. All containers of the process share the cache."""

    wal: Wal
    chunks: ChunkProvider
    cache: BlockCache
    clock: Clock
    entropy: Entropy

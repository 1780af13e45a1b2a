"""Components of a container: its log, storage, cache, clock and entropy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.segmentstore.attributes.page_cache import PageCache
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.chunks.optimiser_switch import OptimiserSwitch
from headrace.storage.providers.contract import ChunkProvider
from headrace.wal.contract import Wal


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerComponents:
    """Components, as opposed to settings. All containers of the process share the cache, the pages of indexes
    and the switch of the optimisers.
    """

    wal: Wal
    chunks: ChunkProvider
    cache: BlockCache
    index_pages: PageCache = field(default_factory=PageCache)
    optimiser_switch: OptimiserSwitch = field(default_factory=OptimiserSwitch)
    clock: Clock
    entropy: Entropy
    may_answer: Callable[[], bool] = lambda: True
    """Whether this process may answer for the container, at the moment of the call."""
    system: SystemFacts | None = None
    """What storage checkpoints say about the system; None: there are none of its containers."""

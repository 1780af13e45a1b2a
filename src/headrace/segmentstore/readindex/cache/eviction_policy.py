"""What is evicted first, and how much of the cache each class may use: arithmetic only.

Every extent is in one of three classes:

* *essential*: some of its bytes are unstored. Never evicted, in no queue.
* *tail*: it was appended here and is stored now. Readers near the tail need it.
* *history*: it was read from storage. It is evicted first, and may only use a share of the cache, so that a
  reader of old data does not evict what readers at the tail need.

Tail and history are queues ordered by use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.limits import MIB
from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES

ESSENTIAL: Final = 0
TAIL: Final = 1
HISTORY: Final = 2
UNOWNED: Final = 3
"""Freed while views of it are lent, or lent without an owner; reused when the last view is released."""

_BLOCKS_PER_TAIL: Final = 32
"""The soft bound grows by these with each segment that has unstored bytes: 128 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheConfig:
    """How much memory the cache of one process may use, and the share of each class."""

    bytes_max: int = 256 * MIB
    """Hard bound of the arenas. Rounded down to whole blocks."""
    soft_bytes_max: int | None = None
    """Beyond this, and some blocks for each segment that is written, arenas are added only for unstored bytes
    for which nothing can be evicted. None: the hard bound.
    """
    arena_bytes: int = 8 * MIB
    """Memory is allocated from the system in pieces of this size, when first needed."""
    extent_bytes_max: int = 1 * MIB
    """Bytes of the largest extent."""
    history_share_max: float = 0.25
    """Part of the cache up to its soft bound (as the next two) that bytes read from storage may fill."""
    history_share_min: float = 0.03
    """Part of the cache that appends leave to history, so that read-ahead is not evicted before its use."""
    pinned_share_max: float = 0.25
    """Part of the cache that may be lent to readers, in whole extents; beyond it they get copies."""

    def __post_init__(self) -> None:
        assert self.bytes_max >= BLOCK_BYTES
        assert self.soft_bytes_max is None or self.soft_bytes_max >= BLOCK_BYTES
        assert BLOCK_BYTES <= self.extent_bytes_max <= self.arena_bytes
        assert self.extent_bytes_max & (self.extent_bytes_max - 1) == 0
        assert self.arena_bytes & (self.arena_bytes - 1) == 0
        assert 0 <= self.history_share_min <= self.history_share_max <= 1
        assert 0 <= self.pinned_share_max <= 1


class EvictionPolicy:
    """Decides from which queue to evict, and how large extents may be. Counts are blocks."""

    def __init__(self, config: CacheConfig) -> None:
        self.blocks_max = config.bytes_max // BLOCK_BYTES
        soft_bytes_max = config.bytes_max if config.soft_bytes_max is None else config.soft_bytes_max
        self.soft_blocks_max = min(self.blocks_max, soft_bytes_max // BLOCK_BYTES)
        self.history_max = max(1, int(self.soft_blocks_max * config.history_share_max))
        self.history_min = int(self.soft_blocks_max * config.history_share_min)
        self.pinned_max = int(self.soft_blocks_max * config.pinned_share_max)

    def queues_for_append(self, history: int) -> tuple[int, int]:
        """Return the queues to evict from for essential bytes, in order. ``history`` are its blocks now."""
        return (HISTORY, TAIL) if history > self.history_min else (TAIL, HISTORY)

    def queues_for_history(self, history: int, wanted: int) -> tuple[int, ...]:
        """The same for bytes read from storage: history replaces history once it has its share."""
        return (HISTORY,) if history + wanted > self.history_max else (TAIL, HISTORY)

    def is_tight(self, essential: int) -> bool:
        """Whether tails should stop allocating blocks for later appends."""
        return essential * 2 > self.blocks_max

    def soft_blocks(self, segments: int) -> int:
        """Return the soft bound while ``segments`` have unstored bytes.

        A few busy segments are flushed in large writes from little memory. Of many, each has few bytes when
        it is flushed: more memory makes those writes larger.
        """
        return min(self.blocks_max, self.soft_blocks_max + segments * _BLOCKS_PER_TAIL)

    def tail_blocks_max(self, segments: int) -> int:
        """Return the largest extent of a tail while ``segments`` have unstored bytes.

        An extent is essential until its last byte is stored, and the last byte of a slow segment is always
        young. All tails together must therefore stay a small part of the cache; but each extent costs the
        loop as much as the bytes of a small append, so they are as large as that allows.
        """
        return max(1, self.blocks_max // (4 * max(1, segments)))

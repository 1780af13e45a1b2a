"""Where the bytes of a container's segments are: in the cache, in storage, in a merge, or not written yet."""

from headrace.segmentstore.readindex.cache.cache import BlockCache, CacheStatistics
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.read_index import (
    ContainerReadIndex,
    ReadIndexConfig,
    ReadIndexStatistics,
)

__all__ = [
    "BlockCache",
    "CacheConfig",
    "CacheStatistics",
    "ContainerReadIndex",
    "ReadIndexConfig",
    "ReadIndexStatistics",
]

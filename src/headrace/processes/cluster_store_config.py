"""What a person may choose about a segment store of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.processes.config import SegmentStoreConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStoreConfig(SegmentStoreConfig):
    """Directory, chunks and number of containers are those of the cluster."""

    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)

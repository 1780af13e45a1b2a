"""What a person may choose about a segment store of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import InvalidArgumentError
from headrace.processes.config import SegmentStoreConfig
from headrace.runtime.settings import tunable
from headrace.segmentstore.scaling.config import ScalingConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStoreConfig(SegmentStoreConfig):
    """Directory, chunks and number of containers are those of the cluster."""

    controller_authority: str | None = tunable(
        None,
        help="File with the authorities that issue the certificates of controllers, which are told with TLS "
        "if `tls.cert` is set. None: `tls.authority`, or those of the system.",
    )
    scaling: ScalingConfig = field(default_factory=ScalingConfig)
    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)

    def check(self) -> None:
        """Raises InvalidArgumentError: see :class:`SegmentStoreConfig`."""
        if self.controller_authority is not None and not self.tls.enabled:
            raise InvalidArgumentError("controller_authority is for TLS: it needs tls.cert and tls.key")
        SegmentStoreConfig.check(self)

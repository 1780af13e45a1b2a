"""What a person may choose about a controller that is a process by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from headrace.controller.config import ControllerConfig
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.errors import InvalidArgumentError
from headrace.processes.process_config import PORT_MAX, Part, ProcessConfig, RestConfig
from headrace.runtime.settings import tunable


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerServerConfig(ProcessConfig):
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = ("controller", "rest")

    coordinator: str = tunable("", help="What the cluster agrees through: zk://HOST:PORT,HOST:PORT/ROOT.")
    advertise_controller: str | None = tunable(
        None, help="HOST[:PORT] to tell clients for control calls, if it differs, as behind mapped ports."
    )
    controller_port: int = tunable(9090, low=0, high=PORT_MAX, help="Port of the control calls (gRPC).")
    store_authority: str | None = tunable(
        None,
        help="File with the authorities that issue the certificates of segment stores and other controllers, "
        "which are asked with TLS if `tls.cert` is set. None: `tls.authority`, or those of the system.",
    )
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    rest: RestConfig = field(default_factory=RestConfig)
    zookeeper: ZooKeeperConfig = field(default_factory=ZooKeeperConfig)

    def check(self) -> None:
        """Check relations between settings, and that hosts are names that can be looked up.

        Raises InvalidArgumentError.
        """
        if not self.coordinator:
            raise InvalidArgumentError(
                "a controller needs what its cluster agrees through: name it with --coordinator "
                "zk://HOST:PORT/ROOT (HEADRACE_COORDINATOR)"
            )
        if CoordinatorLocation.parse(self.coordinator).scheme == "memory":
            raise InvalidArgumentError(
                "through memory:// a controller reaches no other process: name a ZooKeeper with "
                "--coordinator zk://HOST:PORT/ROOT, or run headrace standalone"
            )
        if self.auth.enabled and self.auth.token_key is None:
            raise InvalidArgumentError(
                "with users a controller needs the key with which it signs tokens for segment stores, and "
                "makes none by itself: name the file that all processes of the cluster have, setting "
                "auth.token_key (HEADRACE_AUTH__TOKEN_KEY)"
            )
        if self.store_authority is not None and not self.tls.enabled:
            raise InvalidArgumentError("store_authority is for TLS: it needs tls.cert and tls.key")
        ProcessConfig.check(self)

    def place(self) -> str:
        return f"the cluster is at {self.coordinator}"

"""From the URI of a coordinator to the coordinator."""

from __future__ import annotations

import dataclasses
from typing import Any

from headrace.coordination.contract import Coordinator
from headrace.coordination.location import CoordinatorLocation
from headrace.coordination.memory import MemoryCoordinator
from headrace.coordination.zookeeper.config import ZooKeeperConfig
from headrace.runtime.blocking import Threads
from headrace.runtime.extras import require
from headrace.runtime.settings import validate


def make_coordinator(
    location: CoordinatorLocation,
    threads: Threads,
    config: ZooKeeperConfig | None = None,
    *,
    makes_root: bool = True,
) -> Coordinator:
    """Make the coordinator of a location; nothing is sent before its first ``open``.

    ``makes_root``: otherwise a session is refused if the root of the location does not exist.

    Raises:
        InvalidArgumentError: an option of the URI is out of its range, or a file cannot be used.
        UnsupportedError: the library for ZooKeeper is not installed.
    """
    if location.scheme == "memory":
        return MemoryCoordinator()
    require("a coordinator at zk://", "cluster", "kazoo")
    from headrace.coordination.zookeeper.coordinator import ZooKeeperCoordinator

    overruled: dict[str, Any] = dict(location.options)
    config = dataclasses.replace(config or ZooKeeperConfig(), **overruled)
    validate(config, "zookeeper.")
    return ZooKeeperCoordinator(location.servers, location.root, config, threads, makes_root=makes_root)

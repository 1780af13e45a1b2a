"""A cluster on this machine with the face of a single server, as the demo uses that."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from headrace.testing.local_server import LocalServer, memory_of

STORES: Final = 3
CONTROLLERS: Final = 2
_START_S: Final = 300.0
"""A ZooKeeper and five processes, on a machine on which Spark starts as well."""


class ClusterServer(LocalServer):
    """``headrace cluster local``. Clients are told all controllers; REST is asked at the first one."""

    def start(self, timeout_s: float = _START_S) -> dict[str, Any]:
        """See :meth:`LocalServer.start`."""
        told = super().start(timeout_s)
        self.addresses = {**told, "controller": ",".join(told["controllers"]), "rest": told["rest"][0]}
        return self.addresses

    def close(self) -> None:
        """End it in order: its processes use the directory to their end."""
        self.stop()
        super().close()

    def memory_bytes(self, *, peak: bool = False) -> int:
        """Return that of all stores and controllers."""
        pids: dict[str, int] = self.addresses["pids"]
        return sum(memory_of(pid, peak=peak) for name, pid in pids.items() if name != "zookeeper")

    def _words(self, ready: Path) -> list[str]:
        counts = ["--stores", str(STORES), "--controllers", str(CONTROLLERS)]
        data = str(self.directory / "data")
        return ["cluster", "local", *counts, "--data-dir", data, "--ready-file", str(ready)]

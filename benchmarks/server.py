"""A standalone server in a process of its own, and what it cost."""

from __future__ import annotations

import json
import os
import time
import urllib.request
from pathlib import Path
from typing import Any

from headrace.limits import MIB
from headrace.testing import LocalServer


def cpu_s_of(pid: int) -> float:
    """CPU seconds a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class BenchServer(LocalServer):
    """One durable server on a temporary directory, and its figures."""

    def cpu_s(self) -> float:
        """CPU seconds the server has used so far."""
        return cpu_s_of(self.process.pid)

    def statistics(self) -> dict[str, Any]:
        """What ``/v1/debug/statistics`` answers."""
        url = f"http://{self.addresses['rest']}/v1/debug/statistics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def wait_idle(self, timeout_s: float = 30.0) -> None:
        """Wait until the server has done what it was given, storing included: half a second without work."""
        deadline = time.monotonic() + timeout_s
        before = self.cpu_s()
        while time.monotonic() < deadline:
            time.sleep(0.5)
            before, last = self.cpu_s(), before
            if before - last < 0.03:
                return

    def rss_mib(self, *, peak: bool = False) -> float:
        """Resident memory now, or at its peak."""
        return self.memory_bytes(peak=peak) / MIB

"""A standalone server in a process of its own, and what it cost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any, Self


class BenchServer:
    """One durable server on a fresh directory (or an old one: ``restart``)."""

    def __init__(self, *arguments: str, directory: str | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="headrace-bench-", dir=directory))
        self.arguments = arguments
        self.process: subprocess.Popen[bytes] | None = None
        self.addresses: dict[str, str] = {}
        self.ready_s = 0.0

    def start(self, timeout_s: float = 60.0) -> float:
        """Start; return the seconds until it accepted appends."""
        ready = self.root / "ready.json"
        ready.unlink(missing_ok=True)
        began = time.perf_counter()
        ports = ["--controller-port", "0", "--segmentstore-port", "0", "--rest-port", "0"]
        with (self.root / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "headrace.cli.main", "standalone"),
                    *("--data-dir", str(self.root / "data"), *ports, "--ready-file", str(ready)),
                    *self.arguments,
                ],
                stdout=log,
                stderr=log,
            )
        while not ready.exists():
            if self.process.poll() is not None or time.perf_counter() - began > timeout_s:
                raise SystemExit(f"the server did not start:\n{(self.root / 'log').read_text()[-2000:]}")
            time.sleep(0.002)
        self.ready_s = time.perf_counter() - began
        self.addresses = json.loads(ready.read_text())
        return self.ready_s

    @property
    def uri(self) -> str:
        return f"tcp://{self.addresses['controller']}"

    def cpu_s(self) -> float:
        """CPU seconds the server has used so far."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
        assert self.process is not None
        name = "VmHWM" if peak else "VmRSS"
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name):
                return int(line.split()[1]) / 1024
        return 0.0

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

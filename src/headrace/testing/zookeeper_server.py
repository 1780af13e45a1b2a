"""A real ZooKeeper server for tests, from the jars that come with PySpark: one process on a free port."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Final, Self

from headrace.local_cluster.zookeeper import (
    find_java,
    free_port,
    write_zookeeper_config,
    zookeeper_answers,
    zookeeper_command,
)

_STARTS_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.01


class ZooKeeperServer:
    """A server with its data in a directory. ``tick_ms`` is how exactly it judges sessions."""

    def __init__(self, directory: Path, *, tick_ms: int = 250, session_ms_max: int = 60_000) -> None:
        """Raises UnsupportedError: there is no Java, or there are no jars."""
        java = find_java()
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        config = write_zookeeper_config(directory, self.port, tick_ms=tick_ms, session_ms_max=session_ms_max)
        self._command = zookeeper_command(
            java, config, "-Dzookeeper.fsync.warningthresholdms=60000", "-Dzookeeper.forceSync=no"
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, on its port and its data; return when it answers."""
        assert self._process is None
        with (self._directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - a program by its path, and our arguments
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while not zookeeper_answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                said = (self._directory / "server.log").read_text(errors="replace")[-2000:]
                raise AssertionError(f"ZooKeeper did not start: {said}")
            time.sleep(_POLL_S)

    def kill(self) -> None:
        """End it at once. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def suspend(self) -> None:
        """Let it answer nothing, until :meth:`resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

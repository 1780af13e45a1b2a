"""A real ZooKeeper server for tests, from the jars that come with PySpark: one process on a free port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

_JARS: Final = (
    "zookeeper-3.*",
    "zookeeper-jute-*",
    "slf4j-api-*",
    "metrics-core-*",
    "snappy-java-*",
    "netty-handler-4*",
    "netty-common-4*",
    "netty-buffer-4*",
    "netty-transport-4*",
)
_MAIN: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
_STARTS_WITHIN_S: Final = 60.0
_POLL_S: Final = 0.01


class UnavailableError(Exception):
    """There is no Java or there are no jars; the text says which."""


class ZooKeeperServer:
    """A server with its data in a directory. ``tick_ms`` is how exactly it judges sessions."""

    def __init__(self, directory: Path, *, tick_ms: int = 250, session_ms_max: int = 60_000) -> None:
        """Raises UnavailableError."""
        self._java, self._class_path = _find_java()
        self._directory = directory
        self._config = directory / "zoo.cfg"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = _free_port()
        self._config.write_text(
            f"tickTime={tick_ms}\ndataDir={directory / 'data'}\nclientPort={self.port}\n"
            "clientPortAddress=127.0.0.1\nadmin.enableServer=false\nmaxClientCnxns=0\n"
            f"4lw.commands.whitelist=ruok\nminSessionTimeout=500\nmaxSessionTimeout={session_ms_max}\n"
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
                [
                    *(self._java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"),
                    *("-Dzookeeper.fsync.warningthresholdms=60000", "-Dzookeeper.forceSync=no"),
                    *("-cp", self._class_path, _MAIN, str(self._config)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + _STARTS_WITHIN_S
        while not self._answers():
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

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
        return False


def _find_java() -> tuple[str, str]:
    java = shutil.which("java")
    if java is None:
        raise UnavailableError("ZooKeeper needs Java")
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None:
        raise UnavailableError("the jars of ZooKeeper come with pyspark, which is not installed")
    jars = Path(found.origin).parent / "jars"
    files = [next(iter(sorted(jars.glob(f"{pattern}.jar"))), None) for pattern in _JARS]
    missing = [pattern for pattern, file in zip(_JARS, files, strict=True) if file is None]
    if missing:
        raise UnavailableError(f"pyspark has no {', '.join(missing)}")
    return java, ":".join(map(str, files))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port

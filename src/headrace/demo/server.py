"""The server of the demo: a durable standalone one in a process of its own, on free ports."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from headrace.errors import DeadlineExceededError

_START_S: Final = 60.0
_STOP_S: Final = 20.0
_POLL_S: Final = 0.02


class DemoServer:
    """Starts ``headrace standalone`` and stops it again, unless it is to be kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log_path = directory / "server.log"
        self.addresses: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        return f"tcp://{self.addresses['controller']}"

    @property
    def pid(self) -> int:
        return int(self.addresses["pid"])

    def start(self) -> None:
        """Start it and wait until clients may connect.

        Raises:
            DeadlineExceededError: it did not become ready; the message holds what it said last.
        """
        ready = self.directory / "ready.json"
        command = [sys.executable, "-m", "headrace.cli.main", "standalone"]
        command += ["--data-dir", str(self.directory / "data"), "--ready-file", str(ready)]
        for part in ("controller", "segmentstore", "rest"):
            command += [f"--{part}-port", "0"]
        with self.log_path.open("wb") as log:
            # A session of its own: Ctrl-C in the demo must not reach a server that is to be kept.
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                command, stdout=log, stderr=log, start_new_session=True
            )
        pause = threading.Event()
        for _ in range(int(_START_S / _POLL_S)):
            if ready.exists():
                self.addresses = json.loads(ready.read_text())
                return
            if self._process.poll() is not None:
                break
            pause.wait(_POLL_S)
        said = self.log_path.read_text(errors="replace")[-2000:]
        self.stop()
        raise DeadlineExceededError(f"the server did not start:\n{said}")

    def memory_bytes(self) -> int:
        """Return its resident memory, 0 where the system does not tell."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except OSError:
            return 0
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def stop(self) -> None:
        """Stop it. Idempotent."""
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def leave_running(self) -> None:
        """Forget the process: whoever asked for it stops it."""
        self._process = None

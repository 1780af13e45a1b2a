"""A real ``headrace standalone`` in a process of its own, for tests that kill it, fill its disk or talk to
it."""

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from pathlib import Path


class ServerDiedError(Exception):
    """The server ended before it was ready; carries what it said."""


class ServerProcess:
    """One server process at a time on one data directory. Ports are free ones, new at each start."""

    def __init__(self, directory, *arguments, environment=None, python=(), files_max=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.arguments = arguments
        self.environment = {**os.environ, **(environment or {})}
        self.python = python
        self.files_max = files_max
        """How many files the system lets the process open, (soft, hard); None: as many as this one."""
        self.process = None
        self.addresses = {}
        self.starts = 0
        self.log_path = self.directory / "server.log"

    def start(self, timeout_s=30.0, ports=True):
        """Start and wait until appends are accepted; return the addresses by part."""
        assert self.process is None or self.process.poll() is not None
        self.starts += 1
        ready_file = self.directory / f"ready-{self.starts}.json"
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    sys.executable,
                    *self.python,
                    "-m",
                    "headrace.cli.main",
                    "standalone",
                    "--data-dir",
                    str(self.directory / "data"),
                    *(
                        ["--controller-port", "0", "--segmentstore-port", "0", "--rest-port", "0"]
                        if ports
                        else []
                    ),
                    "--ready-file",
                    str(ready_file),
                    *self.arguments,
                ],
                stdout=log,
                stderr=log,
                env=self.environment,
                preexec_fn=None if self.files_max is None else self._limit_files,  # noqa: PLW1509
            )
        deadline = time.monotonic() + timeout_s
        while not ready_file.exists():
            if self.process.poll() is not None:
                raise ServerDiedError(f"exit {self.process.returncode}: {self.log()[-3000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerDiedError(f"not ready within {timeout_s} s: {self.log()[-3000:]}")
            select.select([], [], [], 0.01)  # nothing tells us about a new file on every platform
        self.addresses = json.loads(ready_file.read_text())
        assert self.addresses["pid"] == self.process.pid
        return self.addresses

    def _limit_files(self):
        resource.setrlimit(resource.RLIMIT_NOFILE, self.files_max)

    @property
    def uri(self):
        return f"tcp://{self.addresses['controller']}"

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def wait_for_log(self, text, timeout_s=60.0, after=0):
        """Wait until the server has said ``text``, behind the first ``after`` characters of its log."""
        deadline = time.monotonic() + timeout_s
        while text not in self.log()[after:]:
            assert time.monotonic() < deadline, f"{text!r} was not said: {self.log()[-3000:]}"
            select.select([], [], [], 0.05)  # nothing tells us about more text in a file

    def kill(self):
        """``kill -9``: no goodbye of any kind."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def stop(self, timeout_s=30.0):
        """Ask politely and return the exit code."""
        if self.process is None or self.process.poll() is not None:
            return None if self.process is None else self.process.returncode
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_s)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        if self.process is not None and self.process.poll() is None:
            self.kill()

"""A real server for tests, examples and programs: ``headrace standalone`` in a process of its own.

It is an asynchronous context manager as well; its other calls block, for ``asyncio.to_thread``.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from headrace.errors import HeadraceError

HEADRACE: Final = (sys.executable, "-m", "headrace.cli.main")
"""The program, before its verb."""
_TETHERED: Final = (sys.executable, "-m", "headrace.testing.tether")
"""The same, ending with its starter."""

_START_S: Final = 120.0
_STOP_S: Final = 60.0
_POLL_S: Final = 0.005
_SHOWN_CHARS: Final = 3_000


class ServerDiedError(HeadraceError):
    """The server ended before clients could connect, or was not ready in time; holds what it said last."""


class LocalServer:
    """One server process at a time on one directory.

    >>> with headrace.testing.LocalServer() as server, headrace.connect(server.uri) as client:
    ...     client.create_scope("mine")
    True

    Its ports are free ones, chosen at the first start, and stay the same when it is started again: clients
    that knew it find it. Its data are in ``data`` below the directory, what it says in ``server.log``.

    The end of the context kills it: what was acknowledged is durable, and a next start recovers. If no
    directory was given, the temporary one goes with it. The server ends with this program, even if that is
    killed; then the temporary directory stays.

    Its calls are for one thread at a time. ``stop`` and ``kill`` may come during a ``start``, which then
    raises.
    """

    popen: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen
    """What starts its process, with the arguments of ``subprocess.Popen``."""

    def __init__(
        self,
        directory: Path | str | None = None,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        users: Mapping[str, Sequence[str]] | None = None,
        command: Sequence[str] = HEADRACE,
        own_session: bool = False,
    ) -> None:
        """Start nothing yet.

        Args:
            directory: where data and log are; made if missing. None: a temporary one.
            arguments: further ones of ``headrace standalone``, such as ``"--containers", "2"``; of an option
                that is given twice the last one counts, so these overrule the ones from here.
            environment: added to that of this process.
            users: by name the password, then grants such as ``"prn::*,READ_UPDATE"``. None: every caller may
                do everything.
            command: what is run, before ``standalone``. Another one than the default may outlive this
                program.
            own_session: keep Ctrl-C in this program's terminal from the server.
        """
        self.arguments = arguments
        self.environment = dict(environment or {})
        self.addresses: dict[str, Any] = {}
        """What the server listens on, by part, and its ``pid``; from the last start that became ready."""
        self.starts = 0
        self.ready_s = 0.0
        """What the last start took, until clients could connect."""
        self._command = tuple(command)
        self._users = users
        self._own_session = own_session
        self._directory = None if directory is None else Path(directory)
        self._is_temporary = directory is None
        self._process: subprocess.Popen[bytes] | None = None

    # ------------------------------------------------------------------------------------- where it is

    @property
    def directory(self) -> Path:
        """Where data and log are."""
        if self._directory is None:
            self._directory = Path(tempfile.mkdtemp(prefix="headrace-"))
        return self._directory

    @property
    def log_path(self) -> Path:
        """The file with everything it said, over all starts."""
        return self.directory / "server.log"

    @property
    def users_path(self) -> Path:
        """The file of its users, if it has any."""
        return self.directory / "users"

    @property
    def uri(self) -> str:
        """Where clients connect, once it has been started."""
        return f"{'tls' if self.addresses.get('tls') else 'tcp'}://{self._address('controller')}"

    @property
    def rest_url(self) -> str:
        """The beginning of the URLs of REST, once it has been started."""
        return f"{'https' if self.addresses.get('tls') else 'http'}://{self._address('rest')}"

    def _address(self, part: str) -> str:
        if not self.addresses:
            raise HeadraceError("the server was not started: use it as a context, or call start()")
        return str(self.addresses[part])

    def __repr__(self) -> str:
        if self._process is None:
            return "<headrace.testing.LocalServer, not started>"
        state = "running" if self.is_running else f"ended with {self._process.returncode}"
        return (
            f"<headrace.testing.LocalServer {self.addresses.get('controller', 'without address')}, {state}>"
        )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process of the last start."""
        if self._process is None:
            raise HeadraceError("the server was not started")
        return self._process

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return everything it said, over all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    # ------------------------------------------------------------------------------------- life

    def start(self, timeout_s: float = _START_S) -> dict[str, Any]:
        """Start it and wait until clients can connect; return its addresses by part.

        Raises:
            ServerDiedError: it ended, or was not ready in time and was killed.
        """
        if self.is_running:
            raise HeadraceError("the server runs already")
        self.directory.mkdir(parents=True, exist_ok=True)
        self.starts += 1
        if self._users is not None and not self.users_path.exists():
            from headrace.testing.users_files import write_users_file

            write_users_file(self.users_path, self._users)
        ready = self.directory / f"ready-{self.starts}.json"
        ready.unlink(missing_ok=True)  # of another instance on this directory
        began = time.monotonic()
        tethered = self._command == HEADRACE
        command = _TETHERED if tethered else self._command
        with self.log_path.open("ab") as log:
            process = self._process = self.popen(
                [*command, *self._words(ready), *self.arguments],
                stdin=subprocess.PIPE if tethered else None,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
                start_new_session=self._own_session,
            )
        pause = threading.Event()
        while not ready.exists():
            if process.poll() is not None:
                self._drop_tether()
                raise ServerDiedError(f"exit {process.returncode}: {self.log()[-_SHOWN_CHARS:]}")
            if time.monotonic() - began > timeout_s:
                self.kill()
                raise ServerDiedError(f"not ready within {timeout_s:g} s: {self.log()[-_SHOWN_CHARS:]}")
            pause.wait(_POLL_S)  # nothing announces a new file on every platform
        self.ready_s = time.monotonic() - began
        self.addresses = json.loads(ready.read_text())
        return self.addresses

    def kill(self) -> None:
        """End it as ``kill -9`` does, and wait until it is gone. Idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._drop_tether()

    def stop(self, timeout_s: float = _STOP_S) -> int | None:
        """Ask it to end, with SIGTERM, and return its exit code; None if it was never started. Idempotent.

        Raises:
            subprocess.TimeoutExpired: it goes on.
        """
        if self._process is None:
            return None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(timeout_s)
        self._drop_tether()
        return code

    def _drop_tether(self, *, release: bool = False) -> None:
        """Close the pipe; a running server ends with it unless it is released."""
        tether = None if self._process is None else self._process.stdin
        if tether is not None and not tether.closed:
            with contextlib.suppress(BrokenPipeError):
                if release:
                    tether.write(b"\n")
                tether.close()

    def restart(self) -> dict[str, Any]:
        """Kill it and start it again, on the same ports."""
        self.kill()
        return self.start()

    def leave_running(self) -> None:
        """Forget the process, whose pid is in ``addresses``, and keep its directory."""
        self._drop_tether(release=True)
        self._process = None
        self._is_temporary = False

    def close(self) -> None:
        """Kill it, and remove a temporary directory. Idempotent."""
        self.kill()
        if self._is_temporary and self._directory is not None:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        import asyncio

        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def _words(self, ready: Path) -> list[str]:
        options = ["standalone", "--data-dir", str(self.directory / "data"), "--ready-file", str(ready)]
        for part in ("controller", "segmentstore", "rest"):
            options += [f"--{part}-port", self.addresses.get(part, ":0").rpartition(":")[2]]
        if self._users is not None:
            options += ["--users", str(self.users_path)]
        return options

    # ------------------------------------------------------------------------------------- what it does

    def wait_for_log(self, text: str, timeout_s: float = 120.0, after: int = 0) -> None:
        """Wait until it has said ``text``, behind the first ``after`` characters of its log.

        Raises:
            TimeoutError: it has not.
        """
        deadline = time.monotonic() + timeout_s
        pause = threading.Event()
        while text not in self.log()[after:]:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{text!r} was not said: {self.log()[-_SHOWN_CHARS:]}")
            pause.wait(_POLL_S)  # nothing announces more text in a file

    def memory_bytes(self, *, peak: bool = False) -> int:
        """Return its resident memory, now or at its peak; 0 where the system has no ``/proc``."""
        return memory_of(self.addresses["pid"], peak=peak)


def memory_of(pid: int, *, peak: bool = False) -> int:
    """Return the resident memory of a process in bytes; 0 if it is gone, or the system has no ``/proc``."""
    name = "VmHWM" if peak else "VmRSS"
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(name)), 0)

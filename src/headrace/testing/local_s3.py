"""A real S3 server for examples and the demo: versitygw in a process of its own, on loopback.

>>> with LocalS3() as store, LocalServer(None, "--storage", store.uri(), environment=store.environment):
...     ...

It is not installed with this package: :func:`find_program` says where it is looked for.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Final, Self

from headrace.errors import HeadraceError, UnsupportedError

INSTALL: Final = "go install github.com/versity/versitygw/cmd/versitygw@v1.8.0"

_BUCKET: Final = "bucket"
_KEY, _SECRET = "local", "local-secret"
_START_S: Final = 60.0
_POLL_S: Final = 0.01


def find_program() -> str:
    """Return the path of versitygw: in ``~/.cache/headrace``, on the path, or where Go installs.

    Raises:
        UnsupportedError: it is nowhere; the text says how to get it.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    places = (cache / "headrace", Path(os.environ.get("GOPATH") or Path.home() / "go") / "bin")
    search = os.pathsep.join([str(places[0]), os.environ.get("PATH", os.defpath), str(places[1])])
    found = shutil.which("versitygw", path=search)
    if found is None:
        raise UnsupportedError(f"versitygw, an S3 server, is not installed: {INSTALL}")
    return found


class LocalS3:
    """One server with one bucket; its objects are files in ``objects`` below the directory.

    The end of the context ends it; a temporary directory goes with it, if no other was given.
    """

    def __init__(self, directory: Path | str | None = None, *, own_session: bool = False) -> None:
        """Start nothing yet. ``own_session`` keeps Ctrl-C in this program's terminal from it."""
        self._is_temporary = directory is None
        self._directory = Path(directory or tempfile.mkdtemp(prefix="headrace-s3-"))
        self._own_session = own_session
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def environment(self) -> dict[str, str]:
        """The credentials, for the environment of a server."""
        return {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": "us-east-1"}

    def uri(self, prefix: str = "") -> str:
        """Return the URI of a prefix of the bucket, for ``--storage``."""
        where = f"{_BUCKET}/{prefix}".rstrip("/")
        return f"s3://{where}?endpoint=http://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Start it and wait until it listens.

        Raises:
            UnsupportedError: it is not installed.
            HeadraceError: it ended, or does not listen.
        """
        program = find_program()
        objects = self._directory / "objects"
        (objects / _BUCKET).mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        with (self._directory / "s3.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the program was looked up
                [program, "--port", f"127.0.0.1:{self._port}", "--quiet", "posix", str(objects)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET},
                start_new_session=self._own_session,
            )
        deadline = time.monotonic() + _START_S
        pause = threading.Event()
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), 1.0).close()
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.close()
                    raise HeadraceError(f"{program} does not listen: see {self._directory}/s3.log") from None
                pause.wait(_POLL_S)
            else:
                return

    def leave_running(self) -> int:
        """Forget the process, and keep its directory; return its id."""
        assert self._process is not None
        process, self._process, self._is_temporary = self._process, None, False
        return process.pid

    def close(self) -> None:
        """End it, and remove a temporary directory. Idempotent."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None
        if self._is_temporary:
            shutil.rmtree(self._directory, ignore_errors=True)

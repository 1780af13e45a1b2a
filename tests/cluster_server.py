"""A cluster of processes with the face of a ``LocalServer``, as far as tests of clients use it."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time

from headrace.testing.users_files import write_users_file

_TETHERED = (sys.executable, "-m", "headrace.testing.tether")
_STORES, _CONTROLLERS = 3, 2
_START_S, _STOP_S = 180, 120
_POLL_S = 0.02


class ClusterServer:
    """``headrace cluster local``: three stores, two controllers and their ZooKeeper, on one directory.

    The end of the context kills all of them. A setting of ``environment`` reaches the processes that have it.
    """

    def __init__(self, directory, *, environment=None, users=None):
        self.directory = directory
        self.environment = dict(environment or {})
        self.addresses = {}
        """What the ready file of the cluster says."""
        self._users = users
        self._process = None

    @property
    def users_path(self):
        return self.directory / "users"

    @property
    def uri(self):
        """Of all controllers."""
        return f"{'tls' if self.addresses['tls'] else 'tcp'}://{','.join(self.addresses['controllers'])}"

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        """Start all of it and wait until clients can connect."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if self._users is not None and not self.users_path.exists():
            write_users_file(self.users_path, self._users)
            key = self.directory / "token.key"
            key.write_text(secrets.token_hex(64))
            self.environment["HEADRACE_AUTH__USERS"] = str(self.users_path)
            self.environment["HEADRACE_AUTH__TOKEN_KEY"] = str(key)
        ready = self.directory / "ready.json"
        with (self.directory / "cluster.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(*_TETHERED, "cluster", "local", "--ready-file", str(ready)),
                    *("--data-dir", str(self.directory / "data")),
                    *("--stores", str(_STORES), "--controllers", str(_CONTROLLERS)),
                ],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environment},
            )
        deadline = time.monotonic() + _START_S
        while not ready.exists():
            assert self._process.poll() is None, self.log()[-3000:]
            assert time.monotonic() < deadline, self.log()[-3000:]
            time.sleep(_POLL_S)  # nothing announces a file
        self.addresses = json.loads(ready.read_text())

    def log(self):
        """Return what all processes have said."""
        logs = [self.directory / "cluster.log", *sorted((self.directory / "data" / "run").glob("*.log"))]
        return "".join(each.read_text(errors="replace") for each in logs if each.stem != "zookeeper")

    def stop(self):
        """End all of it in order; return the exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(_STOP_S)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process.stdin.close()

"""The program in processes of its own, as ``subprocess`` starts them, and at a tenth of the CPU.

What ``python -m headrace.cli.main``, ``python -c PROGRAM`` or ``python FILE.py`` would be is forked from a
process that has imported everything (``tests/fork_server.py``), one for each process of pytest. It is a child
of the tests like any other: killed, stopped and waited for by its pid, and what it uses is theirs. Whatever
could differ is executed: another program, limits, another locale, other variables of the interpreter,
another platform than Linux.
"""

import ctypes
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path

from tests import fork_server

_PR_SET_CHILD_SUBREAPER = 36

_READ_AT_START = ("PYTHON", "GRPC_", "LANG", "LC_", "LD_", "MALLOC_", "OPENSSL_", "SSL_", "TZ")
"""Beginnings of variables that are read before the program begins, or while it is imported."""

_QUIET = {"GRPC_VERBOSITY": "NONE"}
"""What clients and servers tell gRPC if nobody else has; so does a command in the process of the tests."""

_SIGNATURE = inspect.signature(subprocess.Popen._execute_child)
_ENDS = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
_EXECUTED = ("executable", "preexec_fn", "pass_fds", "shell", "gid", "gids", "uid")
"""Options with which a process is not forked."""


class Popen(subprocess.Popen):
    """Forked if it can be, in all else that of the library: there is no public way to start its process."""

    def _execute_child(self, *given):
        options = _SIGNATURE.bind(self, *given).arguments
        wanted = _wanted(options)
        if wanted is None:
            super()._execute_child(*given)
            return
        ends = {name: options[name] for name in _ENDS}
        of_child = (ends["p2cread"], ends["c2pwrite"], ends["errwrite"])
        self.pid = _fork_server().fork(wanted, [n if end == -1 else end for n, end in enumerate(of_child)])
        self._child_created = True
        self._close_pipe_fds(**ends)


def run(arguments, *, input=None, capture_output=False, timeout=None, check=False, **options):  # noqa: A002
    """``subprocess.run``."""
    if input is not None:
        options["stdin"] = subprocess.PIPE
    if capture_output:
        options["stdout"] = options["stderr"] = subprocess.PIPE
    with Popen(arguments, **options) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(arguments, process.returncode, out, err)
    if check:
        done.check_returncode()
    return done


def used_s():
    """Return the CPU seconds of the process that forks: no test waits for it."""
    return _fork_server().used_s() if _fork_server.cache_info().currsize else 0.0


class _ForkServer:
    """Ends with this process."""

    def __init__(self):
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._read_at_start = _read_at_start(os.environ)
        self._used_s = None  # unknown since the last child
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())],
                cwd=Path(__file__).parents[1],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def can_have(self, environment):
        return self._owner == os.getpid() and self._read_at_start == _read_at_start(environment)

    def fork(self, wanted, descriptors):
        """Return the pid of a new child of this process."""
        with self._lock:
            _want_orphans(True)
            try:
                socket.send_fds(self._control, [json.dumps(wanted).encode()], descriptors)
                pid = self._control.recv(32)
                adopted = pid and self._control.recv(32)
            finally:
                self._used_s = None
                _want_orphans(False)
        assert adopted, f"the process that forks has ended with {self._process.poll()}"
        return int(pid)

    def used_s(self):
        """Return what it has used up to its last child: between children it waits."""
        if self._used_s is None:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
            self._used_s = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
        return self._used_s


_fork_server = cache(_ForkServer)


def _wanted(options):
    """Return what shall be forked; None for what has to be executed."""
    arguments, environment = options["args"], options["env"]
    if sys.platform != "linux" or isinstance(arguments, (str, bytes, os.PathLike)):
        return None
    python, *words = map(os.fsdecode, arguments)
    if python != sys.executable or not fork_server.can_run(words):
        return None
    if any(options[name] for name in _EXECUTED) or options["umask"] != -1 or options["process_group"] != -1:
        return None
    environment = dict(os.environ if environment is None else environment)
    if not _fork_server().can_have(environment):
        return None
    wanted = {
        "words": words,
        "environment": {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
        "directory": os.path.abspath(options["cwd"] or "."),  # noqa: PTH100 - a link stays one
        "new_session": bool(options["start_new_session"]),
    }
    return wanted if len(json.dumps(wanted)) <= fork_server.MESSAGE_BYTES_MAX else None


def _read_at_start(environment):
    environment = {**_QUIET, **environment}
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


def _want_orphans(wanted):
    """Have this process, rather than the first of the system, be the parent of orphans below it."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot be the parent of orphans")

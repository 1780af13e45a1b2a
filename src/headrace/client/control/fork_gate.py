"""Keeps gRPC out of forks: while a process forks, none of its threads is inside gRPC, and gRPC has none.

A child inherits gRPC's memory without its threads: locks that they held stay locked, and a channel waits for
threads that do not exist. So a fork waits a moment for calls in flight, closes all channels, whereupon gRPC
ends its threads, and holds new calls until it is over. Then parent and child both begin anew.
"""

from __future__ import annotations

import threading
import time  # noqa: TID251 - no loop may run while a process forks
import weakref
from pathlib import Path
from typing import Any, Final, Protocol

from headrace.client.forks import at_fork
from headrace.errors import UnsupportedError

_CALLS_S: Final = 0.5
"""How long a fork waits for calls in flight; later ones are cut off, and made again."""

_ENTER_S: Final = 5.0
"""For a thread that begins a call, which takes microseconds."""

_THREADS_S: Final = 3.0
"""For the threads of gRPC to end. They take a millisecond or two, and longer on a loaded machine."""

_THREADS_AGAIN_S: Final = 0.1
"""The same once they did not end: then they have another user in this process."""

_POLL_S: Final = 0.0005

_SETTLE_S: Final = 0.02
"""Where a system does not tell which threads there are: the last of 11,000 closed channels took a quarter."""

_TASKS: Final = Path("/proc/self/task")
_THREAD_NAMES: Final = (
    "grpc",
    "event_engine",
    "lifeguard",
    "default-execut",
    "resolver-execut",
    "timer_manager",
)
"""How threads of gRPC call themselves, as far as Linux stores it."""


class Closable(Protocol):
    """A channel."""

    def cut(self) -> None:
        """Close it, from any thread: calls in flight fail."""


class ForkGate:
    """One per process. Whatever uses gRPC does so inside ``lock``, or as a call in ``calls``."""

    def __init__(self) -> None:
        self._refuses = False
        self._is_registered = False
        self._begin()

    def _begin(self) -> None:
        self.lock = threading.RLock()
        self.channels: weakref.WeakSet[Closable] = weakref.WeakSet()
        self.calls: set[Any] = set()
        """In flight, until gRPC has notified their end."""
        self._is_held = False
        self._is_clean = True
        self._patience_s = _THREADS_S

    def check(self) -> None:
        """Raise UnsupportedError where gRPC would hang or crash."""
        if self._refuses:
            raise UnsupportedError(
                "this process was forked while its parent used gRPC, which does not survive that: start it "
                "with the method spawn or forkserver, or fork before gRPC is used"
            )

    def on_channel(self, channel: Closable) -> None:
        """Remember a channel that has been opened."""
        self.channels.add(channel)
        if not self._is_registered:
            # gRPC registers functions of its own with its first channel, if its experiments with forks are
            # switched on: they pause the threads that end calls. What is registered last is called first.
            self._is_registered = True
            at_fork(before=self.leave_grpc)

    def leave_grpc(self) -> None:
        """Called in the parent, on the thread that forks: end the use of gRPC, and hold the next one."""
        self._is_held = self.lock.acquire(timeout=_ENTER_S)
        if self._is_held:
            _wait_until_empty(self.calls, _CALLS_S)
            for channel in list(self.channels):
                channel.cut()

    def look(self) -> None:
        """Called in the parent right before the fork: wait until gRPC has no threads."""
        may_fork = self._is_held or not self.channels
        self._is_clean = may_fork and self._wait_for_threads()
        if not self._is_clean:
            self._patience_s = _THREADS_AGAIN_S

    def in_parent(self) -> None:
        """Called in the parent after the fork."""
        if self._is_held:
            self._is_held = False
            self.lock.release()

    def in_child(self) -> None:
        """Called in the child: a lock that is held, and calls that do not end here, are the parent's."""
        self._refuses = self._refuses or not self._is_clean
        self._begin()

    def _wait_for_threads(self) -> bool:
        """Tell whether gRPC has ended its threads."""
        if not _TASKS.exists():
            time.sleep(_SETTLE_S)
            return True
        deadline = time.monotonic() + self._patience_s
        was_clean = False
        while True:
            is_clean = not any(_is_of_grpc(task) for task in _TASKS.iterdir())
            if is_clean and was_clean:  # the last one had ended its work before the first look
                return True
            was_clean = is_clean
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)


def _is_of_grpc(task: Path) -> bool:
    try:
        return (task / "comm").read_text().startswith(_THREAD_NAMES)
    except OSError:  # it has ended
        return False


def _wait_until_empty(calls: set[Any], timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while calls and time.monotonic() < deadline:
        time.sleep(_POLL_S)


GATE: Final = ForkGate()

at_fork(before=GATE.look, in_parent=GATE.in_parent, in_child=GATE.in_child)

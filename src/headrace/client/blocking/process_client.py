"""A loop's thread and a client on it, one of each per process: across threads, pickles and forks."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self

from headrace.client.block_exit import beside
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.waits import OnLoop
from headrace.client.config import ClientConfig
from headrace.client.connect import Client, connect
from headrace.errors import ClosedError, HeadraceError

_FORK_TIMEOUT_S: Final = 2.0

_abandoned: Final[list[object]] = []
"""What a forked child inherited and must neither use nor destroy: the parent's sockets and channels
depend on it.
"""


_clients: Final[weakref.WeakSet[ProcessClient]] = weakref.WeakSet()


def _prepare_fork() -> None:
    """Close every control channel: a child that inherits the threads' locks of an open one would wait for
    ever.
    """
    for client in list(_clients):
        client.prepare_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare_fork)


class ProcessClient(OnLoop[Client]):
    """One connection to the system, for any number of threads. Picklable; connects again after a fork."""

    def __init__(self, uri: str, config: ClientConfig) -> None:
        self.uri = uri
        self.config = config
        self._lock = threading.Lock()
        self._running: tuple[int, LoopThread, Client] | None = None
        self._closed = False
        _clients.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not connected yet" if self._running is None else "open"
        return f"<headrace.Client of {self.uri}, {state}>"

    def prepare_fork(self) -> None:
        """Called in the parent right before a fork, on the thread that forks."""
        running = self._running
        if running is None or running[0] != os.getpid():
            return
        with contextlib.suppress(HeadraceError, TimeoutError):
            running[1].run(running[2].prepare_fork(), _FORK_TIMEOUT_S)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ClientConfig]]:
        return type(self), (self.uri, self.config)

    def _start(self) -> tuple[LoopThread, Client]:
        """Return the loop's thread and its client, both of this process."""
        running = self._running
        if running is not None and running[0] == os.getpid() and not self._closed:
            return running[1], running[2]
        with self._lock:
            running = self._running
            if self._closed:
                raise ClosedError("the client is closed")
            if running is None or running[0] != os.getpid():
                if running is not None:
                    _abandoned.append(running)
                thread = LoopThread(self.config.loop)
                try:
                    client = thread.call(lambda: connect(self.uri, self.config))
                except BaseException:
                    thread.stop()
                    raise
                running = self._running = (os.getpid(), thread, client)
        return running[1], running[2]

    def close(self) -> None:
        """Close every writer that is still open, then drop connections and end the thread. Idempotent.

        Writers make durable what they took, and changes of tables that are in flight are waited for, up to
        ``close_timeout_s`` of the configuration. Open transactions are aborted. A call that was interrupted
        may be repeated: it waits for the rest.

        Raises:
            NotDurableError: it says of which stream how much is not durable; the client is closed even then.
        """
        with self._lock:
            self._closed = True
            running = self._running
        if running is None or running[0] != os.getpid():
            return
        thread, client = running[1:]
        try:
            with contextlib.suppress(ClosedError):  # another thread has closed it
                thread.run(client.close())
        except HeadraceError:
            self._leave(thread)
            raise
        self._leave(thread)

    def _leave(self, thread: LoopThread) -> None:
        self._running = None
        thread.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with beside(error):
            self.close()

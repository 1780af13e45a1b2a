"""A loop's thread and a client on it, one of each per process: across threads, pickles and forks."""

from __future__ import annotations

import contextlib
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
from headrace.client.forks import at_fork
from headrace.errors import ClosedError, HeadraceError

_clients: Final[weakref.WeakSet[ProcessClient]] = weakref.WeakSet()


def _after_in_child() -> None:
    for client in list(_clients):
        client._after_fork()  # noqa: SLF001 - our own class


at_fork(in_child=_after_in_child)


class ProcessClient(OnLoop[Client]):
    """One connection to the system, for any number of threads. Picklable; connects again after a fork."""

    def __init__(self, uri: str, config: ClientConfig) -> None:
        self.uri = uri
        self.config = config
        self._lock = threading.Lock()
        self._running: tuple[LoopThread, Client] | None = None
        self._closed = False
        _clients.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "not connected yet" if self._running is None else "open"
        return f"<headrace.Client of {self.uri}, {state}>"

    def _after_fork(self) -> None:
        """In the child: what runs is the parent's, and so is a thread that holds the lock."""
        self._lock = threading.Lock()
        self._running = None

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, ClientConfig]]:
        return type(self), (self.uri, self.config)

    def _start(self) -> tuple[LoopThread, Client]:
        """Return the loop's thread and its client, both of this process."""
        running = self._running
        if running is not None and not self._closed:
            return running
        with self._lock:
            if self._closed:
                raise ClosedError("the client is closed")
            if self._running is None:
                thread = LoopThread(self.config.loop)
                try:
                    client = thread.call(lambda: connect(self.uri, self.config))
                except BaseException:
                    thread.stop()
                    raise
                self._running = thread, client
            return self._running

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
        if running is None:
            return
        thread, client = running
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

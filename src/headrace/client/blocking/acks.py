"""What a writer for threads returns for events: it becomes durable, or fails with an error."""

from __future__ import annotations

import threading

from headrace.client.forks import OfOneProcess
from headrace.errors import DeadlineExceededError


class AckCondition(OfOneProcess, threading.Condition):
    """What the acknowledgements of one writer wait for."""

    def __init__(self, lock: threading.Lock, writer: object) -> None:
        super().__init__(lock)
        self._writer = writer

    def __repr__(self) -> str:
        return repr(self._writer)


class Ack:
    """Done when everything it stands for is durable: the events of one batch, or of one call."""

    __slots__ = ("_condition", "_done", "_error", "event_count", "events", "is_told", "keys", "size_bytes")

    def __init__(self, condition: AckCondition) -> None:
        self._condition = condition
        self._done = False
        self._error: BaseException | None = None
        self.events: list[bytes] = []
        self.keys: list[str | None] = []
        self.event_count = 0
        """How many it stands for; of single events it is known once they are handed over."""
        self.is_told = False
        """A caller was given the error, if there is one."""
        self.size_bytes = 0

    def done(self) -> bool:
        """Tell whether it is settled, either way.

        Raises:
            OpenedBeforeForkError: it was not when this process was forked, and will not be here.
        """
        if not self._done:
            self._condition._check_process()  # noqa: SLF001 - of our own
        return self._done

    def wait(self, timeout_s: float | None = None) -> None:
        """Wait until everything is durable.

        Raises:
            DeadlineExceededError: it is not yet.
            HeadraceError: why it is not and will not be.
        """
        if not self._done:
            with self._condition:
                if not self._condition.wait_for(self.done, timeout_s):
                    raise DeadlineExceededError(f"not durable after {timeout_s} s")
        if self._error is not None:
            self.is_told = True
            raise self._error

    def __repr__(self) -> str:
        state = (
            "not durable yet" if not self._done else f"failed: {self._error}" if self._error else "durable"
        )
        return f"<headrace.Ack: {state}>"

    def settle(self, error: BaseException | None) -> None:
        """For the writer, which holds the condition."""
        self._error = error
        self._done = True

"""Writes log lines to a descriptor on a thread of its own: who takes them may stand still, nobody else does.

A stopped terminal, a pager, a pipe whose reader hangs, a disk that does: a write waits for them for ever, and
the loop with it. So lines wait here, a bounded number of bytes. Further ones are lost, and how many is said
in their place once there is room.
"""

from __future__ import annotations

import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

from headrace.limits import MIB

BYTES_MAX: Final = 1 * MIB


class LogLines:
    """Lines on their way. Used by any thread; ``tell_lost`` makes the line that says how many are missing."""

    def __init__(
        self, descriptor: int, tell_lost: Callable[[int], bytes], bytes_max: int = BYTES_MAX
    ) -> None:
        self._descriptor = descriptor
        self._tell_lost = tell_lost
        self._bytes_max = bytes_max
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Of those that wait, and of those that are being written."""
        self._lost = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> None:
        """Take a line, or lose it; one always fits. Never waits for the descriptor."""
        with self._changed:
            if self._bytes and self._bytes + len(line) > self._bytes_max:
                self._lost += 1
                return
            self._note_lost()
            self._add(line)
            if self._thread is None:
                # Nobody waits for its end: it may be in a write that has none.
                thread = threading.Thread(target=self._run, name="log", daemon=True)
                thread.start()
                self._thread = thread

    def flush(self, timeout_s: float) -> bool:
        """Wait until all lines are written; False if they are not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not (self._bytes or self._lost), timeout_s)

    def close(self) -> None:
        """End the thread once all lines are written, without waiting for that."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        self._changed.notify_all()

    def _note_lost(self) -> None:
        lost, self._lost = self._lost, 0
        if lost:
            self._add(self._tell_lost(lost))

    def _run(self) -> None:
        while batch := self._take():
            self._write(batch)
            with self._changed:
                self._bytes -= len(batch)
                self._changed.notify_all()

    def _take(self) -> bytes:
        """Wait for lines and return them; nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._lines or self._lost or self._closed)
            if not self._lines:
                self._note_lost()
            batch = b"".join(self._lines)
            self._lines.clear()
            return batch

    def _write(self, batch: bytes) -> None:
        left = memoryview(batch)
        try:
            while left:
                try:
                    left = left[os.write(self._descriptor, left) :]
                except BlockingIOError:  # whoever gave it to us wants it so
                    select.select((), (self._descriptor,), ())
        except OSError:
            return  # nobody takes them, or nothing has room: a log has no other place to say so

"""Writes log lines to a descriptor on a thread of its own: a stalled reader does not stall the process.

A write to a stopped terminal, a pager, or a pipe or disk that is stalled waits for ever, and the loop would
with it. So lines wait here, a bounded number of bytes. Further ones are lost; a line in their place says how
many, once it fits.
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
    """A bounded queue of lines, used by any thread. ``format_lost`` formats the number of lost lines."""

    def __init__(
        self, descriptor: int, format_lost: Callable[[int], bytes], bytes_max: int = BYTES_MAX
    ) -> None:
        self._descriptor = descriptor
        self._format_lost = format_lost
        self._bytes_max = bytes_max
        self._changed = threading.Condition()
        self._lines: deque[bytes] = deque()
        self._bytes = 0
        """Of lines that wait or are being written."""
        self._lost = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    def put(self, line: bytes) -> None:
        """Queue a line, or drop it if the queue is full; one always fits. Never waits for the descriptor."""
        with self._changed:
            if self._bytes and self._bytes + len(line) > self._bytes_max:
                self._lost += 1
                return
            self._note_lost()
            self._add(line)
            if self._thread is None:
                # Not joined: it may be in a write that never ends.
                thread = threading.Thread(target=self._run, name="log", daemon=True)
                thread.start()
                self._thread = thread

    def flush(self, timeout_s: float) -> bool:
        """Wait until all lines are written; return False after ``timeout_s``."""
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
            self._add(self._format_lost(lost))

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
                except BlockingIOError:  # the descriptor was opened non-blocking
                    select.select((), (self._descriptor,), ())
        except OSError:
            return  # the reader is gone, or the disk is full: there is no other place to report it

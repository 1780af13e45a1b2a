"""One buffer of the append path: page-aligned memory with space for the log's header, so that what a
connection parsed is written to disk without another copy.

::

    0              64                       64 + capacity      multiple of 4096
    | log's header | content: ``view`` ...  | padding          |
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.wal.record_format import RECORD_HEADER_BYTES

Done = Callable[["Frame", Exception | None], None]


class Frame:
    """One buffer and, while it is in flight, the callback that its log owes an answer.

    ``view``, ``length`` and ``address`` are the caller's (see ``WalFrame``); the rest belongs to the log,
    which has types of its own for what else it needs to know.
    """

    __slots__ = ("address", "buffer", "done", "length", "lent", "started_at", "view")

    def __init__(self, buffer: memoryview, capacity: int) -> None:
        self.buffer = buffer
        self.view = buffer[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + capacity]
        self.length = 0
        self.address = 0
        self.lent = False
        self.reset()

    def reset(self) -> None:
        """Forget the last write."""
        self.done: Done | None = None
        self.started_at = 0.0

"""One buffer of the append path: page-aligned memory with room for the log's header, so that what a
connection parsed is written to disk without another copy.

::

    0              64                       64 + capacity      multiple of 4096
    | log's header | content: ``view`` ...  | padding          |
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.wal.record_format import RECORD_HEADER_BYTES

if TYPE_CHECKING:
    from headrace.wal.file.segment_files import SegmentFile

Done = Callable[["Frame", Exception | None], None]


class Frame:
    """One buffer and, while it is in the air, what the log knows about it.

    ``view``, ``length`` and ``address`` are the caller's (see ``WalFrame``); the rest belongs to the log.
    """

    __slots__ = (
        "address",
        "buffer",
        "done",
        "error",
        "file",
        "finished",
        "handed_at",
        "length",
        "lent",
        "offset",
        "padded",
        "started_at",
        "starved",
        "view",
    )

    def __init__(self, buffer: memoryview, capacity: int) -> None:
        self.buffer = buffer
        self.view = buffer[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + capacity]
        self.length = 0
        self.address = 0
        self.lent = False
        self.reset()

    def reset(self) -> None:
        """Forget the last flight."""
        self.done: Done | None = None
        self.error: Exception | None = None
        self.file: SegmentFile | None = None
        self.offset = 0
        self.padded = 0
        self.finished = False
        self.starved = False
        self.started_at = 0.0
        self.handed_at = 0.0

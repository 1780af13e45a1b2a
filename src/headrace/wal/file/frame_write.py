"""A frame that is being written to a file: where it goes, and how that ended."""

from __future__ import annotations

from headrace.wal.file.segment_file import SegmentFile
from headrace.wal.frame import Frame
from headrace.wal.record_format import padded_bytes


class FrameWrite:
    """What the file log knows of a frame in flight. ``padded`` is the space that it takes on disk.

    ``file`` and ``offset`` say where it goes, once it is placed. Of frames that are written together the
    first has the outcome: ``handed_at``, ``error``, ``starved``.
    """

    __slots__ = ("error", "file", "finished", "frame", "handed_at", "offset", "padded", "starved")

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.padded = padded_bytes(frame.length)
        self.file: SegmentFile | None = None
        self.offset = 0
        self.finished = False
        self.handed_at = 0.0
        self.error: Exception | None = None
        self.starved = False

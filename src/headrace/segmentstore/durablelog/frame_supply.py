"""Whether there are frames for a block or a request now, and whether their turn belongs to somebody else.

Source: ``docs/flows/append.md``, "Turns".
"""

from __future__ import annotations

from headrace.errors import EventTooLargeError
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder
from headrace.segmentstore.durablelog.frame_dispatch import FrameDispatch
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER
from headrace.segmentstore.durablelog.kept_frames import KeptFrames
from headrace.segmentstore.durablelog.waiting_blocks import WaitingBlocks
from headrace.wal.contract import Wal


class FrameSupply:
    """The frames of one log. ``size_bytes`` is without the header of an entry, unless said otherwise."""

    __slots__ = ("_blocks", "_builder", "_dispatch", "_kept", "_wal")

    def __init__(
        self,
        wal: Wal,
        builder: FrameBuilder,
        dispatch: FrameDispatch,
        kept: KeptFrames,
        blocks: WaitingBlocks,
    ) -> None:
        self._wal = wal
        self._builder = builder
        self._dispatch = dispatch
        self._kept = kept
        self._blocks = blocks

    def suffices(self, size_bytes: int) -> bool:
        """Whether an operation finds frames, whoever waits; True also if there will never be enough."""
        if self._fits_open(size_bytes):
            return True
        free = self._wal.frames_free
        needed = self._needed(size_bytes)
        return free >= needed or needed > free + self._dispatch.frames_held

    def _fits_open(self, size_bytes: int) -> bool:
        current = self._builder.current
        return current is not None and current.used + ENTRY_HEADER.size + size_bytes <= current.capacity

    def _needed(self, size_bytes: int) -> int:
        large = size_bytes >= self._builder.content_bytes_max
        return self._builder.frames_needed(size_bytes) if large else 1

    def check_fits(self, size_bytes: int) -> None:
        """Raise EventTooLargeError if not even all frames of the log could hold ``size_bytes``."""
        if size_bytes >= self._builder.content_bytes_max:
            frames = self._wal.frames_free + self._dispatch.frames_held
            if self._builder.frames_needed(size_bytes) > frames:
                raise EventTooLargeError(size_bytes, frames * self._builder.content_bytes_max)

    # -------------------------------------------------------------------------------------- turns

    def suffices_for_block(self, size_in_frame: int) -> bool:
        """As :meth:`suffices`, of a block that does not fit the open frame, with its headers. Others leave
        frames alone for a large one from its refusal on.
        """
        if size_in_frame < self._builder.content_bytes_max:
            return self._wal.frames_free > 0 and self._kept.leaves(1, is_request=False)
        free, needed = self._wal.frames_free, self._builder.frames_needed(size_in_frame)
        if needed > free + self._dispatch.frames_held:
            return True
        if free >= needed and self._kept.let_in(needed):
            return True
        self._kept.keep(needed)
        return False

    def passes_requests(self, size_in_frame: int) -> bool:
        """Whether a block may go in front of the requests that wait: some wait for it, if it is large."""
        return self._blocks.have_turn or (
            size_in_frame >= self._builder.content_bytes_max
            and self._kept.are_wanted(self._builder.frames_needed(size_in_frame))
        )

    def leaves_blocks(self, size_bytes: int) -> bool:
        """Whether a request that may be delayed takes no frame whose turn belongs to a block."""
        return self._fits_open(size_bytes) or (
            not self._blocks.have_turn and self._kept.leaves(self._needed(size_bytes), is_request=True)
        )

"""An event that is too large for an append, in its place among the blocks of a segment. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.client.framing.event_frames import large_header
from headrace.client.writer.inflight_window import Block

if TYPE_CHECKING:  # they read files, and wait
    from headrace.client.writer.ack import Ack
    from headrace.client.writer.large_source import LargeSource

Progress = Callable[[int, int], None]
"""Called with how many bytes are stored, and how many there are."""


class LargeEvent:
    """What a caller wants written, until it is durable or given up."""

    __slots__ = ("is_cancelled", "progress", "source")

    def __init__(self, source: LargeSource, progress: Progress | None = None) -> None:
        self.source = source
        self.progress = progress
        self.is_cancelled = False
        """Nobody wants it any more: it is left out, unless it is being merged."""

    def __len__(self) -> int:
        return len(self.source)


class LargeBlock(Block):
    """One large event. Its bytes come from a source."""

    __slots__ = ("event",)
    is_large = True

    def __init__(self, event: LargeEvent, places: Any, acks: Sequence[Ack]) -> None:
        header = large_header(len(event))
        pieces: list[Any] = [header, event]
        super().__init__(pieces, len(header) + len(event), 1, places, list(acks))
        self.event = event

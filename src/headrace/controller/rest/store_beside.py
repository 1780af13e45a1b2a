"""What the REST interface shows and asks of the segment store, if one runs in the controller's process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.web.process_parts import ProcessPart


class StoreBeside(ProcessPart, Protocol):
    """The segment store beside the controller. Asked on its loop."""

    def statistics(self) -> dict[str, object]:
        """What every part counts and holds, by part; ``containers`` by their numbers."""

    async def purge(self, segments: Sequence[str]) -> None:
        """Make unreadable what was truncated of these segments, and what was deleted of any."""

    def optimisers(self) -> dict[str, object]:
        """The state and progress of the storage optimisers, as a JSON object."""

    def pause_optimisers(self, *, paused: bool) -> None:
        """Pause the storage optimisers of all containers after their current step, or resume them."""

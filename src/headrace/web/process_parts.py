"""What the REST interface may ask of the rest of its process, if a segment store runs in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ContainerCondition(Protocol):
    """State of one container."""

    @property
    def container_id(self) -> int: ...

    @property
    def online(self) -> bool: ...

    @property
    def restarts(self) -> int: ...

    @property
    def last_failure(self) -> str: ...

    @property
    def waits_for(self) -> str: ...


class ServerInside(Protocol):
    """The segment store beside the controller. Asked on its loop."""

    def statistics(self) -> dict[str, object]:
        """What every part counts and holds, by part; ``containers`` by their numbers."""

    async def purge(self, segments: Sequence[str]) -> None:
        """Make unreadable what was truncated of these segments, and what was deleted of any."""

    def optimisers(self) -> dict[str, object]:
        """The state and progress of the storage optimisers, as a JSON object."""

    def pause_optimisers(self, *, paused: bool) -> None:
        """Pause the storage optimisers of all containers after their current step, or resume them."""

    def storage_refusals(self) -> dict[str, str]:
        """Why long-term storage refuses calls now, by kind; empty if it does not. Cheap enough for probes."""

    def container_health(self) -> Sequence[ContainerCondition]:
        """The state of every container; cheap enough for probes."""

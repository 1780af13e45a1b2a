"""What REST asks of segment stores, wherever they run: in its process, or in all processes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from headrace.web.process_parts import Contributor


class AskedStores(Protocol):
    """The segment stores that a process speaks for. Asked on its loop; each answer takes a bounded time."""

    async def statistics(self, container: int | None = None) -> dict[str, Any]:
        """Return what every part counts and holds, as JSON values; ``containers`` by their numbers, of which
        it has only ``container`` if that is given, and none if it does not run.

        Of other processes, what is none of a container is below ``stores``, by the id of the store, and
        ``unanswered`` lists each store that does not answer, with its address and why.
        """

    async def health(self) -> Sequence[Contributor]:
        """Return the state of each store, and of every container: what is not served, and why."""

    async def purge(self, segments: Sequence[str]) -> None:
        """Make unreadable what was truncated of these segments, and what was deleted of any; return when it
        is, in every container.

        Raises:
            ContainerOfflineError: not all containers took part; repeat it.
            HeadraceError: it failed in one; repeat it.
        """

    async def optimisers(self) -> dict[str, Any]:
        """Return the state and progress of the storage optimisers, as a JSON object; ``unanswered`` as in
        :meth:`statistics`.
        """

    async def pause_optimisers(self, *, paused: bool) -> None:
        """Pause the storage optimisers of all containers after their current step, or resume them.

        Raises:
            UnreachableError: not all stores were reached; the others did. Repeat it.
        """

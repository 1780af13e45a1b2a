"""The coordination contract: small nodes that all processes of a cluster read, watch and change.

Nothing that must be safe rests on it: it decides which process does the work; rows and logs decide what
happens. Three outcomes of a change are kept apart: another one was first, the node is absent, and *unknown*.
After an unknown one the caller reads the node and compares it with what was to be written. Every
implementation passes the kit in ``headrace.testing.conformance.coordination``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Protocol

from headrace.coordination.lease import Lease
from headrace.coordination.node import Node


class Session(Protocol):
    """One member of the cluster, from ``open`` until it is closed or expires. Used on one event loop.

    Paths are names joined by ``/``, such as ``buckets/7``. Every call raises:

        SessionExpiredError: the session is over; nothing was done, and nothing will be.
        UnknownOutcomeError: it may have happened, if it is a change; read the node again.
        InvalidArgumentError: the path is not legal, or no node can have the version.
    """

    @property
    def lease(self) -> Lease:
        """How long the session is sure to live."""

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Make a node, and its parents if they are missing; return its path.

        An ``ephemeral`` node is deleted when the session ends. A ``sequential`` one gets a number of ten
        digits behind its name, higher than that of any node made before in the same place.

        Raises:
            NodeExistsError: there is such a node.
            InvalidArgumentError: the parent is ephemeral, or the data are too large.
        """

    async def read(self, path: str) -> Node | None:
        """Return the node; None if it is absent."""

    async def children(self, path: str) -> list[str]:
        """Return the names of the nodes directly below, sorted; none if the node is absent."""

    async def write(self, path: str, data: bytes, version: int) -> int:
        """Replace the data of a node that has ``version``; return its new version.

        Raises:
            NoSuchNodeError: the node is absent.
            MetadataConflictError: it has another version.
            InvalidArgumentError: the data are too large.
        """

    async def delete(self, path: str, version: int) -> None:
        """Delete a node that has ``version``.

        Raises:
            NoSuchNodeError: the node is absent.
            MetadataConflictError: it has another version, or nodes below it.
        """

    def watch(self, path: str) -> AsyncIterator[None]:
        """Yield at once, and again when the node may have been made, changed or deleted: read it again.

        Several changes may be one item, and an item may mean no change; but no change is without one that
        comes after it, whatever happens to the connection. Raises SessionExpiredError at the end.
        """

    def watch_children(self, path: str) -> AsyncIterator[None]:
        """Like :meth:`watch`, for the list of names below the node."""

    async def close(self) -> None:
        """End the session: its ephemeral nodes are deleted. Idempotent."""


class Coordinator(Protocol):
    """The way of one process to the coordination of its cluster."""

    async def open(self) -> Session:
        """Begin a session: a new identity, which inherits nothing from those before.

        Raises:
            UnreachableError: no answer.
        """

"""The contract of a row store: named pieces of one container's metadata, changed together or not at all.

Rows are owned by ``storage.chunks``; a store knows keys and bytes. Rows of segments in use are in memory, so
reading is a plain call; a commit is durable when it returns. Every implementation passes
``headrace.testing.conformance.row_store``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class RowStore(Protocol):
    """Rows of one container. Used on the container's loop."""

    def get(self, key: str) -> bytes | None:
        """Return the committed row, or None."""

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with ``prefix``, in order. Cost: may look at every key."""

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """Put every row that has bytes and delete every row that has None, atomically and durably.

        Deleting a row that does not exist is fine. Readers see all changes or none, from the moment the call
        returns at the latest.

        Raises:
            FencedOutError: a newer owner has the container; nothing changed.
            WalWriteError: the outcome is unknown; the container has to be recovered.
            ContainerOfflineError: the container is stopping; nothing changed.
            ThrottledError: too many requests wait; nothing changed, nor will it.
        """


class RowCatalogue(Protocol):
    """Rows of inactive segments: moved here from the row store at eviction, and back at activation."""

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """Return those of the chunks that have a row, here or in the row store. Others never will again.

        Rows move between the two at any time: the answer for a chunk has to be true of both at one moment. A
        row that may exist counts as one.

        Raises:
            StorageReadError: it cannot be known now; retry.
        """

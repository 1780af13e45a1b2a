"""The contract of a row store: named pieces of one container's metadata, changed together or not at all.

Rows are owned by ``storage.chunks``; a store knows keys and bytes. It has some of them in memory, and says so
of the others: plain functions that decide are called with :meth:`RowStore.get`, and again after
:meth:`RowStore.load`. A commit is durable when it returns. Every implementation passes
``headrace.testing.conformance.row_store``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class RowsNotLoadedError(Exception):
    """These rows are not in memory: to be loaded, then the call that needs them is repeated. No failure."""

    def __init__(self, keys: Sequence[str]) -> None:
        super().__init__(keys)
        self.keys = keys


class RowStore(Protocol):
    """Rows of one container. Used on the container's loop."""

    def get(self, key: str) -> bytes | None:
        """Return the committed row, or None. All rows in memory are those of one moment.

        Raises:
            RowsNotLoadedError: it is not in memory.
        """

    async def load(self, keys: Sequence[str]) -> None:
        """Load rows: :meth:`get` returns them, if it is called at once. Those used last stay in memory.

        Raises:
            StorageReadError: some cannot be read now; retry.
        """

    async def find_existing(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a row, which are not loaded for that. Raises as :meth:`load`."""

    def part_of(self, changes: Mapping[str, bytes | None]) -> str:
        """Return the part of the store that commits these changes: only those of one part can be joined."""

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


async def with_rows(load: Callable[[Sequence[str]], Awaitable[None]], decide: Callable[[], T]) -> T:
    """Return what ``decide`` returns, as of the moment of return; load the rows it needs before.

    Raises as ``decide`` and :meth:`RowStore.load`.
    """
    while True:
        try:
            return decide()
        except RowsNotLoadedError as missing:
            await load(missing.keys)


class RowCatalogue(Protocol):
    """Knows the chunks of inactive segments whose rows an earlier release moved to another place."""

    async def find_chunks(self, names: Sequence[str]) -> set[str]:
        """Return those of the chunks that may have a row there.

        Rows move from there to the row store, never back: look here first, then there.

        Raises:
            StorageReadError: it cannot be known now; retry.
        """

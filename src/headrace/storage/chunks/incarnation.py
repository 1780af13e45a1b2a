"""Which metadata an object belongs to, part of its name: the objects of lost metadata are no garbage."""

from __future__ import annotations

from headrace.runtime.entropy import Entropy
from headrace.storage.chunks.chunk_names import INCARNATION_CHARS
from headrace.storage.metadata.contract import RowStore
from headrace.storage.metadata.rows import INCARNATION_KEY, decode_incarnation_row, encode_incarnation_row


class Incarnation:
    """Drawn by the first owner of a row store, used by later ones; see :meth:`renew`.

    Raises:
        DataCorruptionError: its row is damaged.
    """

    def __init__(self, rows: RowStore, entropy: Entropy) -> None:
        self._rows = rows
        self._entropy = entropy
        row = rows.get(INCARNATION_KEY)
        self._committed = row is not None
        self.name = self._draw() if row is None else decode_incarnation_row(row)

    @property
    def committed_name(self) -> str:
        """The name, once it is durable; empty before."""
        return self.name if self._committed else ""

    async def commit(self) -> None:
        """Make it durable, before any object is created, or a crash could leave one that is never deleted."""
        if not self._committed:
            await self._rows.commit({INCARNATION_KEY: encode_incarnation_row(self.name)})
            self._committed = True

    async def renew(self) -> None:
        """Draw another one, durably: no object made so far counts as an orphan any more."""
        name = self._draw()
        await self._rows.commit({INCARNATION_KEY: encode_incarnation_row(name)})
        self.name = name
        self._committed = True

    def _draw(self) -> str:
        return self._entropy.token(INCARNATION_CHARS // 2).hex()

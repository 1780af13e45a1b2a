"""Reads and writes the row on which batches of sinks are decided."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import details_table, sinks_key
from headrace.controller.store.rows.sinks_row import SinksRow, decode_sinks, encode_sinks
from headrace.errors import MetadataConflictError, UnknownOutcomeError


@dataclass(slots=True)
class SinksView:
    """The row of one stream as it was read."""

    row: SinksRow
    version: int


class Sinks:
    """Never cached: batches are few, and what is read here is decided upon."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, uid: bytes) -> SinksView:
        found = await self._store.get(details_table(uid), sinks_key(uid))
        if found is None:
            return SinksView(SinksRow(), ABSENT)
        return SinksView(decode_sinks(found.value), found.version)

    async def write(self, uid: bytes, view: SinksView, row: SinksRow) -> bool:
        """Write ``row`` over ``view`` and update the view; return False if the row has changed meanwhile.

        A write of unknown outcome counts as one that failed: its caller reads again and finds out.
        """
        try:
            (version,) = await self._store.update(
                details_table(uid), [Write(sinks_key(uid), encode_sinks(row), view.version)]
            )
        except (MetadataConflictError, UnknownOutcomeError):
            return False
        view.row, view.version = row, version
        return True

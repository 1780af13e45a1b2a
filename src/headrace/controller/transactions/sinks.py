"""Reads and writes the rows on which batches of sinks are decided, and knows which sinks there are.

A sink enters the stream's list of names before its first row is written, so that everything can be found
when the stream is deleted. When the list is full, sinks leave that were not used for long, and those of
single batches soon after these: a job a minute would fill the list in a week.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import details_table, sink_key, sink_names_key
from headrace.controller.store.rows.sink_row import (
    SinkMark,
    SinkNamesRow,
    SinkPhase,
    SinkRow,
    decode_sink,
    decode_sink_names,
    encode_sink,
    encode_sink_names,
)
from headrace.errors import MetadataConflictError, ThrottledError, UnknownOutcomeError
from headrace.limits import KIB

SINKS_MAX: Final = 10_000
NAMES_BYTES_MAX: Final = 768 * KIB
"""The list is as full with so many bytes: it is one entry of a table, and has to stay below
``TABLE_VALUE_BYTES_MAX``. Enough for ``SINKS_MAX`` names of 70 characters; a name may have 255.
"""
SINGLE_RETENTION_MS: Final = 3_600_000
"""How long the mark of a single batch answers a call that is repeated after a lost reply. A later one is
refused, since the transactions are not open any more; none is committed twice.
"""
_FORGOTTEN_AT_ONCE: Final = 1000
"""Rows read, and deleted, by one call of the store: it has a bound; and room for one more name is enough."""
_ATTEMPTS_MAX: Final = 50


@dataclass(slots=True)
class SinkView:
    """The row of one sink as it was read."""

    name: str
    row: SinkRow
    version: int


class Sinks:
    """Never cached: batches are few, and what is read here is decided upon."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def read(self, uid: bytes, sink: str) -> SinkView:
        found = await self._store.get(details_table(uid), sink_key(uid, sink))
        if found is None:
            return SinkView(sink, SinkRow(), ABSENT)
        return SinkView(sink, decode_sink(found.value), found.version)

    async def write(self, uid: bytes, view: SinkView, row: SinkRow) -> bool:
        """Write ``row`` over ``view`` and update the view; return False if the row has changed meanwhile.

        A write of unknown outcome counts as one that failed: its caller reads again and finds out.
        """
        write = Write(sink_key(uid, view.name), encode_sink(row), view.version)
        try:
            (version,) = await self._store.update(details_table(uid), [write])
        except (MetadataConflictError, UnknownOutcomeError):
            return False
        view.row, view.version = row, version
        return True

    async def enlist(self, uid: bytes, sink: str, now_ms: int, retention_ms: int) -> None:
        """Make sure that the sink is in the list of names.

        Raises:
            ThrottledError: the list is full of sinks that were used within ``retention_ms``, or lately if
                they write a single batch.
        """
        for _ in range(_ATTEMPTS_MAX):
            names, version, size = await self._names(uid)
            if sink in names.first_seen_ms:
                return
            if len(names.first_seen_ms) >= SINKS_MAX or size > NAMES_BYTES_MAX:
                names = await self._without_unused(uid, names, now_ms, retention_ms)
            longer = SinkNamesRow({**names.first_seen_ms, sink: now_ms})
            write = Write(sink_names_key(uid), encode_sink_names(longer), version)
            try:
                await self._store.update(details_table(uid), [write])
            except (MetadataConflictError, UnknownOutcomeError):
                continue
            return
        raise MetadataConflictError("sinks are enlisted by too many callers at once")

    async def names(self, uid: bytes) -> list[str]:
        """Return every sink that may have a row."""
        return list((await self._names(uid))[0].first_seen_ms)

    async def _names(self, uid: bytes) -> tuple[SinkNamesRow, int, int]:
        """Return the list, its version and how many bytes it takes."""
        found = await self._store.get(details_table(uid), sink_names_key(uid))
        if found is None:
            return SinkNamesRow(), ABSENT, 0
        return decode_sink_names(found.value), found.version, len(found.value)

    async def _without_unused(
        self, uid: bytes, names: SinkNamesRow, now_ms: int, retention_ms: int
    ) -> SinkNamesRow:
        """Delete some rows of unused sinks, and return the names without theirs."""
        seen = names.first_seen_ms
        seen_before_ms = now_ms - min(retention_ms, SINGLE_RETENTION_MS)
        old = [name for name, seen_ms in seen.items() if seen_ms < seen_before_ms]
        # Those seen first may all be in use, for years.
        for begin in range(0, len(old), _FORGOTTEN_AT_ONCE):
            batch = old[begin : begin + _FORGOTTEN_AT_ONCE]
            unused = await self._unused(uid, batch, seen, now_ms, retention_ms)
            if not unused:
                continue
            deletions = [write for write in unused.values() if write is not None]
            if deletions:
                await self._store.update(details_table(uid), deletions)
            return SinkNamesRow({name: seen_ms for name, seen_ms in seen.items() if name not in unused})
        raise ThrottledError(f"{len(seen)} sinks wrote to this stream lately")

    async def _unused(
        self, uid: bytes, batch: list[str], seen: dict[str, int], now_ms: int, retention_ms: int
    ) -> dict[str, Write | None]:
        """Return the unused sinks of ``batch``, and how to delete their rows."""
        rows = await self._store.get_many(details_table(uid), [sink_key(uid, name) for name in batch])
        unused: dict[str, Write | None] = {}
        for name, row in zip(batch, rows, strict=True):
            mark = None if row is None else decode_sink(row.value).mark
            if _used_until_ms(mark, seen[name], retention_ms) < now_ms:
                unused[name] = None if row is None else Write(sink_key(uid, name), None, row.version)
        return unused


def _used_until_ms(mark: SinkMark | None, seen_ms: int, retention_ms: int) -> float:
    """Return until when a sink has to be remembered."""
    if mark is None:
        return seen_ms + retention_ms
    if mark.phase is not SinkPhase.DONE:
        return math.inf
    return mark.time_ms + (min(retention_ms, SINGLE_RETENTION_MS) if mark.is_single else retention_ms)

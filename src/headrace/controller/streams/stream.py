"""One stream as this controller knows it: its row with the version it was read at, and ways to its history.

Every change is a *transition*: a pure function from the row that is to the row that shall be. It is
written under the condition that the row is still the one it was computed from; otherwise the row is read
again and the transition asked again. A transition that finds its work done returns the row it was given,
and nothing is written, so that any of them may be repeated by anyone at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

from headrace.controller.segments.calls import SegmentCalls
from headrace.controller.store.contract import MetadataStore, Write
from headrace.controller.store.layout import STREAM, member_key
from headrace.controller.store.rows.epoch_row import EpochRecord
from headrace.controller.store.rows.sealed_row import SealedRow
from headrace.controller.store.rows.stream_row import (
    StreamRow,
    StreamState,
    decode_stream,
    encode_stream,
)
from headrace.controller.streams.cut_reader import CutReader
from headrace.controller.streams.epoch_reader import EpochReader
from headrace.controller.streams.history_rows import ROWS_AT_ONCE, HistoryRows
from headrace.errors import (
    DataCorruptionError,
    HeadraceError,
    MetadataConflictError,
    NoSuchStreamError,
    NoSuchTableError,
    StreamBusyError,
    UnknownOutcomeError,
)
from headrace.model.names import segment_name

Transition = Callable[[StreamRow], StreamRow]

_ATTEMPTS_MAX = 50


class Stream:
    """A handle on one stream. Used on the controller's loop; shared by all callers."""

    __slots__ = (
        "__weakref__",
        "_rows",
        "_segments",
        "_store",
        "gone",
        "key",
        "name",
        "row",
        "scope",
        "table",
        "version",
    )

    def __init__(
        self,
        store: MetadataStore,
        rows: HistoryRows,
        segments: SegmentCalls,
        scope: str,
        name: str,
        table: str,
        row: StreamRow,
        version: int,
    ) -> None:
        self._store = store
        self._rows = rows
        self._segments = segments
        self.scope = scope
        self.name = name
        self.table = table
        self.key = member_key(STREAM, name)
        self.row = row
        self.version = version
        self.gone = False

    @property
    def uid(self) -> bytes:
        return self.row.uid

    @property
    def full_name(self) -> str:
        return f"{self.scope}/{self.name}"

    def segment(self, segment_id: int) -> str:
        """Return the qualified name of one of its segments."""
        return segment_name(self.scope, self.name, segment_id)

    def segments(self, segment_ids: Iterable[int]) -> list[str]:
        return [segment_name(self.scope, self.name, segment_id) for segment_id in segment_ids]

    def check_readable(self) -> None:
        """Raises StreamBusyError while the stream is being created: its epoch is not to be seen yet."""
        if self.row.state is StreamState.CREATING:
            raise StreamBusyError(f"stream {self.full_name} is being created")

    # ---------------------------------------------------------------------------------- the row

    async def refresh(self) -> StreamRow:
        """Read the row again. Raises NoSuchStreamError if it is gone or belongs to a later namesake."""
        try:
            found = await self._store.get(self.table, self.key)
        except NoSuchTableError:
            found = None
        if found is not None and found.version == self.version:
            return self.row
        row = None if found is None else decode_stream(found.value)
        if found is None or row is None or row.uid != self.row.uid:
            self.gone = True
            raise NoSuchStreamError(f"stream {self.full_name} does not exist")
        self.adopt(row, found.version)
        return row

    async def update(self, transition: Transition) -> StreamRow:
        """Apply ``transition`` durably and return the row it led to.

        Raises:
            NoSuchStreamError: the stream is gone.
            MetadataConflictError: other callers change the row at every attempt.
            RequestError: whatever the transition refuses; nothing was written.
        """
        for attempt in range(_ATTEMPTS_MAX):
            row = transition(self.row)
            if row is self.row:
                return row
            row.check()
            try:
                (version,) = await self._store.update(
                    self.table, [Write(self.key, encode_stream(row), self.version)]
                )
            except (MetadataConflictError, UnknownOutcomeError):
                if attempt:
                    await asyncio.sleep(0)  # another caller changed the row: it goes first
                await self.refresh()
                continue
            except NoSuchTableError:
                self.gone = True
                raise NoSuchStreamError(f"stream {self.full_name} does not exist") from None
            self.adopt(row, version)
            return row
        raise MetadataConflictError(f"stream {self.full_name} is changed by too many callers at once")

    def adopt(self, row: StreamRow, version: int) -> None:
        """Take over what is known to be in the store, unless it is older than what is known here."""
        if version <= self.version:
            return
        self.row = row
        self.version = version

    # ---------------------------------------------------------------------------------- its history

    def epochs(self, *, visible: bool = False) -> EpochReader:
        """Return a reader of the epochs as they are now: whatever happens to the stream, what it answers fits
        together, and fits its ``row``. See ``EpochReader``.
        """
        return EpochReader(self._rows, self.row, self._explain_absence, visible=visible)

    def cuts(self) -> CutReader:
        """Return who answers about cuts of the stream as it is now."""
        return CutReader(self.epochs())

    async def archive(self, records: Iterable[EpochRecord], sealed: Mapping[int, SealedRow]) -> None:
        """Write epochs that are, or are about to be, in the past, and which segments end with them.

        They never change: repeating is harmless.
        """
        await self._rows.archive(self.uid, records, sealed)

    async def seal(self, segment_ids: Iterable[int], epoch: int | None) -> None:
        """Seal segments, and write how long they became. Repeatable.

        ``epoch`` is the first one without them; None: they are sealed with the stream.
        """
        names = {segment_id: self.segment(segment_id) for segment_id in segment_ids}
        lengths = await self._segments.seal(names.values())
        rows = {segment_id: SealedRow(epoch, lengths[name]) for segment_id, name in names.items()}
        await self._rows.note_sealed(self.uid, rows)

    async def sealed_lengths(self, segment_ids: Iterable[int]) -> dict[int, int]:
        """Return the lengths in bytes of sealed segments, truncated parts included.

        Segments that are not sealed are left out; so are those that were deleted before their length was
        written. A length that no row says is asked of the segment itself.
        """
        wanted = list(segment_ids)
        lengths: dict[int, int] = {}
        for start in range(0, len(wanted), ROWS_AT_ONCE):
            batch = wanted[start : start + ROWS_AT_ONCE]
            rows = await self._rows.sealed(self.uid, batch)
            known = {each: row.length for each, row in rows.items() if row.length is not None}
            names = {each: self.segment(each) for each in batch if each not in known}
            found = await self._segments.sealed_lengths(list(names.values()))
            lengths |= known
            lengths |= {each: found[name] for each, name in names.items() if name in found}
        return lengths

    async def _explain_absence(self, epoch: int) -> HeadraceError:
        """Return why an epoch that must be there is missing."""
        gone = NoSuchStreamError(f"stream {self.full_name} does not exist, or is being deleted")
        try:
            row = await self.refresh()
        except NoSuchStreamError:
            return gone
        if row.deleting:
            return gone
        return DataCorruptionError(f"stream epoch {epoch} of {self.full_name} is missing")

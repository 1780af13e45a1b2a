"""What writers say about time: neither time nor position of a writer goes back.

Watermarks are made of these marks. The first mark puts the stream into the index of its bucket, before the
mark itself is stored; the row says so, so that further marks cost one write. When no writer is left, the row
says that first, and then the stream leaves the index.

Source: protocol, "Writer time and watermarks".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Final

from headrace.controller.store.contract import ABSENT, MetadataStore, Write
from headrace.controller.store.layout import WATERMARKS, details_table, marks_key
from headrace.controller.store.rows.marks_row import MarksRow, WriterMark, decode_marks, encode_marks
from headrace.controller.store.rows.txn_row import NO_TIME, TxnRow
from headrace.controller.streams.bucket_index import BucketIndex
from headrace.controller.streams.cuts import sorted_cut
from headrace.controller.streams.stream import Stream
from headrace.errors import MetadataConflictError, UnknownOutcomeError
from headrace.limits import KIB
from headrace.model.names import SYSTEM_SCOPE
from headrace.runtime.clock import Clock

WRITERS_MAX: Final = 1000
MARKS_BYTES_MAX: Final = 512 * KIB
"""A row has to fit into its table, and is read and written as a whole by each call."""

_MARK_BYTES: Final = 32
_PLACE_BYTES: Final = 20
"""At most, of a mark without its name, and of a segment with its offset."""

_ATTEMPTS_MAX: Final = 50


class MarkOutcome(Enum):
    OK = auto()
    TIME_WENT_BACK = auto()
    POSITION_WENT_BACK = auto()
    UNKNOWN_WRITER = auto()
    TOO_LARGE = auto()


class WriterMarks:
    """One row per stream. Used on the controller's loop."""

    def __init__(self, store: MetadataStore, index: BucketIndex, clock: Clock) -> None:
        self._store = store
        self._index = index
        self._clock = clock

    async def note(self, stream: Stream, writer: str, time: int, position: Mapping[int, int]) -> MarkOutcome:
        """Store the mark unless it goes back."""
        listed = has_watermarks(stream)
        return await self._change(stream, lambda row: with_mark(row, writer, time, position, listed=listed))

    async def shut_down(self, stream: Stream, writer: str) -> MarkOutcome:
        """Wait for the writer no more."""
        return await self._change(stream, lambda row: with_shut_down(row, writer))

    async def read(self, stream: Stream) -> MarksRow:
        """Return what all writers said last."""
        found = await self._store.get(details_table(stream.uid), marks_key(stream.uid))
        return MarksRow() if found is None else decode_marks(found.value)

    async def evict(self, stream: Stream, evicted: Mapping[str, WriterMark]) -> bool:
        """Forget writers that have said nothing since; return whether any writer is left.

        If none is, the row is written in any case: a writer that has put the stream into the index meanwhile
        does so again, since the row it has read is no longer the present one.
        """
        remaining: list[MarksRow] = []

        def change(row: MarksRow) -> tuple[MarkOutcome, MarksRow]:
            remaining[:] = [without_writers(row, evicted)]
            return MarkOutcome.OK, remaining[0]

        await self._change(stream, change)
        return bool(remaining[0].writers)

    async def note_commits(
        self, stream: Stream, txns: Sequence[TxnRow | None], lengths: Mapping[int, Sequence[int]]
    ) -> None:
        """Note the times given with committed transactions: for each writer the latest of the batch.

        ``txns`` holds the row of each transaction of the batch, None for one whose row is gone; ``lengths``
        the length of each segment after each transaction; without it (the batch was merged
        before a crash) positions are unknown and nothing is noted. A failure to note delays no commit.
        """
        if not lengths:
            return
        latest: dict[str, tuple[int, int]] = {}
        for index, txn in enumerate(txns):
            if txn is None or txn.commit_time == NO_TIME or not txn.writer:
                continue
            if txn.writer not in latest or latest[txn.writer][0] < txn.commit_time:
                latest[txn.writer] = (txn.commit_time, index)
        for writer, (time, index) in latest.items():
            position = {segment_id: ends[index] for segment_id, ends in lengths.items()}
            await self.note(stream, writer, time, position)

    async def _change(
        self, stream: Stream, change: Callable[[MarksRow], tuple[MarkOutcome, MarksRow]]
    ) -> MarkOutcome:
        table, key = details_table(stream.uid), marks_key(stream.uid)
        for _ in range(_ATTEMPTS_MAX):
            found = await self._store.get(table, key)
            row = MarksRow() if found is None else decode_marks(found.value)
            outcome, changed = change(row)
            if changed is row:
                return outcome
            version = ABSENT if found is None else found.version
            try:
                if changed.listed and not row.listed:
                    await self._index.add(WATERMARKS, stream.scope, stream.name, self._clock.now_ms())
                await self._store.update(table, [Write(key, encode_marks(changed), version)])
            except (MetadataConflictError, UnknownOutcomeError):
                continue
            return outcome
        raise MetadataConflictError("the times of writers are changed by too many callers at once")


def has_watermarks(stream: Stream) -> bool:
    """Whether watermarks are made for the stream: those of the system and of other streams have none."""
    return stream.scope != SYSTEM_SCOPE and not stream.name.startswith("_")


def with_mark(
    row: MarksRow, writer: str, time: int, position: Mapping[int, int], *, listed: bool
) -> tuple[MarkOutcome, MarksRow]:
    """Return the row with a newer mark of one writer. Beyond the bounds, the writers that are oldest are
    dropped.
    """
    mark = WriterMark(time, sorted_cut(position))
    if _size_bytes(writer, mark) > MARKS_BYTES_MAX:
        return MarkOutcome.TOO_LARGE, row
    present = row.writers.get(writer)
    if present is not None:
        if time < present.time:
            return MarkOutcome.TIME_WENT_BACK, row
        if any(position.get(segment_id, offset) < offset for segment_id, offset in present.position):
            return MarkOutcome.POSITION_WENT_BACK, row
    writers = {**row.writers, writer: mark}
    size_bytes = sum(_size_bytes(name, each) for name, each in writers.items())
    while len(writers) > WRITERS_MAX or size_bytes > MARKS_BYTES_MAX:
        oldest = min(writers, key=lambda name: (writers[name].alive, writers[name].time))
        size_bytes -= _size_bytes(oldest, writers.pop(oldest))
    return MarkOutcome.OK, MarksRow(writers, listed)


def _size_bytes(writer: str, mark: WriterMark) -> int:
    """Return at least what a mark takes in its row."""
    return len(writer.encode()) + _MARK_BYTES + _PLACE_BYTES * len(mark.position)


def with_shut_down(row: MarksRow, writer: str) -> tuple[MarkOutcome, MarksRow]:
    present = row.writers.get(writer)
    if present is None:
        return MarkOutcome.UNKNOWN_WRITER, row
    if not present.alive:
        return MarkOutcome.OK, row
    shut_down = WriterMark(present.time, present.position, alive=False)
    return MarkOutcome.OK, MarksRow({**row.writers, writer: shut_down}, row.listed)


def without_writers(row: MarksRow, evicted: Mapping[str, WriterMark]) -> MarksRow:
    """Return the row without the writers whose marks are still those: another row if none is left."""
    writers = {writer: mark for writer, mark in row.writers.items() if evicted.get(writer) != mark}
    if len(writers) == len(row.writers) > 0:
        return row
    return MarksRow(writers, row.listed and bool(writers))

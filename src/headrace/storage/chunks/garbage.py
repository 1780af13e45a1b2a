"""What is to be deleted from long-term storage: never anything that a row still makes part of a segment.

Three kinds of garbage, with three ways to find it:

- *runs*: chunks that a commit dropped. The same commit wrote a GarbageRow, so no crash forgets them.
- *orphans*: objects this owner created, or tried to, and gave up before any commit could name them. In
  memory, with leftovers that could not be deleted.
- *leftovers*: orphans of a dead owner, found by listing. An object is one if its name carries this metadata's
  incarnation and an epoch older than ours, and no row names it. Objects of other incarnations are never
  touched: they are what is left to restore from when the metadata was lost.

An older log may have been put back in place of a newer one. Then the objects that no row names hold what was
acknowledged since. Owners that this metadata never had give it away, see :func:`is_of_later_owner`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from headrace.errors import ThrottledError
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.chunks.segment_layout import Rows, load_chunk
from headrace.storage.metadata.rows import (
    GARBAGE_PREFIX,
    GarbageRow,
    checksum_key,
    chunk_key,
    decode_garbage_row,
    encode_garbage_row,
    full_group_count,
    garbage_key,
)


@dataclass(slots=True)
class GarbageRun:
    """A GarbageRow, and the time (loop seconds) before which its objects stay for old readers."""

    number: int
    row: GarbageRow
    not_before: float


@dataclass(slots=True)
class GarbageBatch:
    """Objects to delete now, and the rows to commit when they are gone."""

    number: int
    chunks: list[str]
    rows: Rows
    rest: GarbageRow | None


class GarbageQueue:
    """Runs in the order in which they were dropped, and orphans. Bounded in runs and orphans."""

    def __init__(self, *, runs_max: int, orphans_max: int, delay_s: float) -> None:
        self._runs: dict[int, GarbageRun] = {}
        self._runs_max = runs_max
        self._delay_s = delay_s
        self._next_number = 0
        self.orphans: deque[str] = deque(maxlen=orphans_max)
        """More than that are forgotten: the next owner finds them as leftovers."""

    def __len__(self) -> int:
        return len(self._runs)

    def load(self, keys: Iterable[str], get: Callable[[str], bytes | None], now: float) -> None:
        """Take over the runs of the rows. Raises: DataCorruptionError."""
        for key in keys:
            data = get(key)
            assert data is not None  # the store has just named it
            number = int(key[len(GARBAGE_PREFIX) :], 16)
            self._runs[number] = GarbageRun(number, decode_garbage_row(data, key), now + self._delay_s)
            self._next_number = max(self._next_number, number + 1)

    def check_room(self) -> None:
        """Raises: ThrottledError if deleting does not keep up; before anything is dropped."""
        if len(self._runs) >= self._runs_max:
            raise ThrottledError(f"{len(self._runs)} runs of chunks wait to be deleted")

    def reserve(self, row: GarbageRow, rows: Rows, now: float) -> GarbageRun:
        """Add a run's row to a commit; ``add`` the run when the commit has succeeded."""
        run = GarbageRun(self._next_number, row, now + self._delay_s)
        self._next_number += 1
        rows[garbage_key(run.number)] = encode_garbage_row(row)
        return run

    def add(self, run: GarbageRun) -> None:
        self._runs[run.number] = run

    def next_batch(
        self, get: Callable[[str], bytes | None], now: float, count_max: int
    ) -> GarbageBatch | None:
        """Return up to ``count_max`` chunks of the oldest run that is due, or None.

        Raises:
            DataCorruptionError: a chunk row of the run is missing or damaged.
        """
        run = next((run for run in self._runs.values() if run.not_before <= now), None)
        if run is None:
            return None
        chunks: list[str] = []
        rows: Rows = {}
        name = run.row.first_chunk
        for _ in range(min(count_max, run.row.chunk_count)):
            chunk, following = load_chunk(name, get)
            chunks.append(name)
            rows[chunk_key(name)] = None
            for group in range(full_group_count(chunk.length, chunk.block_bytes)):
                rows[checksum_key(name, group)] = None
            name = following
        count = run.row.chunk_count - len(chunks)
        rest = GarbageRow(name, count) if count else None
        rows[garbage_key(run.number)] = encode_garbage_row(rest) if rest else None
        return GarbageBatch(run.number, chunks, rows, rest)

    def resync(self, number: int, get: Callable[[str], bytes | None], now: float) -> None:
        """The outcome of a commit is unknown: believe what the store says about run ``number``."""
        data = get(garbage_key(number))
        self._runs.pop(number, None)
        if data is not None:
            row = decode_garbage_row(data, garbage_key(number))
            self._runs[number] = GarbageRun(number, row, now + self._delay_s)

    def finish(self, batch: GarbageBatch) -> None:
        """The objects of ``batch`` are deleted and its rows committed."""
        if batch.rest is None:
            del self._runs[batch.number]
        else:
            self._runs[batch.number].row = batch.rest

    def defer(self, batch: GarbageBatch, until: float) -> None:
        """An object of ``batch`` could not be deleted: others first, this run again at ``until``."""
        run = self._runs.pop(batch.number)
        run.not_before = until
        self._runs[batch.number] = run


def is_leftover(name: str, *, incarnation: str, epoch: int, get: Callable[[str], bytes | None]) -> bool:
    """Tell whether a listed object was left by a crashed write of an older epoch of this very metadata."""
    parsed = parse_chunk_name(name)
    return (
        parsed is not None
        and parsed.incarnation == incarnation
        and parsed.epoch < epoch
        and get(chunk_key(name)) is None
    )


def is_of_later_owner(name: str, *, incarnation: str, epoch: int, owner: str) -> bool:
    """Tell whether a listed object of this metadata was made by an owner that its log has never had.

    ``epoch`` and ``owner`` are ours: nobody else has this epoch, and nobody we succeeded a higher one.
    """
    parsed = parse_chunk_name(name)
    return (
        parsed is not None
        and parsed.incarnation == incarnation
        and (parsed.epoch > epoch or (parsed.epoch == epoch and parsed.owner != owner))
    )

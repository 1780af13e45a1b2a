"""What is to be deleted from long-term storage: never anything that a row still makes part of a segment.

Three kinds, with three ways to find them:

- *garbage batches*: chunks that a commit dropped. The same commit wrote a GarbageRow, so no crash forgets
  them.
- *orphans of this owner*: objects that it created, or tried to, and gave up before any commit could name
  them. In memory, with orphans of former owners that could not be deleted.
- *orphans of former owners*, found by listing. An object is one if its name carries this metadata's
  incarnation and a container epoch older than this one, and no row names it. Objects of other incarnations
  are never touched: they are what is left to restore from when the metadata was lost.

An older log may have been put back in place of a newer one. Then the objects that no row names hold what was
acknowledged since. Objects of owners that this log never had show that, see :func:`is_of_later_owner`.

Batches from some number on may be *held*: a storage checkpoint, from which the container can be rebuilt,
names their chunks as parts of segments.

A batch whose rows are damaged is *set aside* until the next start: its objects are not needed, but they are
not known either. So they stay, as do its rows, and no other batch waits for them.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from headrace.errors import CorruptionError, ThrottledError
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.storage.chunks.segment_layout import Rows, load_chunk
from headrace.storage.metadata.contract import RowsNotLoadedError
from headrace.storage.metadata.rows import (
    GarbageRow,
    checksum_key,
    chunk_key,
    decode_garbage_row,
    encode_garbage_row,
    full_group_count,
    garbage_key,
    size_of,
)


@dataclass(slots=True)
class GarbageBatch:
    """A GarbageRow, and the time (loop seconds) before which its objects stay for old readers."""

    number: int
    row: GarbageRow
    not_before: float


@dataclass(slots=True)
class GarbagePart:
    """The first chunks of a batch, to be deleted now, and what is left of the batch then."""

    number: int
    chunks: list[str]
    checksum_keys: list[str]
    rest: GarbageRow | None


class GarbageQueue:
    """Batches in the order in which they were dropped, and orphans. Bounded in batches and orphans."""

    def __init__(self, *, batches_max: int, orphans_max: int, delay_s: float) -> None:
        self._batches: OrderedDict[int, GarbageBatch] = OrderedDict()
        self._unread = range(0)
        """Numbers that former owners may have used, and whose rows were not read yet: all are older than the
        batches dropped since. There may be a hundred thousand, too many for one iteration of the loop.
        """

        self._unread_not_before = 0.0
        self._doubtful: dict[int, float] = {}
        """Batches whose rows have to be read again, and when."""

        self._batches_max = batches_max
        self._delay_s = delay_s
        self.next_number = 0
        self.orphans: deque[str] = deque(maxlen=orphans_max)
        """More than that are forgotten: the next owner finds them by listing."""

        self._uncommitted: set[int] = set()
        """Batches whose commits are in flight."""

        self.held_from: int | None = None
        """Batches from this number on are retained; None: none of them is."""

        self._set_aside: dict[int, CorruptionError] = {}
        self._unreported: list[int] = []

    @property
    def damaged_count(self) -> int:
        """Batches that were set aside."""
        return len(self._set_aside)

    def take_damaged(self) -> list[CorruptionError]:
        """Return what is wrong with the batches that were set aside since the last call."""
        unreported, self._unreported = self._unreported, []
        return [self._set_aside[number] for number in unreported]

    def _put_aside(self, number: int, error: CorruptionError) -> None:
        self._batches.pop(number, None)
        self._set_aside[number] = error
        self._unreported.append(number)

    def __len__(self) -> int:
        """Return the number of batches; those of former owners count once they are read."""
        return len(self._batches) + len(self._doubtful)

    @property
    def waiting(self) -> float:
        """Batches, as a part of those that may be."""
        return len(self) / self._batches_max

    def load(self, first: int, end: int, now: float) -> None:
        """Take over the batches of former owners, with numbers of ``[first, end)``; not all of them exist."""
        self._unread = range(first, end)
        self._unread_not_before = now + self._delay_s
        self.next_number = end

    def first_number(self) -> int:
        """Return a number such that no batch has a lower one."""
        known = (self._batches, self._doubtful, self._uncommitted, self._set_aside, self._unread[:1])
        return min((number for numbers in known for number in numbers), default=self.next_number)

    def first_uncommitted(self) -> int:
        """Return a number such that every batch with a lower one was committed, if it exists at all."""
        return min((*self._uncommitted, *self._doubtful), default=self.next_number)

    def holds(self) -> bool:
        """Whether a batch that waits for deletion is held."""
        held = self.held_from
        return held is not None and any(number >= held for number in self._batches)

    def has_unread(self, now: float) -> bool:
        """Whether rows of batches are to be read that were not, or have to be read again."""
        return any(not_before <= now for not_before in self._doubtful.values()) or (
            bool(self._unread) and self._unread_not_before <= now and len(self) < self._batches_max
        )

    def _read_some(self, get: Callable[[str], bytes | None], now: float, count_max: int) -> None:
        """Read up to ``count_max`` of the rows not read yet. Damaged ones are set aside."""
        if not self.has_unread(now):
            return
        numbers = [number for number, not_before in self._doubtful.items() if not_before <= now]
        del numbers[count_max:]
        again = len(numbers)
        if self._unread_not_before <= now and len(self) < self._batches_max:
            numbers += self._unread[: count_max - again]
        rows, missing = _get_all(get, [garbage_key(number) for number in numbers])
        if missing:
            raise RowsNotLoadedError(missing)
        for number in numbers[:again]:
            del self._doubtful[number]
        self._unread = self._unread[len(numbers) - again :]
        for number, data in reversed(list(zip(numbers, rows, strict=True))):
            if data is None:
                continue
            try:
                row = decode_garbage_row(data, garbage_key(number))
            except CorruptionError as error:
                self._put_aside(number, error)
                continue
            self._batches[number] = GarbageBatch(number, row, now)
            self._batches.move_to_end(number, last=False)

    def expire(self, now: float) -> None:
        """Let everything be due now: readers with an old layout are not waited for."""
        for batch in self._batches.values():
            batch.not_before = min(batch.not_before, now)
        self._doubtful = {number: min(due, now) for number, due in self._doubtful.items()}
        self._unread_not_before = min(self._unread_not_before, now)

    def check_capacity(self) -> None:
        """Raises: ThrottledError if deleting does not keep up; before anything is dropped."""
        if len(self) >= self._batches_max:
            raise ThrottledError(f"{len(self)} garbage batches wait for deletion")

    def reserve(self, row: GarbageRow, rows: Rows, now: float) -> GarbageBatch:
        """Add a batch's row to a commit; ``add`` the batch when the commit has succeeded."""
        batch = GarbageBatch(self.next_number, row, now + self._delay_s)
        self.next_number += 1
        self._uncommitted.add(batch.number)
        rows[garbage_key(batch.number)] = encode_garbage_row(row)
        return batch

    def add(self, batch: GarbageBatch) -> None:
        """The commit of a reserved batch has succeeded."""
        self._uncommitted.discard(batch.number)
        self._batches[batch.number] = batch

    def next_parts(
        self,
        get: Callable[[str], bytes | None],
        now: float,
        count_max: int,
        without: Container[int] = (),
    ) -> list[GarbagePart]:
        """Return up to ``count_max`` chunks of the oldest batches that are due; none of those ``without``.

        A batch of which its row, or that of the next chunk, is missing or damaged is set aside.

        Raises:
            RowsNotLoadedError: rows of the next ones are not in memory; nothing changed.
        """
        self._read_some(get, now, count_max)
        parts: list[GarbagePart] = []
        damaged: list[tuple[int, CorruptionError]] = []
        missing: list[str] = []
        for batch in self._batches.values():
            if not count_max or (parts and batch.not_before > now):
                break  # nearly all of them are in the order in which they become due
            if self.held_from is not None and batch.number >= self.held_from:
                continue
            if batch.not_before <= now and batch.number not in without:
                try:
                    part = _take_part(batch, get, count_max)
                except CorruptionError as error:
                    damaged.append((batch.number, error))
                    continue
                except RowsNotLoadedError as error:
                    missing += error.keys
                    count_max -= 1
                    continue
                parts.append(part)
                count_max -= len(part.chunks)
        if missing:
            raise RowsNotLoadedError(missing)
        for number, what in damaged:
            self._put_aside(number, what)
        return parts

    def reread(self, number: int, not_before: float) -> None:
        """The outcome of a commit is unknown: the row of batch ``number`` has to be read again."""
        self._uncommitted.discard(number)
        self._batches.pop(number, None)
        self._doubtful[number] = not_before

    def finish(self, part: GarbagePart) -> None:
        """The objects of ``part`` are deleted and its rows committed."""
        if part.rest is None:
            del self._batches[part.number]
        else:
            self._batches[part.number].row = part.rest

    def defer(self, number: int, until: float) -> None:
        """An object of a batch could not be deleted: retry the batch at ``until``, behind all others."""
        batch = self._batches.pop(number)
        batch.not_before = until
        self._batches[number] = batch

    def add_orphans(self, names: Sequence[str]) -> int:
        """Note what could not be deleted, as far as the bound allows; return how many names that are.

        They displace no orphan that came meanwhile: only the next owner would find it.
        """
        free = (self.orphans.maxlen or 0) - len(self.orphans)
        self.orphans.extend(names[:free])
        return min(free, len(names))


def plan_commits(parts: Sequence[GarbagePart], rows_max: int, bytes_max: int) -> list[Rows]:
    """Return the commits that forget deleted ``parts``, in order.

    One has up to ``rows_max`` rows and ``bytes_max`` bytes, or those of the chunks and the batch of one part.
    The checksums of a large chunk may need several: its own row is removed last, so that the next owner
    repeats all of it after a crash in between.
    """
    commits: list[Rows] = []
    rows: Rows = {}
    size = 0
    for part in parts:
        ends: Rows = dict.fromkeys(map(chunk_key, part.chunks))
        ends[garbage_key(part.number)] = encode_garbage_row(part.rest) if part.rest else None
        checksums: list[Rows] = [{key: None} for key in part.checksum_keys]
        for together in (*checksums, ends):
            added = size_of(together)
            if rows and (len(rows) + len(together) > rows_max or size + added > bytes_max):
                commits.append(rows)
                rows, size = {}, 0
            rows.update(together)
            size += added
    return [*commits, rows] if rows else commits


def _get_all(get: Callable[[str], bytes | None], keys: Sequence[str]) -> tuple[list[bytes | None], list[str]]:
    """Return the rows in memory, and the keys of those that are not."""
    rows: list[bytes | None] = []
    missing: list[str] = []
    for key in keys:
        try:
            rows.append(get(key))
        except RowsNotLoadedError as error:
            missing += error.keys
    return rows, missing


def _take_part(batch: GarbageBatch, get: Callable[[str], bytes | None], count_max: int) -> GarbagePart:
    """Return the first chunks of a batch, up to one whose row is damaged.

    Raises:
        DataCorruptionError: that is the first.
    """
    chunks: list[str] = []
    keys: list[str] = []
    name = batch.row.first_chunk
    for _ in range(min(count_max, batch.row.chunk_count)):
        try:
            chunk, following = load_chunk(name, get)
        except CorruptionError:
            if not chunks:
                raise
            break
        chunks.append(name)
        keys += [checksum_key(name, n) for n in range(full_group_count(chunk.length, chunk.block_bytes))]
        name = following
    count = batch.row.chunk_count - len(chunks)
    return GarbagePart(batch.number, chunks, keys, GarbageRow(name, count) if count else None)


def may_be_orphan(name: str, *, incarnation: str, container_epoch: int) -> bool:
    """Say whether a listed object is of an older container epoch of this metadata: an orphan, if no row
    names it.
    """
    parsed = parse_chunk_name(name)
    return parsed is not None and parsed.incarnation == incarnation and parsed.epoch < container_epoch


def is_of_later_owner(name: str, *, incarnation: str, container_epoch: int, owner: str) -> bool:
    """Say whether a listed object of this metadata was made by an owner that its log has never had.

    ``container_epoch`` and ``owner`` are this owner's: no other one has this container epoch, none before
    it a higher one.
    """
    parsed = parse_chunk_name(name)
    return (
        parsed is not None
        and parsed.incarnation == incarnation
        and (parsed.epoch > container_epoch or (parsed.epoch == container_epoch and parsed.owner != owner))
    )

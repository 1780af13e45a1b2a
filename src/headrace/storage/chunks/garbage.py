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
from headrace.storage.metadata.rows import (
    GARBAGE_PREFIX,
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
        self._unread: deque[str] = deque()
        """Keys of the rows of a former owner that were not read yet: all are older than the batches dropped
        since. There may be a hundred thousand, too many for one iteration of the loop.
        """

        self._unread_not_before = 0.0
        self._batches_max = batches_max
        self._delay_s = delay_s
        self._next_number = 0
        self.orphans: deque[str] = deque(maxlen=orphans_max)
        """More than that are forgotten: the next owner finds them by listing."""

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
        return len(self._batches) + len(self._unread)

    def load(self, keys: Sequence[str], now: float) -> None:
        """Take over the rows of a former owner, by their ``keys`` in order."""
        self._unread.extend(keys)
        self._unread_not_before = now + self._delay_s
        if keys:
            self._next_number = _number_of(keys[-1]) + 1

    def has_unread(self, now: float) -> bool:
        """Whether batches of a former owner are due that were not read yet."""
        return bool(self._unread) and self._unread_not_before <= now

    def _read_some(self, get: Callable[[str], bytes | None], now: float, count_max: int) -> None:
        """Read up to ``count_max`` of the rows not read yet. Damaged ones are set aside."""
        if not self.has_unread(now):
            return
        batches: list[GarbageBatch] = []
        for _ in range(min(count_max, len(self._unread))):
            key = self._unread.popleft()
            number, data = _number_of(key), get(key)
            assert data is not None  # a row is removed only after it was read
            try:
                batches.append(GarbageBatch(number, decode_garbage_row(data, key), now))
            except CorruptionError as error:
                self._put_aside(number, error)
        for batch in reversed(batches):
            self._batches[batch.number] = batch
            self._batches.move_to_end(batch.number, last=False)

    def check_capacity(self) -> None:
        """Raises: ThrottledError if deleting does not keep up; before anything is dropped."""
        if len(self) >= self._batches_max:
            raise ThrottledError(f"{len(self)} garbage batches wait for deletion")

    def reserve(self, row: GarbageRow, rows: Rows, now: float) -> GarbageBatch:
        """Add a batch's row to a commit; ``add`` the batch when the commit has succeeded."""
        batch = GarbageBatch(self._next_number, row, now + self._delay_s)
        self._next_number += 1
        rows[garbage_key(batch.number)] = encode_garbage_row(row)
        return batch

    def add(self, batch: GarbageBatch) -> None:
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
        """
        self._read_some(get, now, count_max)
        parts: list[GarbagePart] = []
        damaged: list[tuple[int, CorruptionError]] = []
        for batch in self._batches.values():
            if not count_max or (parts and batch.not_before > now):
                break  # nearly all of them are in the order in which they become due
            if batch.not_before <= now and batch.number not in without:
                try:
                    part = _take_part(batch, get, count_max)
                except CorruptionError as error:
                    damaged.append((batch.number, error))
                    continue
                parts.append(part)
                count_max -= len(part.chunks)
        for number, what in damaged:
            self._put_aside(number, what)
        return parts

    def resync(self, number: int, get: Callable[[str], bytes | None], now: float) -> None:
        """The outcome of a commit is unknown: take over what the store says about batch ``number``."""
        data = get(garbage_key(number))
        self._batches.pop(number, None)
        if data is not None:
            row = decode_garbage_row(data, garbage_key(number))
            self._batches[number] = GarbageBatch(number, row, now + self._delay_s)

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


def _number_of(key: str) -> int:
    return int(key[len(GARBAGE_PREFIX) :], 16)


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


def is_orphan(name: str, *, incarnation: str, epoch: int, get: Callable[[str], bytes | None]) -> bool:
    """Say whether a listed object is of an older container epoch of this metadata, and no row names it."""
    parsed = parse_chunk_name(name)
    return (
        parsed is not None
        and parsed.incarnation == incarnation
        and parsed.epoch < epoch
        and get(chunk_key(name)) is None
    )


def is_of_later_owner(name: str, *, incarnation: str, epoch: int, owner: str) -> bool:
    """Say whether a listed object of this metadata was made by an owner that its log has never had.

    ``epoch`` and ``owner`` are this owner's: no other owner has this container epoch, no former one a higher.
    """
    parsed = parse_chunk_name(name)
    return (
        parsed is not None
        and parsed.incarnation == incarnation
        and (parsed.epoch > epoch or (parsed.epoch == epoch and parsed.owner != owner))
    )

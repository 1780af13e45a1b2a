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

A run whose rows are damaged is *set aside* until the next start: its objects are needed by nobody, and which
they are nobody knows. So they stay, as do its rows, and nothing else waits for them.
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
class GarbageRun:
    """A GarbageRow, and the time (loop seconds) before which its objects stay for old readers."""

    number: int
    row: GarbageRow
    not_before: float


@dataclass(slots=True)
class GarbagePart:
    """The first chunks of a run, to be deleted now, and what is left of the run when they are."""

    number: int
    chunks: list[str]
    checksum_keys: list[str]
    rest: GarbageRow | None


class GarbageQueue:
    """Runs in the order in which they were dropped, and orphans. Bounded in runs and orphans."""

    def __init__(self, *, runs_max: int, orphans_max: int, delay_s: float) -> None:
        self._runs: OrderedDict[int, GarbageRun] = OrderedDict()
        self._unread: deque[str] = deque()
        """Keys of the rows that an earlier owner left, as far as nobody has looked at them yet: all are older
        than the runs dropped since. There may be a hundred thousand, too many for one turn of the loop.
        """

        self._unread_not_before = 0.0
        self._runs_max = runs_max
        self._delay_s = delay_s
        self._next_number = 0
        self.orphans: deque[str] = deque(maxlen=orphans_max)
        """More than that are forgotten: the next owner finds them as leftovers."""

        self._set_aside: dict[int, CorruptionError] = {}
        self._unsaid: list[int] = []

    @property
    def damaged_count(self) -> int:
        """Runs that were set aside."""
        return len(self._set_aside)

    def take_damaged(self) -> list[CorruptionError]:
        """Return what is wrong with the runs that were set aside since the last call."""
        unsaid, self._unsaid = self._unsaid, []
        return [self._set_aside[number] for number in unsaid]

    def _put_aside(self, number: int, error: CorruptionError) -> None:
        self._runs.pop(number, None)
        self._set_aside[number] = error
        self._unsaid.append(number)

    def __len__(self) -> int:
        return len(self._runs) + len(self._unread)

    def load(self, keys: Sequence[str], now: float) -> None:
        """Take over the rows that an earlier owner left, by their ``keys`` in order."""
        self._unread.extend(keys)
        self._unread_not_before = now + self._delay_s
        if keys:
            self._next_number = _number_of(keys[-1]) + 1

    def has_unread(self, now: float) -> bool:
        """Whether runs of an earlier owner are due that nobody has looked at yet."""
        return bool(self._unread) and self._unread_not_before <= now

    def _read_some(self, get: Callable[[str], bytes | None], now: float, count_max: int) -> None:
        """Look at up to ``count_max`` of the rows not looked at yet. Those that are damaged are set aside."""
        if not self.has_unread(now):
            return
        runs: list[GarbageRun] = []
        for _ in range(min(count_max, len(self._unread))):
            key = self._unread.popleft()
            number, data = _number_of(key), get(key)
            assert data is not None  # nobody removes it who has not looked at it
            try:
                runs.append(GarbageRun(number, decode_garbage_row(data, key), now))
            except CorruptionError as error:
                self._put_aside(number, error)
        for run in reversed(runs):
            self._runs[run.number] = run
            self._runs.move_to_end(run.number, last=False)

    def check_room(self) -> None:
        """Raises: ThrottledError if deleting does not keep up; before anything is dropped."""
        if len(self) >= self._runs_max:
            raise ThrottledError(f"{len(self)} garbage batches wait for deletion")

    def reserve(self, row: GarbageRow, rows: Rows, now: float) -> GarbageRun:
        """Add a run's row to a commit; ``add`` the run when the commit has succeeded."""
        run = GarbageRun(self._next_number, row, now + self._delay_s)
        self._next_number += 1
        rows[garbage_key(run.number)] = encode_garbage_row(row)
        return run

    def add(self, run: GarbageRun) -> None:
        self._runs[run.number] = run

    def next_batch(
        self,
        get: Callable[[str], bytes | None],
        now: float,
        count_max: int,
        without: Container[int] = (),
    ) -> list[GarbagePart]:
        """Return up to ``count_max`` chunks of the oldest runs that are due; none of the runs ``without``.

        A run of which its row, or that of the next chunk, is missing or damaged is set aside.
        """
        self._read_some(get, now, count_max)
        parts: list[GarbagePart] = []
        damaged: list[tuple[int, CorruptionError]] = []
        for run in self._runs.values():
            if not count_max or (parts and run.not_before > now):
                break  # nearly all of them are in the order in which they become due
            if run.not_before <= now and run.number not in without:
                try:
                    part = _take_part(run, get, count_max)
                except CorruptionError as error:
                    damaged.append((run.number, error))
                    continue
                parts.append(part)
                count_max -= len(part.chunks)
        for number, what in damaged:
            self._put_aside(number, what)
        return parts

    def resync(self, number: int, get: Callable[[str], bytes | None], now: float) -> None:
        """The outcome of a commit is unknown: believe what the store says about run ``number``."""
        data = get(garbage_key(number))
        self._runs.pop(number, None)
        if data is not None:
            row = decode_garbage_row(data, garbage_key(number))
            self._runs[number] = GarbageRun(number, row, now + self._delay_s)

    def finish(self, part: GarbagePart) -> None:
        """The objects of ``part`` are deleted and its rows committed."""
        if part.rest is None:
            del self._runs[part.number]
        else:
            self._runs[part.number].row = part.rest

    def defer(self, number: int, until: float) -> None:
        """An object of a run could not be deleted: others first, this run again at ``until``."""
        run = self._runs.pop(number)
        run.not_before = until
        self._runs[number] = run

    def add_orphans(self, names: Sequence[str]) -> int:
        """Note what could not be deleted, as much as there is room for; return how many names that are.

        They push out no orphan that came meanwhile: only the next owner would find it.
        """
        room = (self.orphans.maxlen or 0) - len(self.orphans)
        self.orphans.extend(names[:room])
        return min(room, len(names))


def plan_commits(parts: Sequence[GarbagePart], rows_max: int, bytes_max: int) -> list[Rows]:
    """Return the commits that forget deleted ``parts``, one behind the other.

    One holds up to ``rows_max`` rows and ``bytes_max`` bytes, or those of the chunks and the run of one part.
    The checksums of a large chunk may need several: its own row goes last, so that whoever comes after a
    crash in between does it again.
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


def _take_part(run: GarbageRun, get: Callable[[str], bytes | None], count_max: int) -> GarbagePart:
    """Return the first chunks of a run, up to one whose row is damaged.

    Raises:
        DataCorruptionError: that is the first.
    """
    chunks: list[str] = []
    keys: list[str] = []
    name = run.row.first_chunk
    for _ in range(min(count_max, run.row.chunk_count)):
        try:
            chunk, following = load_chunk(name, get)
        except CorruptionError:
            if not chunks:
                raise
            break
        chunks.append(name)
        keys += [checksum_key(name, n) for n in range(full_group_count(chunk.length, chunk.block_bytes))]
        name = following
    count = run.row.chunk_count - len(chunks)
    return GarbagePart(run.number, chunks, keys, GarbageRow(name, count) if count else None)


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

"""Decides which cuts of a stream are remembered, and which of them answers "where was it at T". Pure.

A series has levels of growing spacing and age. The finest takes every sample; a coarser one takes the last
sample of each of its windows once a later window has begun. Of a window, the last sample is the one that is
retained: between a sample and the next one that is retained lies at most one spacing, and behind the last
change of a stream nothing is lost. So the answer for T may include what was acknowledged up to one spacing
before T, and never leaves out what was acknowledged after T.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from headrace.controller.store.rows.cut_series_row import (
    BlockEntry,
    CutSample,
    LevelRow,
    Offsets,
    Samples,
    SeriesRow,
)
from headrace.limits import KIB, MIB

CUT_BYTES_MAX: Final = 128 * KIB
"""A cut that takes more, some 15,000 segments, is not remembered: a row has to fit into its table."""

BLOCK_SAMPLES_MAX: Final = 128
BLOCK_BYTES_MAX: Final = 16 * KIB
LEVEL_BYTES_MAX: Final = 2 * MIB
LEVEL_BLOCKS_MAX: Final = 256
"""Of one level of one stream. Beyond them the oldest block goes, before its age."""

MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
_FINEST_KEPT: Final = 360


@dataclass(frozen=True, slots=True)
class Level:
    """At most one sample per ``spacing_ms``, for ``age_ms`` at least (unless it takes too many bytes)."""

    spacing_ms: int
    age_ms: int


def levels_of(period_ms: int) -> tuple[Level, ...]:
    """Return the levels of a series that is sampled with this period: with ten seconds the finest is an hour
    long.
    """
    return (
        Level(period_ms, _FINEST_KEPT * period_ms),
        Level(MINUTE_MS, DAY_MS),
        Level(10 * MINUTE_MS, 90 * DAY_MS),
    )


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A block of a series, by level and number."""

    level: int
    number: int


@dataclass(frozen=True, slots=True)
class Addition:
    """What adding a sample makes of a series: its row, blocks to write, blocks to remove."""

    row: SeriesRow
    written: tuple[tuple[BlockPlace, tuple[CutSample, ...]], ...] = ()
    dropped: tuple[BlockPlace, ...] = ()


def add_sample(row: SeriesRow, sample: CutSample, levels: tuple[Level, ...]) -> Addition | None:
    """Return the series with one more sample; None if the stream has not changed since the last one.

    A clock that went back stands still here: the sample is a millisecond later than the last one. That is
    later than the clock says, so the answer for a time between them is an older cut.
    """
    last = row.last()
    rows = [*row.levels, *(LevelRow() for _ in levels[len(row.levels) :])]
    if last is None:
        rows[0] = replace(rows[0], samples=rows[0].samples.added(sample))
        return Addition(SeriesRow(tuple(rows)))
    sample = CutSample(max(sample.time_ms, last.time_ms + 1), not_before(last.offsets, sample.offsets))
    if sample.offsets == last.offsets:
        return None
    written: list[tuple[BlockPlace, tuple[CutSample, ...]]] = []
    dropped: list[BlockPlace] = []
    for index, level in enumerate(levels):
        same_window = last.time_ms // level.spacing_ms == sample.time_ms // level.spacing_ms
        if index and same_window:
            continue
        if same_window:
            rows[0] = replace(rows[0], samples=rows[0].samples.with_last(sample))
            continue
        rows[index], block = _appended(rows[index], last if index else sample)
        if block is not None:
            written.append((BlockPlace(index, rows[index].next_block - 1), block))
        first = rows[index].first_block
        rows[index] = _aged(rows[index], sample.time_ms - level.age_ms)
        dropped += [BlockPlace(index, number) for number in range(first, rows[index].first_block)]
    gone = set(dropped)
    return Addition(
        SeriesRow(tuple(rows)), tuple(each for each in written if each[0] not in gone), tuple(dropped)
    )


def find_block(row: SeriesRow, time_ms: int) -> BlockPlace | CutSample | None:
    """Return the latest sample not after ``time_ms``, or the block that has it; None if all are later."""
    for index, level in enumerate(row.levels):
        if level.samples.count and level.samples.first_ms <= time_ms:
            return find_sample(level.samples, time_ms)
        place = bisect_right(level.blocks, time_ms, key=lambda block: block.first_ms)
        if place:
            return BlockPlace(index, level.first_block + place - 1)
    return None


def find_sample(samples: Iterable[CutSample], time_ms: int) -> CutSample | None:
    """Return the latest of samples in order that is not after ``time_ms``."""
    found = None
    for sample in samples:
        if sample.time_ms > time_ms:
            break
        found = sample
    return found


def blocks_of(row: SeriesRow) -> list[BlockPlace]:
    """Return all blocks of a series."""
    return [
        BlockPlace(index, number)
        for index, level in enumerate(row.levels)
        for number in range(level.first_block, level.next_block)
    ]


def not_before(last: Offsets, offsets: Offsets) -> Offsets:
    """Return ``offsets`` where no segment lies before ``last``: lengths do not shrink, but one may have been
    looked at earlier than the other.
    """
    floor = dict(last)
    return tuple((segment_id, max(offset, floor.get(segment_id, 0))) for segment_id, offset in offsets)


def _appended(level: LevelRow, sample: CutSample) -> tuple[LevelRow, tuple[CutSample, ...] | None]:
    """Return the level with one more sample, and what becomes a block because of it."""
    samples = level.samples
    if samples.count < BLOCK_SAMPLES_MAX and samples.size_bytes < BLOCK_BYTES_MAX:
        return replace(level, samples=samples.added(sample)), None
    block = BlockEntry(samples.first_ms, samples.size_bytes)
    return LevelRow((*level.blocks, block), level.next_block + 1, Samples().added(sample)), tuple(samples)


def _aged(level: LevelRow, oldest_ms: int) -> LevelRow:
    """Return the level without the blocks whose samples are all older than ``oldest_ms``, or too many."""
    starts = [*(block.first_ms for block in level.blocks), level.samples.first_ms]
    sizes = sum(block.size_bytes for block in level.blocks)
    gone = 0
    while gone < len(level.blocks) and (
        starts[gone + 1] <= oldest_ms
        or sizes > LEVEL_BYTES_MAX
        or len(level.blocks) - gone > LEVEL_BLOCKS_MAX
    ):
        sizes -= level.blocks[gone].size_bytes
        gone += 1
    return replace(level, blocks=level.blocks[gone:]) if gone else level

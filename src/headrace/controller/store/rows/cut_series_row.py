"""The cut series of one stream: where it was at which time. Source: ``docs/formats/controller-rows.md``, "Cut
series".

The samples of a level are bytes: a sample is added behind them without reading those before it, since a
sample says what differs from the last one that was written in full, its *base*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter

KIND: Final = b"V"
BLOCK_KIND: Final = b"Y"
VERSION: Final = 1

_FULL: Final = 0
_GROWTH: Final = 1

Offsets = tuple[tuple[int, int], ...]
"""A complete cut, sorted by segment id."""


@dataclass(frozen=True, slots=True)
class CutSample:
    """Everything acknowledged after ``time_ms`` lies at or behind the cut."""

    time_ms: int
    offsets: Offsets


@dataclass(frozen=True, slots=True)
class Samples:
    """Some samples in order of time, encoded."""

    count: int = 0
    data: bytes = b""
    base_at: int = 0
    """Where in ``data`` the last full sample begins."""
    last_at: int = 0

    @property
    def size_bytes(self) -> int:
        return len(self.data)

    @property
    def first_ms(self) -> int:
        """The time of the first sample; there is one."""
        reader = FieldReader(self.data)
        if reader.uint() != _FULL:
            raise DataCorruptionError("the first sample of a cut series is not whole")
        return reader.uint()

    def last(self) -> CutSample | None:
        """Return the last sample, if there is any."""
        if not self.count:
            return None
        base = _read(FieldReader(self.data[self.base_at :]), None)
        return base if self.base_at == self.last_at else _read(FieldReader(self.data[self.last_at :]), base)

    def added(self, sample: CutSample) -> Samples:
        """Return the samples with one more, which is later than all."""
        place = len(self.data)
        base = _read(FieldReader(self.data[self.base_at :]), None) if self.count else None
        growth = None if base is None else _growth(base, sample)
        full = base is None or growth is None
        writer = FieldWriter()
        if base is None or growth is None:
            writer.uint(_FULL)
            writer.uint(sample.time_ms)
            writer.uint(len(sample.offsets))
            for segment_id, offset in sample.offsets:
                writer.uint(segment_id)
                writer.uint(offset)
        else:
            writer.uint(_GROWTH)
            writer.uint(sample.time_ms - base.time_ms)
            writer.uint(len(growth))
            for index, grown in growth:
                writer.uint(index)
                writer.uint(grown)
        return Samples(self.count + 1, self.data + writer.to_bytes(), place if full else self.base_at, place)

    def with_last(self, sample: CutSample) -> Samples:
        """Return the samples with ``sample`` instead of the last one."""
        if self.count <= 1:
            return Samples().added(sample)
        rest = replace(self, count=self.count - 1, data=self.data[: self.last_at])
        if self.base_at < self.last_at:
            return rest.added(sample)
        alone = Samples().added(sample)  # the base itself goes: the one before it is not known
        return Samples(self.count, rest.data + alone.data, self.last_at, self.last_at)

    def __iter__(self) -> Iterator[CutSample]:
        """Yield all, oldest first. Raises DataCorruptionError."""
        reader = FieldReader(self.data)
        base: CutSample | None = None
        for _ in range(self.count):
            sample, is_full = _read_any(reader, base)
            if is_full:
                base = sample
            yield sample
        reader.end()


@dataclass(frozen=True, slots=True)
class BlockEntry:
    """What a series knows of one of its blocks."""

    first_ms: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One spacing of a series: old samples in blocks, which are rows of their own, the others here."""

    blocks: tuple[BlockEntry, ...] = ()
    """Oldest first; the number of the last one is ``next_block - 1``, they are consecutive."""
    next_block: int = 0
    samples: Samples = Samples()

    @property
    def first_block(self) -> int:
        return self.next_block - len(self.blocks)


@dataclass(frozen=True, slots=True)
class SeriesRow:
    """All levels of the series of a stream, the finest first."""

    levels: tuple[LevelRow, ...]

    def last(self) -> CutSample | None:
        """Return the latest sample: it is in the finest level."""
        return self.levels[0].samples.last() if self.levels else None


def encode_series(row: SeriesRow) -> bytes:
    writer = FieldWriter(KIND, VERSION)
    writer.uint(len(row.levels))
    for level in row.levels:
        writer.uint(level.next_block)
        writer.uint(len(level.blocks))
        for block in level.blocks:
            writer.uint(block.first_ms)
            writer.uint(block.size_bytes)
        writer.uint(level.samples.count)
        writer.uint(level.samples.base_at)
        writer.uint(level.samples.last_at)
        writer.blob(level.samples.data)
    return writer.to_bytes()


def decode_series(data: bytes) -> SeriesRow:
    """Raises DataCorruptionError."""
    reader = FieldReader(data, KIND, (VERSION,))
    levels = []
    for _ in range(reader.count(6)):
        next_block = reader.uint()
        blocks = tuple(BlockEntry(reader.uint(), reader.uint()) for _ in range(reader.count(2)))
        samples = Samples(reader.uint(), base_at=reader.uint(), last_at=reader.uint(), data=reader.blob())
        if len(blocks) > next_block or not samples.base_at <= samples.last_at <= len(samples.data):
            raise DataCorruptionError("a cut series contradicts itself")
        levels.append(LevelRow(blocks, next_block, samples))
    reader.end()
    return SeriesRow(tuple(levels))


def encode_block(samples: Iterable[CutSample]) -> bytes:
    encoded = Samples()
    for sample in samples:
        encoded = encoded.added(sample)
    writer = FieldWriter(BLOCK_KIND, VERSION)
    writer.uint(encoded.count)
    writer.blob(encoded.data)
    return writer.to_bytes()


def decode_block(data: bytes) -> tuple[CutSample, ...]:
    """Return the samples, oldest first. Raises DataCorruptionError."""
    reader = FieldReader(data, BLOCK_KIND, (VERSION,))
    samples = Samples(reader.uint(), reader.blob())
    reader.end()
    return tuple(samples)


def full_size_bytes(offsets: Offsets) -> int:
    """Return how many bytes a cut takes in full."""
    return Samples().added(CutSample(0, offsets)).size_bytes


def _growth(base: CutSample, sample: CutSample) -> list[tuple[int, int]] | None:
    """Return (index, bytes) of the segments that grew since the base; None if it cannot be said so."""
    if len(base.offsets) != len(sample.offsets) or sample.time_ms < base.time_ms:
        return None
    growth = []
    for index, ((old_id, old), (new_id, new)) in enumerate(zip(base.offsets, sample.offsets, strict=True)):
        if old_id != new_id or new < old:
            return None
        if new > old:
            growth.append((index, new - old))
    return growth


def _read(reader: FieldReader, base: CutSample | None) -> CutSample:
    return _read_any(reader, base)[0]


def _read_any(reader: FieldReader, base: CutSample | None) -> tuple[CutSample, bool]:
    """Return the next sample, and whether it is a full one."""
    kind, time = reader.uint(), reader.uint()
    if kind == _FULL:
        offsets = tuple((reader.uint(), reader.uint()) for _ in range(reader.count(2)))
        return CutSample(time, offsets), True
    if kind != _GROWTH or base is None:
        raise DataCorruptionError(f"a sample of a cut series is of kind {kind}, or has no base")
    grown = list(base.offsets)
    for _ in range(reader.count(2)):
        index, growth = reader.uint(), reader.uint()
        if index >= len(grown):
            raise DataCorruptionError("a sample of a cut series names a segment that its base has not")
        segment_id, offset = grown[index]
        grown[index] = segment_id, offset + growth
    return CutSample(base.time_ms + time, tuple(grown)), False

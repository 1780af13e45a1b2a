"""Data frames and operations of a log, in order, with the address where each begins: the loop of
recovery, without an owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.errors import DataCorruptionError
from headrace.segmentstore.durablelog.frame_format import ENTRY_HEADER, FRAME_HEADER
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.operations import codec
from headrace.segmentstore.operations.catalogue import Operation
from headrace.wal.logs import LogFrame


@dataclass(slots=True)
class FoundOperation:
    """An operation, valid until the next one, from the frame at ``begin_address`` to the end of ``frame``."""

    operation: Operation
    frame: LogFrame
    time_ms: int
    begin_address: int


@dataclass(slots=True)
class FrameSummary:
    """One frame without its content. Sequences are those of operations that end in it, 0 if none does."""

    frame: LogFrame
    time_ms: int
    size_bytes: int
    entries: int
    operations: int
    first_sequence: int
    last_sequence: int


def read_operations(frames: Iterable[LogFrame]) -> Iterator[FoundOperation]:
    """Reassemble operations and decode them.

    Raises:
        DataCorruptionError: a frame or an operation does not decode; names file and offset.
    """
    reader = FrameReader()
    for frame in frames:
        try:
            for view in reader.feed(frame.address, frame.payload):
                yield FoundOperation(codec.decode(view), frame, reader.frame_time_ms, reader.start_address)
        except DataCorruptionError as error:
            raise located(error, frame) from error


def summarise_frames(frames: Iterable[LogFrame]) -> Iterator[FrameSummary]:
    """Yield a summary of each frame. Raises: DataCorruptionError."""
    reader = FrameReader()
    for frame in frames:
        try:
            sequences = [codec.decode(view).sequence for view in reader.feed(frame.address, frame.payload)]
        except DataCorruptionError as error:
            raise located(error, frame) from error
        yield FrameSummary(
            frame,
            reader.frame_time_ms,
            len(frame.payload),
            _count_entries(frame.payload),
            len(sequences),
            sequences[0] if sequences else 0,
            sequences[-1] if sequences else 0,
        )


def located(error: DataCorruptionError, frame: LogFrame) -> DataCorruptionError:
    """Return ``error`` with the place of the frame in which it was met."""
    return DataCorruptionError(str(error), path=frame.file, offset=frame.offset)


def _count_entries(payload: memoryview) -> int:
    """Count the entries of a valid frame."""
    count, at = 0, FRAME_HEADER.size
    while at < len(payload):
        at += ENTRY_HEADER.size + ENTRY_HEADER.unpack_from(payload, at)[0]
        count += 1
    return count

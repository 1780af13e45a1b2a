"""How much of a log is replayed in one turn of the loop.

Recovery is work for the processor, a second for some hundred thousand operations. Other containers and their
connections live on the same loop, so it goes on in portions. They are counted in operations and bytes, not
timed: what is done in which turn follows from the log alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import DataCorruptionError
from headrace.limits import KIB, MIB
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.operations import codec
from headrace.wal.contract import WalRecord

if TYPE_CHECKING:
    from headrace.segmentstore.durablelog.log_replay import LogReplay


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPortion:
    """Bounds of a portion; the first that is reached ends it. Sized for a turn of five milliseconds."""

    operations_max: int = 500
    """Operations, or rows of a checkpoint. One takes 8 us or so."""

    bytes_max: int = 4 * MIB
    """Bytes of the log. A MiB takes half a millisecond to read, to check and to copy into the cache."""

    row_bytes_max: int = 256 * KIB
    """Bytes of segment rows, which are made of small values: up to a quarter of a million in one row."""


def replay_in_portions(
    records: Iterable[WalRecord],
    reader: FrameReader,
    replay: LogReplay,
    on_record: Callable[[WalRecord], None],
) -> Iterator[None]:
    """Replay the records of a log; yields behind each portion. ``on_record`` is told of each before.

    Raises:
        DataCorruptionError: the log contradicts itself.
    """
    decode, take = codec.decode, replay.take
    operations_max, bytes_max = replay.portion.operations_max, replay.portion.bytes_max
    work_end, size = operations_max, 0
    for record in records:
        on_record(record)
        for view in reader.feed(record.address, record.payload):
            try:
                left = take(decode(view), reader.frame_time_ms, reader.start_address)
                if left is not None:
                    yield from left
                    work_end = replay.work  # its last portion has filled this one
            except KeyError as error:
                raise DataCorruptionError(f"the log refers to segment {error} before mapping it") from error
            if replay.work >= work_end:
                yield
                work_end, size = replay.work + operations_max, 0
        size += len(record.payload)
        if size >= bytes_max:
            yield
            work_end, size = replay.work + operations_max, 0

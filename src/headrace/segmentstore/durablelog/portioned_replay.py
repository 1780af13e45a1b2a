"""The records of a log, replayed one after the other; others have turns of the loop in between."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import DataCorruptionError
from headrace.segmentstore.durablelog.frame_reader import FrameReader
from headrace.segmentstore.durablelog.log_replay import LogReplay
from headrace.segmentstore.operations import codec
from headrace.wal.contract import WalRecord


class PortionedReplay:
    """Gives the operations of each record to ``replay``, a portion of it at a step."""

    def __init__(self, reader: FrameReader, replay: LogReplay) -> None:
        self._reader = reader
        self._replay = replay
        self._operations_max = replay.portion.operations_max
        self._bytes_max = replay.portion.bytes_max
        self._work_end = self._operations_max
        self._size = 0

    def take(self, record: WalRecord) -> Iterator[None]:
        """Replay the next record, to be gone through to its end; yields behind each portion that is full.

        Raises:
            DataCorruptionError: the log contradicts itself.
        """
        reader, replay, decode, take = self._reader, self._replay, codec.decode, self._replay.take
        for view in reader.feed(record.address, record.payload):
            try:
                left = take(decode(view), reader.frame_time_ms, reader.start_address)
                if left is not None:
                    yield from left
                    self._work_end = replay.work  # its last portion has filled this one
            except KeyError as error:
                raise DataCorruptionError(f"the log refers to segment {error} before mapping it") from error
            if replay.work >= self._work_end:
                yield
                self._begin()
        self._size += len(record.payload)
        if self._size >= self._bytes_max:
            yield
            self._begin()

    def _begin(self) -> None:
        self._work_end, self._size = self._replay.work + self._operations_max, 0

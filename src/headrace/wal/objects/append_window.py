"""Which frames become which records, and when each is answered. Pure.

Up to W records are being created at a time. Meanwhile frames wait, and join the next one: group commit by
itself. Answers go out in order: a frame is acknowledged when its record and all below are confirmed, so a
fence in the place of one keeps all above it from being acknowledged.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Generic, TypeVar

from headrace.wal.objects.object_format import FRAMES_MAX

F = TypeVar("F")


class _State(Enum):
    IN_FLIGHT = auto()
    FULL = auto()
    """To be created again when there may be space."""
    RETRIED = auto()
    """In flight again, and perhaps in vain."""
    CREATED = auto()
    FAILED = auto()


@dataclass(slots=True, eq=False)
class NewRecord(Generic[F]):
    """One record to be created."""

    sequence: int
    address: int
    """Of its first frame."""
    acknowledged: int
    """All records with a lower sequence were confirmed."""
    frames: list[F] = field(default_factory=list)
    frame_bytes: int = 0
    state: _State = _State.IN_FLIGHT


class AppendWindow(Generic[F]):
    """Frames of one owner, from the first record of its container epoch on."""

    def __init__(self, *, next_address: int, window: int, record_bytes_max: int) -> None:
        self.next_address = next_address
        """Of the frame that is added next."""
        self.failure: Exception | None = None
        """Why no record is created any more."""
        self._window = window
        self._record_bytes_max = record_bytes_max
        self._queue: deque[tuple[F, int]] = deque()
        self._queued_bytes = 0
        self._first_queued = next_address
        self._apart_from: int | None = None
        self._records: deque[NewRecord[F]] = deque()
        self._next_sequence = 0
        self._answers_fail = False

    @property
    def frames_queued(self) -> int:
        """Frames that are in no record yet."""
        return len(self._queue)

    @property
    def frames_pending(self) -> int:
        """Frames that are not answered."""
        return len(self._queue) + sum(len(record.frames) for record in self._records)

    @property
    def bytes_pending(self) -> int:
        """Bytes of frames that are not answered."""
        return self._queued_bytes + sum(record.frame_bytes for record in self._records)

    @property
    def has_full_record(self) -> bool:
        """Whether what is queued fills a record."""
        return self._queued_bytes >= self._record_bytes_max

    @property
    def waits_for_space(self) -> bool:
        """Whether a record found the store full, and no new one is made before it is there."""
        return any(record.state in {_State.FULL, _State.RETRIED} for record in self._records)

    def add(self, frame: F, length: int) -> int:
        """Queue a frame; return its address."""
        address = self.next_address
        self.next_address += 1
        self._queue.append((frame, length))
        self._queued_bytes += length
        return address

    def separate(self) -> None:
        """Put the frame that is added next into another record than those before."""
        self._apart_from = self.next_address

    def next_record(self) -> NewRecord[F] | None:
        """Return the record to be created now, None if there is none or too many are in flight."""
        if not self._queue or self.failure is not None or self.waits_for_space:
            return None
        if len(self._records) >= self._window:
            return None
        record: NewRecord[F] = NewRecord(self._next_sequence, self._first_queued, self._acknowledged())
        while self._queue and len(record.frames) < FRAMES_MAX:
            frame, length = self._queue[0]
            if record.frames:
                is_full = record.frame_bytes + length > self._record_bytes_max
                if is_full or self._first_queued == self._apart_from:
                    break
            self._queue.popleft()
            self._first_queued += 1
            record.frames.append(frame)
            record.frame_bytes += length
        self._queued_bytes -= record.frame_bytes
        self._next_sequence += 1
        self._records.append(record)
        return record

    def _acknowledged(self) -> int:
        """Return the sequence below which all are confirmed."""
        for record in self._records:
            if record.state is not _State.CREATED:
                return record.sequence
        return self._next_sequence

    def on_created(self, record: NewRecord[F]) -> None:
        """Note that a record is there."""
        record.state = _State.CREATED

    def on_full(self, record: NewRecord[F]) -> None:
        """Note that the store has no space for a record: it is not there."""
        record.state = _State.FULL

    def on_failed(self, record: NewRecord[F], error: Exception) -> None:
        """Note that a record is not there, or may not be: no further one is created."""
        record.state = _State.FAILED
        self.fail(error)

    def fail(self, error: Exception) -> None:
        """Create no further record; what waits for space or is queued is answered with the error."""
        if self.failure is None:
            self.failure = error
        for record in self._records:
            if record.state is _State.FULL:
                record.state = _State.FAILED

    def retry_full(self) -> list[NewRecord[F]]:
        """Return the records to be created again, as there may be space."""
        waiting = [record for record in self._records if record.state is _State.FULL]
        for record in waiting:
            record.state = _State.RETRIED
        return waiting

    def next_answered(self) -> tuple[list[F], NewRecord[F] | None]:
        """Return frames to be answered, in order, and the record that confirms them: None if they failed."""
        if self._records:
            record = self._records[0]
            if record.state not in {_State.CREATED, _State.FAILED}:
                return [], None
            self._records.popleft()
            self._answers_fail |= record.state is _State.FAILED
            return record.frames, None if self._answers_fail else record
        if self.failure is None or not self._queue:
            return [], None
        frames = [frame for frame, _ in self._queue]
        self._queue.clear()
        self._queued_bytes = 0
        self._first_queued = self.next_address
        self._answers_fail = True
        return frames, None

    def check(self) -> None:
        """Assert the invariants."""
        sequences = [record.sequence for record in self._records]
        assert sequences == list(range(self._next_sequence - len(sequences), self._next_sequence))
        assert len(self._records) <= self._window
        assert self._first_queued + len(self._queue) == self.next_address
        assert self._queued_bytes == sum(length for _, length in self._queue)
        assert not self._answers_fail or self.failure is not None

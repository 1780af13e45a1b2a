"""Acknowledges how far the log may be truncated, and flushes segments that have prevented it for too long."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NamedTuple

from headrace.errors import DataCorruptionError, HeadraceError
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.segmentstore.storagewriter.flush_schedule import FlushSchedule
from headrace.segmentstore.storagewriter.flushing import FATAL
from headrace.segmentstore.storagewriter.segment_aggregator import SegmentAggregator

_logger = logging.getLogger(__name__)

_PRESS_INTERVAL_MIN_S: Final = 0.01
"""Least time between two looks at a waiting checkpoint, however young it is."""

CHECKPOINTS_MAX: Final = 4096
"""Of more, every second one is forgotten: with storage so far behind, exactness is worth nothing."""


class _Waiting(NamedTuple):
    """A checkpoint that was not acknowledged."""

    sequence: int
    bytes_before: int
    """Taken before it."""


class Acknowledgements:
    """The sequence numbers taken and not acknowledged: decides how far the log may be truncated, to the
    newest metadata checkpoint with nothing before it that is still needed.
    """

    def __init__(self) -> None:
        self._checkpoints: deque[_Waiting] = deque()
        self._taken = -1
        self._bytes_taken = 0
        self.acknowledged = -1
        """The newest sequence number that was acknowledged."""

    def on_taken(self, sequence: int, bytes_appended: int = 0) -> None:
        """An operation came from the memory log.

        Raises:
            DataCorruptionError: it is not behind the one before.
        """
        if sequence <= self._taken:
            raise DataCorruptionError(
                f"operation {sequence} follows operation {self._taken} in the memory log"
            )
        self._taken = sequence
        self._bytes_taken += bytes_appended

    def on_checkpoint(self, sequence: int) -> None:
        self._checkpoints.append(_Waiting(sequence, self._bytes_taken))
        if len(self._checkpoints) > CHECKPOINTS_MAX:
            self._checkpoints = deque(list(self._checkpoints)[::2])

    def candidate(self, lowest_pending: int | None) -> int | None:
        """Return the newest checkpoint with every operation before it stored, if it is news.

        Args:
            lowest_pending: sequence number of the oldest operation not yet stored; None if there is none.
        """
        found = None
        for sequence, _ in self._checkpoints:
            if lowest_pending is not None and sequence > lowest_pending:
                break
            found = sequence
        return found

    def on_acknowledged(self, sequence: int) -> None:
        assert sequence > self.acknowledged
        self.acknowledged = sequence
        while self._checkpoints and self._checkpoints[0].sequence <= sequence:
            self._checkpoints.popleft()

    @property
    def taken(self) -> int:
        """The newest sequence number taken, -1 before the first."""
        return self._taken

    @property
    def first_checkpoint(self) -> int | None:
        """The oldest checkpoint that was not acknowledged."""
        return self._checkpoints[0].sequence if self._checkpoints else None

    @property
    def checkpoint_count(self) -> int:
        """How many were not acknowledged."""
        return len(self._checkpoints)

    @property
    def bytes_behind(self) -> int:
        """How many bytes were appended behind the first of these: so long, at least, the log is."""
        return self._bytes_taken - self._checkpoints[0].bytes_before if self._checkpoints else 0

    def check(self) -> None:
        """Assert the invariants."""
        assert self.acknowledged <= self._taken
        sequences = [waiting.sequence for waiting in self._checkpoints]
        assert sequences == sorted(set(sequences))
        assert all(self.acknowledged < sequence <= self._taken for sequence in sequences)
        before = [waiting.bytes_before for waiting in self._checkpoints]
        assert [*before, self._bytes_taken] == sorted([*before, self._bytes_taken])


class LogTruncation:
    """Acknowledges the newest checkpoint with everything before it stored.

    Args:
        acknowledge: called with that checkpoint's sequence number.
        schedule: what is unstored; makes due what stands before a checkpoint that has waited too long.
        acknowledgements: the sequence numbers.
        config: how often, how long.
        on_pressed: called when something has become due.
        on_looked: called after each look.
    """

    def __init__(
        self,
        acknowledge: Callable[[int], Awaitable[None]],
        schedule: FlushSchedule,
        acknowledgements: Acknowledgements,
        config: StorageWriterConfig,
        *,
        on_pressed: Callable[[], None],
        on_looked: Callable[[], None],
    ) -> None:
        self._acknowledge = acknowledge
        self._schedule = schedule
        self._acknowledgements = acknowledgements
        self._config = config
        self._on_pressed = on_pressed
        self._on_looked = on_looked
        self._progress = asyncio.Event()
        self._forced = asyncio.Event()
        self._blocker: SegmentAggregator | None = None
        """The segment whose oldest operation prevented a truncation of the log, at the last look."""
        self._blocked_checkpoint: int | None = None
        self._blocked_since = 0.0
        self._hurried = False

    def on_progress(self) -> None:
        """Something was taken from the log, or stored."""
        self._progress.set()

    def force(self) -> None:
        """All is awaited: look now, and do not pause for long."""
        self._progress.set()
        self._forced.set()

    async def run(self) -> None:
        """Acknowledge for ever. Raises: what ``acknowledge`` raises, if it is fatal."""
        failures = 0
        while True:
            await self._wait_for_progress()
            sequence = self.acknowledgeable()
            if sequence is not None:
                try:
                    await self._acknowledge(sequence)
                except FATAL:
                    raise
                except HeadraceError as error:
                    failures += 1
                    _logger.warning("truncating the log at %d failed %d times: %s", sequence, failures, error)
                    pause = self._config.retry_initial_s * 2 ** min(failures, 30)
                    await asyncio.sleep(min(self._config.retry_max_s, pause))
                    self._progress.set()
                    continue
                failures = 0
                self._acknowledgements.on_acknowledged(sequence)
            self._press_blockers()
            self._on_looked()
            await self._pause(self._config.acknowledge_interval_s)

    def acknowledgeable(self) -> int | None:
        """Return the checkpoint up to which the log may be truncated, if there is a new one."""
        first = self._acknowledgements.first_checkpoint
        if first is None:
            return None
        # Usually it is still the segment that stood in the way the last time: no need to look at all of them.
        lowest = self._blocker.lowest_sequence if self._blocker is not None else None
        if lowest is None or lowest >= first:
            lowest, self._blocker = None, None
            for aggregator in self._schedule.all():
                sequence = aggregator.lowest_sequence
                if sequence is not None and (lowest is None or sequence < lowest):
                    lowest, self._blocker = sequence, aggregator
        return self._acknowledgements.candidate(lowest)

    async def _pause(self, interval_s: float) -> None:
        self._forced.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(interval_s / 20 if self._schedule.forced else interval_s):
                await self._forced.wait()

    async def _wait_for_progress(self) -> None:
        """Wait until something was taken or stored, or a checkpoint has waited long enough."""
        waiting = self._acknowledgements.first_checkpoint is not None
        age_s = max(self._config.checkpoint_age_s, _PRESS_INTERVAL_MIN_S)
        try:
            async with asyncio.timeout(age_s if waiting else None):
                await self._progress.wait()
        except TimeoutError:
            return
        self._progress.clear()

    def _press_blockers(self) -> None:
        """Flush what stands before a checkpoint that waits too long: so the log stays short under load."""
        first = self._acknowledgements.first_checkpoint
        now = asyncio.get_running_loop().time()
        if first != self._blocked_checkpoint:
            self._blocked_checkpoint, self._blocked_since, self._hurried = first, now, False
        if first is None:
            return
        is_old = now - self._blocked_since >= max(self._config.checkpoint_age_s, _PRESS_INTERVAL_MIN_S)
        config, waiting = self._config, self._acknowledgements
        is_far = (
            waiting.bytes_behind >= config.checkpoint_distance_bytes
            or waiting.checkpoint_count >= config.waiting_checkpoints_max
        )
        if is_old or (is_far and not self._hurried):
            # By its age again and again, since storage may fail; by the log's length once, as soon as may be.
            self._blocked_since, self._hurried = now, self._hurried or is_far
            self._schedule.press(first, now)
            self._on_pressed()

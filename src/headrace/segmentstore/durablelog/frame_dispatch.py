"""Hands frames to the WAL and completes them in order. Nothing here waits for the disk.

Group commit needs no timer: while every writer of the WAL is busy, the open frame is filled further, and the
next free writer takes all of it. Full frames may wait in the WAL itself, so that its writers need not wait
for the loop.

Source: ``docs/flows/append.md``, steps 7 to 9.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from headrace.errors import HeadraceError, WalWriteError
from headrace.runtime.clock import Clock
from headrace.segmentstore.durablelog.append_batches import AppendBatches
from headrace.segmentstore.durablelog.durable_apply import DurableApply, Ticket
from headrace.segmentstore.durablelog.frame_builder import FrameBuilder, OpenFrame
from headrace.segmentstore.durablelog.next_iteration import NextIteration
from headrace.segmentstore.durablelog.processor_statistics import ProcessorStatistics
from headrace.wal.contract import Wal, WalFrame

_logger = logging.getLogger(__name__)

FRAMES_AHEAD_MAX: Final = 4
"""Full frames handed to the log, written or waiting for one of its writers."""

ITEMS_MAX: Final = 256
"""A frame with so many operations is sealed in the next iteration of the loop. All operations of a frame, and
of frames written with it, take effect in one iteration: 20,000 small ones, which would fit, take 0.15 s."""


class FrameDispatch:
    """Frames between the builder and durability, oldest first."""

    def __init__(
        self,
        wal: Wal,
        builder: FrameBuilder,
        batches: AppendBatches,
        next_iteration: NextIteration,
        durable: DurableApply,
        clock: Clock,
        stats: ProcessorStatistics,
        *,
        on_durable: Callable[[int], None],
        on_failed: Callable[[HeadraceError], None],
    ) -> None:
        """``on_durable`` is notified of the bytes of each applied frame; ``on_failed`` of the end."""
        self._wal = wal
        self._builder = builder
        self._batches = batches
        self._apply = durable.apply
        self._clock = clock
        self._stats = stats
        self._on_durable = on_durable
        self._on_failed = on_failed
        self._in_flight: deque[OpenFrame] = deque()
        self._ended = False
        next_iteration.action = self.send

    @property
    def frames_in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def frames_in_use(self) -> int:
        """Frames of the WAL's pool that are not free: open, sealed, or in flight."""
        return len(self._in_flight) + len(self._builder.ready) + (self._builder.current is not None)

    def send(self) -> None:
        """Hand over the frames that may be written now."""
        if self._ended:
            return
        try:
            self._send()
        except Exception as error:  # noqa: BLE001 - a bug: no caller may wait for ever
            self._on_bug(error)

    def _send(self) -> None:
        builder = self._builder
        wal = self._wal
        if builder.current is not None and len(builder.current.items) >= ITEMS_MAX:
            self._batches.close()
            builder.seal()
        while True:
            if builder.ready:
                # Full frames may wait in the log: its writers then need not wait for the loop.
                if wal.slots_free <= 0 and len(self._in_flight) >= FRAMES_AHEAD_MAX:
                    return
            else:
                if wal.slots_free <= 0:
                    return  # the open frame is filled further: that is group commit
                self._batches.close()
                builder.seal()
                if not builder.ready:
                    return
            open_frame = builder.take_ready(self._clock.now_ms())
            self._in_flight.append(open_frame)
            self._stats.frames += 1
            wal.append(open_frame.frame, self._on_written)
            for item in open_frame.items:
                if type(item) is Ticket:
                    item.address = open_frame.frame.address

    def _on_written(self, frame: WalFrame, error: Exception | None) -> None:
        if self._ended:
            return
        open_frame = self._in_flight[0]
        assert open_frame.frame is frame, "the WAL answers in submission order"
        if error is not None:
            self._on_failed(error if isinstance(error, HeadraceError) else WalWriteError(str(error)))
            return
        try:
            self._apply(open_frame)
            self._in_flight.popleft()  # not before: a failure notifies the callers of this frame
            self._stats.frames_durable += 1
            self._builder.release(open_frame)
            self._on_durable(open_frame.used)
        except HeadraceError as failure:
            # A durable operation that cannot be made readable ends this owner (corruption, no memory).
            self._on_failed(failure)
        except Exception as failure:  # noqa: BLE001 - as above
            self._on_bug(failure)

    def _on_bug(self, error: Exception) -> None:
        """End this owner: state and log may differ, and only recovery from the log makes them agree."""
        _logger.error("the operation processor failed", exc_info=error)
        self._on_failed(WalWriteError(f"a bug ended the operation processor: {error!r}"))

    def end(self) -> list[Any]:
        """Stop sending and applying; return the items of every frame that is not known to be durable."""
        self._ended = True
        frames = [*self._in_flight, *self._builder.ready]
        if self._builder.current is not None:
            frames.append(self._builder.current)
        return [item for frame in frames for item in frame.items]

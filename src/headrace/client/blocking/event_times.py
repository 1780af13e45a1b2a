"""Times of events for threads: writers note them, readers see windows of them."""

from __future__ import annotations

from datetime import datetime

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.writers import Writer
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.reader import time_windows as on_loop
from headrace.client.writer import event_writer
from headrace.model.stream_cut import StreamCut


class EventWriter(Writer):
    """Writes events to a stream from any thread."""

    def __init__(self, writer: event_writer.EventWriter, thread: LoopThread) -> None:
        super().__init__(writer, thread)
        self._event_writer = writer

    @property
    def writer_id(self) -> str:
        """Under which times are noted."""
        return self._event_writer.writer_id

    @property
    def durable_number(self) -> int | None:
        """Of a writer with a name: events up to this number are durable. None: no number is known."""
        return None

    def note_time(self, time: datetime | int) -> None:
        """Make every event durable, then say: those are not younger than ``time``, later ones not older.

        Raises as :meth:`EventWriter.note_time`.
        """

        async def note() -> None:
            await self._flush()
            await self._event_writer.note_time(time)

        self._thread.run(note())


class TimeWindows(OfOneProcess):
    """Follows the watermarks of one stream along positions that ascend. One consumer at a time."""

    def __init__(self, windows: on_loop.TimeWindows, thread: LoopThread) -> None:
        self._windows = windows
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._windows))

    def advance(self, position: StreamCut) -> on_loop.TimeWindow:
        """Return the window at ``position``; see :meth:`TimeWindows.advance`."""
        return self._thread.run(self._windows.advance(position))

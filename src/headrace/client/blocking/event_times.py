"""Times of events for threads: writers note them, readers see windows of them."""

from __future__ import annotations

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.writers import BlockingWriter
from headrace.client.reader.time_windows import TimeWindow, TimeWindows
from headrace.client.writer.event_writer import EventWriter
from headrace.model.stream_cut import StreamCut


class BlockingEventWriter(BlockingWriter):
    """Writes events to a stream from any thread."""

    def __init__(self, writer: EventWriter, thread: LoopThread) -> None:
        super().__init__(writer, thread)
        self._event_writer = writer

    @property
    def writer_id(self) -> str:
        """Under which times are noted."""
        return self._event_writer.writer_id

    def note_time(self, time: int) -> None:
        """Make every event durable, then say: those are not younger than ``time``, later ones not older.

        Raises as :meth:`EventWriter.note_time`.
        """

        async def note() -> None:
            await self._flush()
            await self._event_writer.note_time(time)

        self._thread.run(note())


class BlockingTimeWindows:
    """Follows the watermarks of one stream along positions that ascend. One consumer at a time."""

    def __init__(self, windows: TimeWindows, thread: LoopThread) -> None:
        self._windows = windows
        self._thread = thread

    def advance(self, position: StreamCut) -> TimeWindow:
        """Return the window at ``position``; see :meth:`TimeWindows.advance`."""
        return self._thread.run(self._windows.advance(position))

"""Times of events for threads: writers note them, readers see windows of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.writers import Writer
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.reader import time_windows as on_loop
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.writer import event_writer
from headrace.client.writer.large_block import Progress
from headrace.client.writer.large_source import source_of
from headrace.client.writer.routed_writer import refuse_number
from headrace.client.writer.routing import check_key
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

    def write_large(
        self,
        event: Any,
        key: str | None = None,
        *,
        time: Time | None = None,
        headers: Headers | None = None,
        number: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Write one event of any size, up to 2 GiB, without holding it; return once it is durable.

        >>> blocks = [b"beginning", b"end"]                     # or Path("film.mp4"), or an open file
        >>> writer.write_large(blocks, "some key", progress=print)
        12 12

        It takes its place among the events of its key when the call begins; one that is copied first, when
        that is done. Events behind it wait in the writer. Interrupted, it is not written, unless that is
        decided already: readers see all of it or nothing.

        Args:
            event: bytes, text, a path, or a binary file, which is read from where it stands, and again if
                the stream scales meanwhile; it must not change. What can be read only once (an iterable of
                bytes, a file that cannot seek) is copied to a temporary file first.
            key: as in :meth:`write`.
            time: as in :meth:`write`.
            headers: as in :meth:`write`.
            number: as in :meth:`write`.
            progress: called on the client's thread with how many bytes are stored, and how many there are.
                It begins anew if the event is sent again.

        Raises:
            InvalidArgumentError: it is none of that, or empty, or became shorter.
            EventTooLargeError: it is larger than 2 GiB.
            OSError: it cannot be read.
            HeadraceError: as :meth:`write`, or why it is not durable.
        """
        self._check_number(number)
        if key is not None:
            check_key(key)
        prefix = self._form.prefix(key, time, headers)
        source = source_of(event)  # what is iterated runs in the thread of the caller

        async def write() -> None:
            self._hand_over()
            await self._event_writer.write_source(source, prefix, key, number, progress)

        self._run(write())
        self._on_number(number)

    def _check_number(self, number: int | None) -> None:
        if number is not None:
            refuse_number()

    def _on_number(self, number: int | None) -> None:
        """An event with it was written."""

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

"""Readers for threads: iterators instead of asynchronous ones, one hop to the loop's thread per batch."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from headrace.client.blocking.loop_iterator import LoopIterator
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.public_calls import OURS, outward
from headrace.client.reader import event_reader, segment_inputs, segment_range
from headrace.client.reader.event_batch import Event, EventBatch
from headrace.model.stream_cut import StreamCut


class SegmentInputs(OfOneProcess):
    """Iterates over events, or over batches. One consumer at a time."""

    # What is handed out is taken from the reader by the thread of its consumer. All that runs on the loop is
    # a wait for it, whose result nobody needs: an interrupt loses nothing. It would in a call around these
    # methods (public_calls), so they make their errors outward ones themselves.

    def __init__(self, reader: segment_inputs.SegmentInputs, thread: LoopThread) -> None:
        self._reader = reader
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._reader))

    def next_batch(self, timeout_s: float | None = None) -> EventBatch | None:
        """Return the next events of some segment; None at the end. Raises as :meth:`EventReader.next_batch`.

        If some events of a batch were taken one by one, it is the rest of that.

        Raises:
            TimeoutError: nothing came in time; nothing was lost.
        """
        reader = self._reader
        self._check_process()  # an iterator over batches has the method itself
        try:
            while (batch := reader.handout.take_batch()) is None:
                wait = reader.fill() if timeout_s is None else reader.fill_within(timeout_s)
                self._thread.run(wait)
                if reader.handout.is_taken:
                    break
            return batch
        except OURS as error:
            inner, failure = error, outward(error)
        reader.handout.on_told(inner)
        raise failure

    def batches(self) -> Iterator[EventBatch]:
        """Iterate over batches until the end. Raises as :meth:`next_batch`, and may go on after that."""
        return iter(self.next_batch, None)

    def __iter__(self) -> Self:
        """Iterate over events until the end; the position follows each of them."""
        return self

    def __next__(self) -> Event:
        """Return the next event. Raises as :meth:`next_batch`."""
        reader = self._reader
        try:
            while (event := reader.handout.take_event()) is None:
                self._thread.run(reader.fill())
                if reader.handout.is_taken:  # else it was recalled meanwhile: ask again
                    raise StopIteration
            return event
        except OURS as error:
            inner, failure = error, outward(error)
        reader.handout.on_told(inner)
        raise failure

    def close(self) -> None:
        """Stop reading. Idempotent."""
        self._thread.finish(self._reader.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventReader(SegmentInputs):
    """Reads the events of a stream between two cuts. One consumer at a time.

    It is an iterator over events. A caller that stops, or whose wait ends by Ctrl-C or by time, goes on right
    behind the last event or batch that was handed out: in a new loop, with the same iterator, or by batches.
    """

    def __init__(self, reader: event_reader.EventReader, thread: LoopThread) -> None:
        super().__init__(reader, thread)
        self._walk = reader

    def position(self) -> StreamCut:
        """Return the cut behind the last event or batch that was handed out.

        Events that an error has said to be gone lie in front of it.
        """
        return self._thread.call(self._walk.position)


class SegmentRangeReader(OfOneProcess):
    """The bytes ``[start, end)`` of a segment. One consumer at a time.

    A caller that stops, or whose wait ends by Ctrl-C, goes on behind the last block, or batch, that was
    handed out. It is read as bytes or as events, as it was begun.
    """

    def __init__(self, part: segment_range.SegmentRangeReader, thread: LoopThread) -> None:
        self._part = part
        self._thread = thread
        self._blocks = LoopIterator(thread, part.blocks())
        self._batches = LoopIterator(thread, part.batches())

    def __repr__(self) -> str:
        return waiting(repr(self._part))

    def blocks(self) -> Iterator[memoryview]:
        """Iterate over the bytes in large pieces; each piece belongs to the caller."""
        return self._blocks

    def batches(self) -> Iterator[EventBatch]:
        """Iterate over whole events; the range has to begin where one starts and end where one ends."""
        return self._batches

    def read_all(self) -> bytes:
        """Return all bytes that are left at once."""
        try:
            self._thread.run(self._part.hold_all())
            return self._part.take_all()
        except OURS as error:
            failure = outward(error)
        raise failure

    def __iter__(self) -> Iterator[memoryview]:
        return self._blocks

    def close(self) -> None:
        """Stop reading. Idempotent."""
        self._thread.finish(self._part.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

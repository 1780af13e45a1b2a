"""Writers for threads. One event costs an append to a list: the loop's thread is woken once per batch, not
per event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headrace.client.block_exit import beside
from headrace.client.blocking.acks import Ack, AckCondition
from headrace.client.blocking.given_batch import own_batch, own_list
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.description import described, writer_state
from headrace.client.forks import OfOneProcess
from headrace.client.framing.event_frames import check_length
from headrace.client.public_calls import outward
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.writer import ack as on_loop
from headrace.client.writer.routed_writer import (
    MANY_BYTES_MAX,
    RoutedWriter,
    WriterStatistics,
    refuse_number,
)
from headrace.client.writer.routing import check_key
from headrace.errors import ClosedError, EventTooLargeError, HeadraceError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES

T = TypeVar("T")

_MANY: Final = 32
"""From so many events on it pays to frame and route a batch as a whole."""


def _settle_part(whole: on_loop.Ack, part: on_loop.Ack) -> None:
    whole.settle_part(part.error())


class Writer(OfOneProcess):
    """Writes events to a stream or a transaction from any thread.

    ``write`` waits only while the window is full. Closing makes everything durable.
    """

    def __init__(self, writer: RoutedWriter, thread: LoopThread) -> None:
        self._writer = writer
        self._thread = thread
        self._form = writer.take_form()
        """Values become bytes, or records, in the thread that writes them."""
        self._plain = self._form.plain
        self._lock = threading.Lock()
        self._condition = AckCondition(self._lock, self)
        self._queue: list[tuple[Ack, Callable[[], on_loop.Ack] | None]] = []
        """Handed over in order: batches of single events, and calls that bring many."""
        self._open: Ack | None = None
        """The last of the queue, if it still takes single events."""
        self._unacknowledged_bytes = 0
        self._waiting = 0
        self._error: BaseException | None = None
        self._is_ended = False
        self._failed: list[Ack] = []
        writer.face = self

    @property
    def scope(self) -> str:
        return self._writer.scope

    @property
    def stream(self) -> str:
        return self._writer.stream

    def __repr__(self) -> str:
        state = writer_state(
            closed=self._writer.stopped, error=self._error, unacknowledged_bytes=self._unacknowledged_bytes
        )
        return described(type(self).__name__, f"{self.scope}/{self.stream}", self._writer.uri, state)

    def write(
        self,
        event: Any,
        key: str | None = None,
        *,
        time: Time | None = None,
        headers: Headers | None = None,
        number: int | None = None,
    ) -> Ack:
        """Take one event. Events of one key written by one thread keep their order.

        >>> writer.write(b"hello", "some key").wait()           # durable once this returns

        Args:
            event: bytes, text, or what the serializer of the writer takes.
            key: events of one key are read in the order of their writes; None: they are spread.
            time: of a record, that is of an event of a stream with ``records=True``: a ``datetime`` with a
                zone, or ms since 1970; None: now.
            headers: of a record, names with bytes or text.
            number: of the event, for a writer with a name; see :class:`NamedWriter`.

        Returns:
            What stands for the batch the event is in: ``wait()`` for it to know that the event is durable.

        Raises:
            InvalidArgumentError: the event is none, or empty, the key no string, or the stream has no records
                and there is a time or a header.
            EventTooLargeError: it is larger than 2 GiB, or than 8 MiB in a transaction.
            HeadraceError: why the writer failed earlier.
        """
        try:
            if number is not None:
                refuse_number()
            if key is not None and type(key) is not str:
                check_key(key)
            if type(event) is not self._plain or time is not None or headers is not None:
                event = self._form.one(event, key, time, headers)
            size = len(event)
            if not 0 < size <= EVENT_BYTES_MAX:
                check_length(size, self._writer.event_bytes_max)
                take = partial(self._writer.write, event, key)
                return self._hand_over_call(take, 1, size + EVENT_HEADER_BYTES)
            size += EVENT_HEADER_BYTES
            with self._lock:
                writer, full = self._writer, self._unacknowledged_bytes >= self._writer.window_bytes
                if full or self._error is not None or writer.stopped:
                    self._wait_for_window()
                self._unacknowledged_bytes += size
                batch = self._open
                if batch is not None and batch.size_bytes + size <= MANY_BYTES_MAX:
                    batch.events.append(event)
                    batch.keys.append(key)
                    batch.size_bytes += size
                    return batch
                batch = self._open = Ack(self._condition)
                batch.events.append(event)
                batch.keys.append(key)
                batch.size_bytes = size
                self._queue.append((batch, None))
                is_first = len(self._queue) == 1
            if is_first:
                self._wake_loop()
            return batch
        except HeadraceError as error:  # here, for a call around this one would cost each event a tenth
            failure = outward(error)
        raise failure

    def write_many(
        self, events: Any, keys: Any = None, *, times: Any = None, headers: Any = None, numbers: Any = None
    ) -> Ack:
        """Take many events without an object per event; see :meth:`EventWriter.write_many`.

        Framing and routing happen on the loop's thread. The caller may change its lists at once.

        Raises:
            InvalidArgumentError: an event is null, empty or too large, or keys are no strings or differ in
                number; no event was taken.
            HeadraceError: why the writer failed earlier.
        """
        if numbers is not None:
            refuse_number()
        given = self._form.many(events, keys, times, headers)
        own, own_keys, size_bytes = own_batch(given, keys, self._writer.event_bytes_max)
        return self._hand_over_call(lambda: self._writer.write_many(own, own_keys), len(own), size_bytes)

    def write_atomic(
        self,
        events: Sequence[Any],
        key: str,
        *,
        times: Any = None,
        headers: Any = None,
        number: int | None = None,
    ) -> Ack:
        """Take several events of one key that are stored together or not at all.

        Times and headers are those of :meth:`write_many`.

        Raises:
            EventTooLargeError: with their headers they exceed 8 MiB.
            HeadraceError: as :meth:`write`.
        """
        if number is not None:
            refuse_number()
        own, size_bytes = self._own_atomic(events, key, times, headers)
        take = partial(self._writer.write_atomic, own, key)
        return self._hand_over_call(take, len(own), size_bytes)

    def _own_atomic(
        self, events: Sequence[Any], key: str, times: Any, headers: Any
    ) -> tuple[list[bytes], int]:
        check_key(key)
        own, size_bytes = own_list(list(self._form.many(events, key, times, headers))) if events else ([], 0)
        limit = EVENT_BYTES_MAX + EVENT_HEADER_BYTES
        if size_bytes > limit:
            raise EventTooLargeError(size_bytes, limit)
        return own, size_bytes

    def _hand_over_call(self, take: Callable[[], on_loop.Ack], event_count: int, size_bytes: int) -> Ack:
        """Queue one call behind what was written before it."""
        with self._lock:
            if not self._can_write():
                self._wait_for_window()
            batch = Ack(self._condition)
            batch.event_count = event_count
            batch.size_bytes = size_bytes
            self._unacknowledged_bytes += size_bytes
            self._open = None
            self._queue.append((batch, take))
            is_first = len(self._queue) == 1
        if is_first:
            self._wake_loop()
        return batch

    def _wake_loop(self) -> None:
        """Let the loop's thread take what has been queued. Raises ClosedError if there is none any more."""
        try:
            self._thread.call_soon(self._hand_over)
        except ClosedError as error:
            with self._lock:
                queue, self._queue = self._queue, []
                self._open = None
            for batch, _ in queue:  # they will not be taken
                self._refuse(batch, error)
            raise

    def _wait_for_window(self) -> None:
        """Wait until the window has free bytes. The condition is locked."""
        self._waiting += 1
        try:
            self._condition.wait_for(lambda: self._can_write() or self._is_refused())
        finally:
            self._waiting -= 1
        if self._is_refused():
            self._writer.on_told()
            raise self._refusal()

    def _is_refused(self) -> bool:
        return self._error is not None or self._writer.stopped

    def _refusal(self) -> BaseException:
        return self._error or self._writer.refusal()

    def _can_write(self) -> bool:
        return self._unacknowledged_bytes < self._writer.window_bytes and not self._is_refused()

    # ------------------------------------------------------------------------------ on the loop's thread

    def count_lost(self) -> int:
        """Return how many events were taken and are not known to be durable, if no caller was notified."""
        return sum(batch.event_count for batch in self._failed if not batch.is_told)

    def on_stop(self) -> None:
        """The writer takes what has been queued, and nothing more."""
        with self._condition:
            self._condition.notify_all()
        self._hand_over()

    def _hand_over(self) -> None:
        """Give what has been queued to the writer."""
        with self._lock:
            queue, self._queue = self._queue, []
            self._open = None
        for batch, take in queue:
            try:
                acks = self._take(batch) if take is None else [take()]
            except Exception as error:  # noqa: BLE001 - waiting callers are notified
                self._refuse(batch, error)
                continue
            if len(acks) == 1:
                acks[0].add_done_callback(partial(self._on_done, batch))
                continue
            whole = on_loop.Ack(len(acks))
            whole.add_done_callback(partial(self._on_done, batch))
            for ack in acks:
                ack.add_done_callback(partial(_settle_part, whole))

    def _take(self, batch: Ack) -> list[on_loop.Ack]:
        events, batch.events = batch.events, []
        batch.event_count = len(events)
        keys, batch.keys = batch.keys, []
        writer = self._writer
        if len(events) >= _MANY:
            first = keys[0]
            if keys.count(first) == len(keys):
                return [writer.write_many(events, first)]
            if None not in keys:
                return [writer.write_many(events, keys)]
        # Within one iteration of the loop few different acks stand for all of these events.
        acks = [writer.write(event, key) for event, key in zip(events, keys, strict=True)]
        return list(dict.fromkeys(acks))

    def _refuse(self, batch: Ack, error: Exception) -> None:
        """Fail the writer: it took nothing of a batch. Batches behind it would lose their order, and callers
        that wait for all events have to be notified.
        """
        with self._condition:
            if self._error is None:
                self._error = error
        self._settle(batch, error)

    def _on_done(self, batch: Ack, ack: on_loop.Ack) -> None:
        self._settle(batch, ack.error())

    def _settle(self, batch: Ack, error: BaseException | None) -> None:
        with self._condition:
            self._unacknowledged_bytes -= batch.size_bytes
            batch.settle(error)
            if error is not None:
                self._failed.append(batch)
                self._error = self._error or self._writer.error
            self._condition.notify_all()

    # ------------------------------------------------------------------------------ waiting

    def flush(self, timeout_s: float | None = None) -> None:
        """Wait until every event taken so far is durable.

        Raises:
            TimeoutError: they are not yet.
            HeadraceError: why one of them is not.
        """
        self._run(self._flush(), timeout_s)

    def _run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run what waits for events. A loop that has ended is why, unless there is a better reason."""
        try:
            return self._thread.run(coroutine, timeout_s)
        except ClosedError:
            if self._error is not None:
                raise self._error from None
            raise

    async def _flush(self) -> None:
        self._hand_over()
        await self._writer.flush()
        self._check_taken()

    def _check_taken(self) -> None:
        """Raise why not all of what was given so far was taken, or is durable."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Make everything durable, then leave. Idempotent.

        Interrupted, it takes nothing any more, and the next call waits for the rest.

        Raises:
            HeadraceError: why an event is not durable; the writer is closed even then.
        """
        if not self._is_ended and not self._writer.is_ended:
            self._run(self._close())

    async def _close(self) -> None:
        try:
            await self._writer.close()
            self._check_taken()
        except HeadraceError:
            self._is_ended = True
            raise

    def statistics(self) -> WriterStatistics:
        """Return gauges of now and counts since creation."""
        return self._thread.call(self._writer.statistics)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with beside(error):
            self.close()

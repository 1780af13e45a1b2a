"""Writers with a name for threads: each call is handed to the loop in the order of its numbers."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.client.blocking.acks import Ack
from headrace.client.blocking.event_times import EventWriter
from headrace.client.blocking.given_batch import own_batch
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.framing.event_frames import check_length
from headrace.client.public_calls import outward
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.writer import ack as on_loop
from headrace.client.writer import event_writer, named_writer
from headrace.client.writer.large_block import Progress
from headrace.client.writer.numbers import NONE, check_number, checked_numbers
from headrace.client.writer.routed_writer import MANY_BYTES_MAX
from headrace.client.writer.routing import check_key
from headrace.errors import HeadraceError
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES

Single = tuple[bytes, str | None, int | None]
"""An event with its key and its number."""


class NamedWriter(EventWriter):
    """Writes numbered events; each is stored once, however often it is given, and whichever process does.

    As long as the stream retains the segments of the last writes, and an event that is given again has its
    number and its key. Opened by :meth:`Client.event_writer` with a name; one process at a time uses a name.
    """

    def __init__(self, writer: named_writer.NamedWriter, thread: LoopThread) -> None:
        super().__init__(writer, thread)
        self._order = threading.Lock()
        """Held while a number is taken and its event queued."""
        self._last = NONE
        self._singles: list[Single] = []
        """The last ones that were given one by one."""
        self._singles_ack: Ack | None = None

    @property
    def name(self) -> str:
        return self._event_writer.writer_id

    @property
    def durable_number(self) -> int | None:
        """Events up to this number are durable, all of them; None: that is not known of any."""
        return self._thread.call(lambda: self._event_writer.durable_number)

    def write(
        self,
        event: Any,
        key: str | None = None,
        *,
        time: Time | None = None,
        headers: Headers | None = None,
        number: int | None = None,
    ) -> Ack:
        """Take one event, unless it is durable already.

        >>> writer.write(b"hello", "some key", number=17).wait()

        Args:
            event: bytes, text, or what the serializer of the writer takes.
            key: events of one key are read in the order of their writes; None: the number decides where the
                event goes.
            time: of a record, as there.
            headers: of a record, as there.
            number: greater than the one before; the same event has the same one, and the same key, whenever
                it is given.

        Raises:
            InvalidArgumentError: as :meth:`EventWriter.write`, or the number does not rise.
            HeadraceError: why the writer failed earlier.
        """
        try:
            if key is not None:
                check_key(key)
            if type(event) is not self._plain or time is not None or headers is not None:
                event = self._form.one(event, key, time, headers)
            check_length(len(event), self._writer.event_bytes_max)
            size = EVENT_HEADER_BYTES + len(event)
            with self._order:
                check_number(number, self._last)
                if size > EVENT_BYTES_MAX:
                    take = partial(self._writer.write, event, key, number=number)
                    ack = self._hand_over_call(take, 1, size)
                else:
                    ack = self._join((event, key, number), size) or self._begin((event, key, number), size)
                self._last = number or 0
                return ack
        except HeadraceError as error:
            failure = outward(error)
        raise failure

    def _begin(self, single: Single, size_bytes: int) -> Ack:
        """Queue an event that others may join."""
        singles = [single]
        ack = self._hand_over_call(partial(self._take_singles, singles), 1, size_bytes)
        self._singles, self._singles_ack = singles, ack
        return ack

    def _join(self, single: Single, size_bytes: int) -> Ack | None:
        """Add an event to those that wait to be handed over, unless something else was given since."""
        with self._lock:
            ack = self._singles_ack
            if ack is None or not self._queue or self._queue[-1][0] is not ack or not self._can_write():
                return None
            if ack.size_bytes + size_bytes > MANY_BYTES_MAX:
                return None
            self._singles.append(single)
            ack.event_count += 1
            ack.size_bytes += size_bytes
            self._unacknowledged_bytes += size_bytes
            return ack

    def _take_singles(self, singles: list[Single]) -> on_loop.Ack:
        """Give single events to the writer; nothing joins them any more."""
        events, keys, numbers = map(list, zip(*singles, strict=True))
        if None not in keys:
            return self._writer.write_many(events, keys, numbers=numbers)
        if keys.count(None) == len(keys):
            return self._writer.write_many(events, numbers=numbers)
        whole = on_loop.Ack(len(singles))
        for event, key, number in singles:
            part = self._writer.write(event, key, number=number)
            part.add_done_callback(lambda part: whole.settle_part(part.error()))
        return whole

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
        """Write one event of any size; see :meth:`EventWriter.write_large`."""
        with self._order:
            super().write_large(event, key, time=time, headers=headers, number=number, progress=progress)

    def _check_number(self, number: int | None) -> None:
        check_number(number, self._last)

    def _on_number(self, number: int | None) -> None:
        self._last = number or 0

    def write_many(
        self, events: Any, keys: Any = None, *, times: Any = None, headers: Any = None, numbers: Any = None
    ) -> Ack:
        """Take many events, without those that are durable already; see :meth:`EventWriter.write_many`.

        Args:
            events: as there.
            keys: as there; without keys, numbers decide where events go.
            times: of records, as there.
            headers: of records, as there.
            numbers: the number of the first event, the others have those that follow; or one for each (a
                sequence, or an array), which rise.

        Raises:
            InvalidArgumentError: as there, or numbers do not rise; no event was taken.
            HeadraceError: why the writer failed earlier.
        """
        given = self._form.many(events, keys, times, headers)
        own, own_keys, size_bytes = own_batch(given, keys, self._writer.event_bytes_max)
        with self._order:
            given = checked_numbers(numbers, len(own), self._last) if len(own) else ()
            given = given if isinstance(given, range) else list(given)
            take = partial(self._writer.write_many, own, own_keys, numbers=given)
            ack = self._hand_over_call(take, len(own), size_bytes)
            self._last = given[-1] if given else self._last
            return ack

    def write_atomic(
        self,
        events: Sequence[Any],
        key: str,
        *,
        times: Any = None,
        headers: Any = None,
        number: int | None = None,
    ) -> Ack:
        """Take several events of one key under one number; they are stored together or not at all.

        Raises:
            EventTooLargeError: with their headers they exceed 8 MiB.
            HeadraceError: as :meth:`write`.
        """
        own, size_bytes = self._own_atomic(events, key, times, headers)
        with self._order:
            check_number(number, self._last)
            take = partial(self._writer.write_atomic, own, key, number=number)
            ack = self._hand_over_call(take, len(own), size_bytes)
            self._last = number or 0
            return ack


def writer_for_threads(writer: event_writer.EventWriter, thread: LoopThread) -> EventWriter:
    """Return the face of a writer, with a name or without."""
    if isinstance(writer, named_writer.NamedWriter):
        return NamedWriter(writer, thread)
    return EventWriter(writer, thread)

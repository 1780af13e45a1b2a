"""Takes events, finds the segment of each by its key, and bounds unacknowledged bytes: what all event writers
share.

``write`` never waits: it takes the event and returns an :class:`Ack`. Awaiting the ack means durable; not
awaiting it means that blocks overlap, which is where throughput comes from. A caller that does not await acks
calls :meth:`drain` now and then, as with asyncio's streams; a writer that is over its window refuses with
``ThrottledError``.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from headrace.client.config import WriterConfig
from headrace.client.description import described, writer_state
from headrace.client.framing.event_frames import (
    SHORT_EVENT_BYTES,
    SHORT_HEADERS,
    cut_into_blocks,
    event_header,
    event_lengths,
    frame_ends,
    frame_list,
    frame_pieces,
    gather_frames,
    interleave,
)
from headrace.client.records.columns import RecordColumn
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import EventForm, PlainForm, RecordList, Time
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import SegmentMap
from headrace.client.services import ClientServices
from headrace.client.vectors import is_arrow
from headrace.client.writer.ack import Ack, settle_parts
from headrace.client.writer.closable_writer import ClosableWriter
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.large_block import LargeEvent
from headrace.client.writer.large_source import LargeSource
from headrace.client.writer.places import Places, choose_places, resolve_places, slice_places
from headrace.client.writer.routing import KeyPositions, SpreadPositions, check_key, checked_keys
from headrace.client.writer.segment_output import SegmentOutput
from headrace.client.writer.waiting_batches import WAITING_EVENTS_MAX, WaitingBatches
from headrace.errors import (
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    ThrottledError,
)
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES, MIB
from headrace.model.key_space import key_position

MANY_BYTES_MAX: Final = 512 * MIB
"""What one ``write_many`` may bring along. Larger ones are cut by the caller."""


def refuse_number() -> NoReturn:
    """A writer without a name was given the number of an event. Raises InvalidArgumentError."""
    raise InvalidArgumentError(
        "a number is for a writer that outlives its process: open it with a name, as in name='etl-7'"
    )


@dataclass(slots=True)
class WriterStatistics:
    """What a writer holds now, and what it has made durable since it was made."""

    bytes_held: int
    bytes_held_max: int
    segments: int
    blocks_in_flight: int
    events_durable: int
    bytes_durable: int


class RoutedWriter(ClosableWriter):
    """Routes events to outputs; subclasses say what happens when a segment ends. Used on one loop."""

    event_bytes_max = EVENT_BYTES_MAX
    """Of one event."""

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        config: WriterConfig,
        segments: SegmentMap,
        form: EventForm | None = None,
    ) -> None:
        super().__init__(f"{scope}/{stream}", services.open_writers)
        self.scope = scope
        self.stream = stream
        self._form = form or PlainForm(f"{scope}/{stream}")
        self._plain = self._form.plain
        self._default_key: str | None = None
        """Of events without a key; no part of them."""
        self._services = services
        self._config = config
        self._map = segments
        self._outputs: dict[int, SegmentOutput] = {}
        self._spread = SpreadPositions(services.entropy.token(8))
        self._key_positions = KeyPositions()
        self._waiting = WaitingBatches()
        self._division_is_scheduled = False
        self._inner_bounds: list[float] = []
        self._route: list[SegmentOutput | None] = []
        self._only_output: SegmentOutput | None = None
        self._unacknowledged_bytes = 0
        self.window_bytes = 0
        """What it may hold; grows with the stream. Any thread may look."""
        self._limit_bytes = 0
        """Writing is refused from here on; -1 once the writer is closed or has failed."""
        self._remember_route()
        self._window_waiters: list[asyncio.Future[None]] = []
        self._events_durable = 0
        self._bytes_durable = 0

    @property
    def uri(self) -> str:
        """Of the controllers of its client."""
        return self._services.uri

    def __repr__(self) -> str:
        state = writer_state(
            closed=self.stopped, error=self._error, unacknowledged_bytes=self._unacknowledged_bytes
        )
        return described(f"aio.{type(self).__name__}", f"{self.scope}/{self.stream}", self.uri, state)

    # ------------------------------------------------------------------------------ writing

    def write(
        self,
        event: Any,
        key: str | None = None,
        *,
        time: Time | None = None,
        headers: Headers | None = None,
        number: int | None = None,
    ) -> Ack:
        """Take one event. Events of one key keep their order.

        >>> await writer.write(b"hello", "some key")            # durable once this returns

        Args:
            event: bytes, text, or what the serializer of the writer takes.
            key: events of one key are read in the order of their writes; None: they are spread.
            time: of a record, that is of an event of a stream with ``records=True``: a ``datetime`` with a
                zone, or ms since 1970; None: now.
            headers: of a record, names with bytes or text.
            number: of the event, for a writer with a name; see :class:`NamedWriter`.

        Returns:
            What stands for the block the event is in: await it to know that the event is durable.

        Raises:
            ThrottledError: the window is full; await :meth:`drain` first. Nothing was taken.
            InvalidArgumentError: the event is none, or empty, the key no string, or the stream has no records
                and there is a time or a header.
            EventTooLargeError: it is larger than 2 GiB, or than 8 MiB in a transaction.
            StreamSealedError: the stream takes no more events.
            HeadraceError: why the writer failed earlier.
        """
        if self._unacknowledged_bytes >= self._limit_bytes or number is not None:
            self._refuse(number)
        if key is not None and type(key) is not str:
            check_key(key)
        if type(event) is not self._plain or time is not None or headers is not None:
            event = self._form.one(event, key, time, headers)  # the caller may change it before it is sent
        if key is None:
            key = self._default_key
        size = len(event)
        if size > EVENT_BYTES_MAX:
            return self._take_large(LargeEvent(LargeSource(event)), key)
        header = SHORT_HEADERS[size] if 0 < size < SHORT_EVENT_BYTES else event_header(size)
        size += EVENT_HEADER_BYTES
        if self._waiting.count:
            self._divide_waiting()
        self._unacknowledged_bytes += size
        place: float | str | None = key
        output = self._only_output
        if output is None:
            place = self._spread.next() if key is None else key_position(key)
            index = bisect_left(self._inner_bounds, place)
            output = self._route[index] or self._open_route(index)
        return output.add_event(header, event, place, size)

    def _take_large(self, event: LargeEvent, routing_key: str | None) -> Ack:  # noqa: ARG002
        raise EventTooLargeError(len(event), EVENT_BYTES_MAX)

    def _remember_route(self) -> None:
        """Prepare the way of single events after the map or the outputs changed."""
        self._inner_bounds = self._map.highs[:-1]
        self._route = [self._outputs.get(segment_id) for segment_id in self._map.ids]
        self._only_output = self._route[0] if len(self._route) == 1 else None
        self.window_bytes = max(self.window_bytes, self._config.window_bytes(len(self._route)))
        if self._limit_bytes >= 0:
            self._limit_bytes = self.window_bytes

    def _open_route(self, index: int) -> SegmentOutput:
        """Open the output of a segment at its first use since the map changed."""
        output = self._route[index] = self._output(self._map.ids[index])
        if len(self._route) == 1:
            self._only_output = output
        return output

    def write_atomic(
        self,
        events: Sequence[Any],
        key: str,
        *,
        times: Any = None,
        headers: Any = None,
        number: int | None = None,
    ) -> Ack:
        """Take several events of one key that are stored together or not at all, next to each other.

        Times and headers are those of :meth:`write_many`.

        Raises:
            EventTooLargeError: with their headers they exceed 8 MiB.
            HeadraceError: as :meth:`write`.
        """
        self._check_can_write(number)
        check_key(key)
        if not events:
            return Ack()
        data, _ = frame_list(list(self._form.many(events, key, times, headers)))
        if len(data) > EVENT_BYTES_MAX + EVENT_HEADER_BYTES:
            raise EventTooLargeError(len(data), EVENT_BYTES_MAX + EVENT_HEADER_BYTES)
        position = key_position(key)
        ack = Ack(1)
        self._divide_waiting()
        block = Block([data], len(data), len(events), position, [ack])
        self._take_block(self._map.segment_at(position), block)
        return ack

    def write_many(
        self, events: Any, keys: Any = None, *, times: Any = None, headers: Any = None, numbers: Any = None
    ) -> Ack:
        """Take many events without a Python object per event where possible.

        Args:
            events: a sequence of what :meth:`write` takes, or a ``pyarrow`` array of binary or string values,
                which are written as they are.
            keys: one key for all; or a sequence of str or a ``pyarrow`` array of strings, one per event; or
                None: events are spread evenly.
            times: of records: one for all, as in :meth:`write`; or a sequence or a ``pyarrow`` array, one per
                event; or None: now.
            headers: of records: those of all, or a sequence with those of each.
            numbers: of the events, for a writer with a name; see :class:`NamedWriter`.

        Returns:
            What stands for all of them.

        Raises:
            ThrottledError: the window was full already. Up to a full window, all events are taken, whatever
                their size, so at most one batch of at most 512 MiB exceeds the window.
            InvalidArgumentError: an event is null, empty or too large, or keys and events differ in number;
                no event was taken.
            HeadraceError: as :meth:`write`.
        """
        self._check_can_write(numbers)
        count = len(events)
        ack = Ack(1)  # one part of its own, so that it cannot be done before everything was taken
        if count:
            places = self._places(count, keys)
            events = self._form.many(events, keys, times, headers)
            if is_arrow(events) or isinstance(events, RecordColumn):
                self._take_arrow(events, places, ack)
            elif isinstance(events, RecordList):
                self._take_list(events.values, places, ack, events.prefixes)
            else:
                self._take_list(events, places, ack)
        ack.settle_part()
        return ack

    def _take_arrow(self, events: Any, places: Places, ack: Ack) -> None:
        pieces = frame_pieces(events, MANY_BYTES_MAX) if is_arrow(events) else events.frame_pieces()
        self._divide_waiting()
        for data, ends, first in pieces:
            self._take_framed(data, ends, slice_places(places, first, first + len(ends)), ack)

    def take_form(self) -> EventForm:
        """Return how events are written, which the caller sees to from now on: they come as bytes."""
        form, self._form = self._form, PlainForm()
        self._plain = bytes
        return form

    def _places(self, count: int, routing_keys: Any) -> Places:
        """Check keys and return places, resolved if the stream has several segments."""
        if routing_keys is not None and not isinstance(routing_keys, str):
            if len(routing_keys) != count:
                raise InvalidArgumentError(f"{len(routing_keys)} keys do not fit {count} events")
            if len(self._map.ids) > 1:
                return self._key_positions.of(routing_keys)
            routing_keys = checked_keys(routing_keys)
        if len(self._map.ids) > 1:
            return resolve_places(routing_keys, count, self._spread)
        return routing_keys

    def _take_framed(self, data: memoryview, ends: Any, places: Places, ack: Ack) -> None:
        """Divide framed events among segments, cut them into blocks and queue those."""
        targets = self._targets(places)
        if isinstance(targets, int):
            self._take_part(targets, data, ends, places, ack)
            return
        for segment_id, chosen in targets:
            part, part_ends = gather_frames(data, ends, chosen)
            self._take_part(segment_id, part, part_ends, choose_places(places, chosen), ack)

    def _targets(self, places: Places) -> int | list[tuple[int, Any]]:
        return self._map.ids[0] if len(self._map.ids) == 1 else self._map.targets(places)

    def _take_part(self, segment_id: int, data: memoryview, ends: Any, places: Places, ack: Ack) -> None:
        for first, after in cut_into_blocks(ends, self._config.block_bytes_max):
            part = data[int(ends[first - 1]) if first else 0 : int(ends[after - 1])]
            ack.add_parts(1)
            block = Block([part], len(part), after - first, slice_places(places, first, after), [ack])
            self._take_block(segment_id, block)

    def _take_list(
        self, events: Sequence[bytes], places: Places, ack: Ack, prefixes: list[bytes] | None = None
    ) -> None:
        """Take ``bytes``, which are referred to until they are durable, not copied."""
        lengths = event_lengths(events, prefixes)
        total = sum(lengths) + EVENT_HEADER_BYTES * len(lengths)
        if total > MANY_BYTES_MAX:
            raise EventTooLargeError(total, MANY_BYTES_MAX)
        self._unacknowledged_bytes += total
        if len(self._map.ids) == 1 or isinstance(places, float):
            self._divide_waiting()
            segment_id = self._map.ids[0] if len(self._map.ids) == 1 else self._map.segment_at(places)
            parts, ends = interleave(events, lengths, prefixes), frame_ends(lengths)
            for first, after in cut_into_blocks(ends, self._config.block_bytes_max):
                size = ends[after - 1] - (ends[first - 1] if first else 0)
                mine = slice_places(places, first, after)
                ack.add_parts(1)
                block = Block(parts[2 * first : 2 * after], size, after - first, mine, [ack])
                self._output(segment_id).add_block(block)
            return
        self._waiting.add(events, lengths, places, ack, prefixes)
        if self._waiting.count >= WAITING_EVENTS_MAX:
            self._divide_waiting()
        elif not self._division_is_scheduled:
            self._division_is_scheduled = True
            asyncio.get_running_loop().call_soon(self._on_iteration)

    def _on_iteration(self) -> None:
        self._division_is_scheduled = False
        self._divide_waiting()

    def _divide_waiting(self) -> None:
        """Give the batches of this iteration to their segments, before anything else goes there."""
        if not self._waiting.count:
            return
        shares, acks = self._waiting.take_shares(self._map, self._config.block_bytes_max)
        outputs = self._outputs
        for segment_id, parts, places, size, share_acks in shares:
            output = outputs.get(segment_id) or self._output(segment_id)
            output.add_events(parts, places, size, share_acks)
        settle_parts(acks)

    def _take_block(self, segment_id: int, block: Block) -> None:
        self._unacknowledged_bytes += block.size_bytes
        self._output(segment_id).add_block(block)

    def _output(self, segment_id: int) -> SegmentOutput:
        output = self._outputs.get(segment_id)
        if output is None:
            output = self._outputs[segment_id] = self._new_output(self._address(segment_id))
        return output

    def _new_output(self, address: SegmentAddress) -> SegmentOutput:
        return SegmentOutput(address, self._services, self._config, self)

    def _address(self, segment_id: int) -> SegmentAddress:
        return SegmentAddress(self.scope, self.stream, segment_id)

    def _check_can_write(self, number: Any = None) -> None:
        if self._unacknowledged_bytes >= self._limit_bytes or number is not None:
            self._refuse(number)

    def _refuse(self, number: Any = None) -> None:
        if number is not None:
            refuse_number()
        if self.stopped:
            if self.face is None:
                self.on_told()
            raise self.refusal()
        raise ThrottledError(
            f"{self._unacknowledged_bytes} bytes of {self.scope}/{self.stream} are unacknowledged: "
            "await drain()"
        )

    # ------------------------------------------------------------------------------ waiting

    @property
    def bytes_held(self) -> int:
        """Bytes that were taken and are not durable yet."""
        return self._unacknowledged_bytes

    async def drain(self) -> None:
        """Wait until at most half of the window is used, so that the next events fit.

        Call it at least once per half a window; between two calls nothing is refused then. Once it has to
        wait, it waits for a sixteenth of the window more: what is given then is divided among segments at
        once.

        Raises:
            HeadraceError: why the writer failed, if it did.
        """
        self._check_loop()
        while self._unacknowledged_bytes > self.window_bytes // 2 and not self.stopped:
            waiter = asyncio.get_running_loop().create_future()
            self._window_waiters.append(waiter)
            await waiter
        if self._error is not None:
            self.on_told()
            raise self._error

    async def _settle(self) -> None:
        await self._barrier()
        if self._error is not None:
            raise self._error

    def _barrier(self) -> Ack:
        self._divide_waiting()
        barrier = Ack(1)
        barrier.is_told = True  # by who waits for it, or is not there any more
        for output in self._outputs.values():
            if output.has_work:
                output.add_barrier(barrier)
        barrier.settle_part()
        return barrier

    def _stop_taking(self) -> None:
        if self._error is not None:
            self._limit_bytes = -1  # at once: what a face still holds may not overtake what was lost
        super()._stop_taking()
        self._limit_bytes = -1
        self._wake_waiters()

    def _go_on_taking(self) -> None:
        """Undo :meth:`_stop_taking`, unless the writer has failed."""
        if self._error is None:
            self.stopped = False
            self._limit_bytes = self.window_bytes

    def abandon(self, error: HeadraceError) -> None:
        """Leave now. What is not durable fails with ``error``, and the writer with it."""
        self._stop_taking()
        self._divide_waiting()
        outputs, self._outputs = self._outputs, {}
        self._remember_route()
        for output in outputs.values():
            output.leave()
            self._fail_blocks(output, error)
        self._wake_waiters()

    # ------------------------------------------------------------------------------ for outputs

    @property
    def is_loaded(self) -> bool:
        """A quarter of the window is used."""
        return 4 * self._unacknowledged_bytes > self.window_bytes

    def on_durable(self, event_count: int, size_bytes: int) -> None:
        """So much is durable."""
        self._events_durable += event_count
        self._bytes_durable += size_bytes
        self._release(size_bytes)

    def on_left_out(self, size_bytes: int) -> None:
        """So much was given up."""
        self._release(size_bytes)

    def _release(self, size_bytes: int) -> None:
        """Release bytes of the window."""
        self._unacknowledged_bytes -= size_bytes
        if self._window_waiters and self._unacknowledged_bytes <= self.window_bytes // 16 * 7:
            self._wake_waiters()

    @abstractmethod
    def on_segment_ended(self, output: SegmentOutput) -> None:
        """A segment takes no more events."""

    def on_output_failed(self, output: SegmentOutput, error: HeadraceError) -> None:
        """One segment cannot be written: the writer refuses new events, for their order would be lost.

        What other segments have been given is still made durable, or fails on its own.
        """
        self._drop(output, error)

    def _drop(self, output: SegmentOutput, error: HeadraceError) -> None:
        """Refuse everything from now on; what this output holds fails."""
        self._fail(error)
        self._divide_waiting()  # what is meant for this output fails with it
        self._outputs.pop(output.address.segment_id, None)
        self._remember_route()
        self._fail_blocks(output, error)
        self._wake_waiters()

    def _fail_blocks(self, output: SegmentOutput, error: HeadraceError) -> None:
        for block in output.take_blocks():
            self._fail_block(block, error)

    def _fail_block(self, block: Block, error: HeadraceError) -> None:
        if self._error is None:
            self._error = error
        self._failed.append((block.event_count, block.acks))
        self._release(block.size_bytes)
        block.fail(error)

    def _wake_waiters(self) -> None:
        waiters, self._window_waiters = self._window_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def statistics(self) -> WriterStatistics:
        """Return gauges of now and counts since creation."""
        return WriterStatistics(
            bytes_held=self._unacknowledged_bytes,
            bytes_held_max=self.window_bytes,
            segments=len(self._outputs),
            blocks_in_flight=sum(output.statistics().blocks_sent for output in self._outputs.values()),
            events_durable=self._events_durable,
            bytes_durable=self._bytes_durable,
        )

    def check(self) -> None:
        """Assert the invariants."""
        self._map.check()
        self._waiting.check()
        assert self._division_is_scheduled or not self._waiting.count
        for output in self._outputs.values():
            output.check()

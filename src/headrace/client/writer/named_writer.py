"""A writer that outlives its process: events have numbers, and one that is given again is not stored again.

Segments remember the last number of a writer by its name. Opened again, the writer asks all segments that the
stream still has, and drops what is durable; so an application that goes on at a position of its own, with the
same events under the same numbers and keys, doubles nothing. What it goes by is a place in the key space: the
segments that received it, one after the other, are asked for the greatest number.

A segment takes numbers only as they rise. After a scale, what was not stored moves to other segments, which
may have greater numbers already if anything was sent there. So the writer stops sending when it meets a
seal, until it knows what every segment has and which ones there are now::

    sending --a segment has ended--> following --all is settled, the new segments are known--> sending

A process that is killed may have appends on their way. They arrive before the first append of the next
process is stored, or never: a segment refuses an append that does not continue what it has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from headrace.client.framing.event_frames import (
    event_header,
    event_lengths,
    frame_list,
    large_header,
    own_events,
)
from headrace.client.reconnect_policy import Reconnects
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.segment_map import SegmentMap
from headrace.client.vectors import is_arrow
from headrace.client.writer.ack import Ack
from headrace.client.writer.event_writer import EventWriter
from headrace.client.writer.inflight_window import Block
from headrace.client.writer.large_block import LargeBlock, LargeEvent
from headrace.client.writer.large_output import LargeOutput
from headrace.client.writer.large_source import LargeSource
from headrace.client.writer.moved_events import HeldEvents, MovedEvents
from headrace.client.writer.numbered_window import NumberedWindow
from headrace.client.writer.numbers import (
    NONE,
    DurableNumbers,
    NumberedPlace,
    check_number,
    checked_numbers,
    position_of_number,
    wire_id_of,
)
from headrace.client.writer.places import resolve_places
from headrace.client.writer.routed_writer import MANY_BYTES_MAX
from headrace.client.writer.routing import check_key
from headrace.client.writer.segment_output import SegmentOutput
from headrace.errors import (
    EventTooLargeError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    RequestError,
    StreamSealedError,
    UnreachableError,
)
from headrace.limits import EVENT_BYTES_MAX, EVENT_HEADER_BYTES
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.key_space import KeyRange, key_position
from headrace.model.segment_id import epoch_of

_ASKED_AT_ONCE = 32
"""Segments that are asked for a number at the same time."""


class NamedWriter(EventWriter):
    """Writes numbered events; each is stored once, however often it is given, and whichever process does.

    As long as the stream retains the segments of the last writes, and an event that is given again has its
    number and its key. Opened by :meth:`Client.event_writer` with a name; one process at a time uses a name.
    """

    _takes_numbers = True

    def __init__(self, *args: Any, name: str, durable: DurableNumbers, **others: Any) -> None:
        """``durable`` says what earlier processes of this name have made durable."""
        self.name = name
        self._durable = durable
        self._last = NONE
        """The number that was given last."""
        self._lost = -1
        """The first number that is not known to be durable and never will be; -1: there is none."""
        self._windows: dict[int, NumberedWindow] = {}
        self._ended: SegmentOutput | None = None
        """What brought the writer to a stop."""
        self._held = HeldEvents(partial(Ack, 1))
        self._news = asyncio.Event()
        super().__init__(*args, **others)

    @property
    def durable_number(self) -> int | None:
        """Events up to this number are durable, all of them; None: that is not known of any.

        A writer that was just opened knows the least of its segments: some may be further. One that was
        never written to by it has none.
        """
        first: list[int] = [
            places[0].number for each in self._outputs.values() if (places := each.first_places)
        ]
        first += [place.number for place in self._held.places[:1]]
        first += [self._lost] if self._lost >= 0 else []
        number = max(min(first) - 1 if first else self._last, self._durable.least)
        return None if number == NONE else number

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
        """Take one event, unless it is durable already; see :meth:`EventWriter.write`.

        >>> await writer.write(b"hello", "some key", number=17)

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
            HeadraceError: as :meth:`EventWriter.write`.
        """
        self._check_can_write()
        if key is not None:
            check_key(key)
        if type(event) is not self._plain or time is not None or headers is not None:
            event = self._form.one(event, key, time, headers)
        if len(event) > EVENT_BYTES_MAX:
            return self._take_numbered(LargeEvent(LargeSource(event)), key, number)
        header = event_header(len(event))
        return self._take(header, event, self._place(key, number))

    def _take_numbered(self, event: LargeEvent, key: str | None, number: int | None) -> Ack:
        header = large_header(len(event))
        place = self._place(key, number)
        if place.number <= self._durable.at(place):
            return Ack()
        target = self._target(place)
        if isinstance(target, HeldEvents):
            return self._take(header, event, place)
        self._unacknowledged_bytes += len(header) + len(event)
        ack = Ack(1)
        target.add_block(LargeBlock(event, [place], [ack]))
        return ack

    def _place(self, key: str | None, number: int | None) -> NumberedPlace:
        """Return where an event belongs; its number is taken."""
        check_number(number, self._last)
        assert number is not None
        position = position_of_number(number) if key is None else key_position(key)
        self._last = number
        return NumberedPlace.of(position, number)

    def _take(self, header: bytes, event: Any, place: NumberedPlace) -> Ack:
        if place.number <= self._durable.at(place):
            return Ack()
        size = len(header) + len(event)
        self._unacknowledged_bytes += size
        return self._target(place).add_event(header, event, place, size)

    def _target(self, place: float) -> SegmentOutput | HeldEvents:
        return self._held if self._ended is not None else self._output(self._map.segment_at(place))

    def write_atomic(
        self,
        events: Sequence[Any],
        key: str,
        *,
        times: Any = None,
        headers: Any = None,
        number: int | None = None,
    ) -> Ack:
        """Take several events of one key, under one number; see :meth:`EventWriter.write_atomic`."""
        self._check_can_write()
        check_key(key)
        if not events:
            return Ack()
        data, _ = frame_list(list(self._form.many(events, key, times, headers)))
        if len(data) > EVENT_BYTES_MAX + EVENT_HEADER_BYTES:
            raise EventTooLargeError(len(data), EVENT_BYTES_MAX + EVENT_HEADER_BYTES)
        return self._take(b"", data, self._place(key, number))

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
            HeadraceError: as :meth:`EventWriter.write`.
        """
        self._check_can_write()
        count = len(events)
        ack = Ack(1)
        if count:
            owned = self._form.many(events, keys, times, headers)
            owned = own_events(owned.to_pylist()) if is_arrow(owned) else list(owned)
            lengths = event_lengths(owned, bytes_max=self.event_bytes_max)
            if sum(lengths) > MANY_BYTES_MAX:
                raise EventTooLargeError(sum(lengths), MANY_BYTES_MAX)
            numbers = checked_numbers(numbers, count, self._last)
            positions = self._positions(keys, numbers)
            self._last = numbers[-1]
            self._take_all(owned, map(NumberedPlace.of, positions, numbers), ack)
        ack.settle_part()
        return ack

    def _positions(self, routing_keys: Any, numbers: Sequence[int]) -> Sequence[float]:
        count = len(numbers)
        places = self._checked_places(count, routing_keys)
        if places is None:
            return list(map(position_of_number, numbers))
        positions = resolve_places(places, count, self._spread)
        if isinstance(positions, float):
            return [positions] * count
        listed: list[float] = positions if isinstance(positions, list) else positions.tolist()
        return listed

    def _checked_places(self, count: int, routing_keys: Any) -> Any:
        if routing_keys is None or isinstance(routing_keys, str):
            return routing_keys
        if len(routing_keys) != count:
            raise InvalidArgumentError(f"{len(routing_keys)} keys do not fit {count} events")
        return self._key_positions.of(routing_keys)

    def _take_all(self, events: Sequence[bytes], places: Any, ack: Ack) -> None:
        bytes_max = self._config.block_bytes_max
        shares: dict[SegmentOutput | HeldEvents, tuple[list[bytes], list[NumberedPlace]]] = {}
        sizes: dict[SegmentOutput | HeldEvents, int] = {}
        for event, place in zip(events, places, strict=True):
            if place.number <= self._durable.at(place):
                continue
            if len(event) > EVENT_BYTES_MAX:
                self._give_all(shares, sizes, ack)
                self._give_large(event, place, ack)
                continue
            target = self._target(place)
            size = len(event) + EVENT_HEADER_BYTES
            if target in shares and sizes[target] + size > bytes_max:
                parts, mine = shares.pop(target)
                self._give(target, parts, mine, sizes.pop(target), ack)
            parts, mine = shares.setdefault(target, ([], []))
            parts += (event_header(len(event)), event)
            mine.append(place)
            sizes[target] = sizes.get(target, 0) + size
        self._give_all(shares, sizes, ack)

    def _give_all(self, shares: dict[Any, Any], sizes: dict[Any, int], ack: Ack) -> None:
        for target, share in shares.items():
            self._give(target, share[0], share[1], sizes[target], ack)
        shares.clear()
        sizes.clear()

    def _give_large(self, event: bytes, place: NumberedPlace, ack: Ack) -> None:
        block = LargeBlock(LargeEvent(LargeSource(event)), [place], [ack])
        target = self._target(place)
        if isinstance(target, HeldEvents):
            self._give(target, list(block.pieces), [place], block.size_bytes, ack)
            return
        self._unacknowledged_bytes += block.size_bytes
        ack.add_parts(1)
        target.add_block(block)

    def _give(
        self,
        target: SegmentOutput | HeldEvents,
        parts: list[Any],
        places: list[NumberedPlace],
        size: int,
        ack: Ack,
    ) -> None:
        self._unacknowledged_bytes += size
        ack.add_parts(1)
        target.add_events(parts, places, size, [ack])

    # ------------------------------------------------------------------------------ segments

    def _new_output(self, address: SegmentAddress) -> SegmentOutput:
        segment_id = address.segment_id
        key_range = self._map.range_of(segment_id)
        window = NumberedWindow(self.name, address.name, partial(self._durable.raise_to, key_range))
        self._windows[segment_id] = window
        wire_id = wire_id_of(self.name, address.name)
        return LargeOutput(address, self._services, self._config, self, writer_id=wire_id, window=window)

    def _barrier(self) -> Ack:
        barrier = super()._barrier()
        if self._held.places:
            self._held.add_barrier(barrier)
        return barrier

    def on_durable(self, event_count: int, size_bytes: int) -> None:
        """So much is durable."""
        super().on_durable(event_count, size_bytes)
        self._news.set()

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """Stop sending, and find out what there is instead."""
        self._news.set()
        if self._ended is None or self._ended is output:
            self._ended = output
            super().on_segment_ended(output)

    async def _follow(self, output: SegmentOutput) -> None:
        try:
            while any(each.has_work and not each.is_ended for each in self._outputs.values()):
                self._news.clear()
                await self._news.wait()
            if not await self._find_successors(output.address.segment_id):
                raise StreamSealedError(f"stream {self.scope}/{self.stream} is sealed")
            segments = await self._find_newer()
            await self._ask_former(segments)
            if self._outputs.get(output.address.segment_id) is output:
                self._go_on(segments)
        except HeadraceError as error:
            if self._outputs.get(output.address.segment_id) is output:
                self._drop(output, error)

    async def _find_newer(self) -> SegmentMap:
        """Return the segments of the stream once they are newer than those of the map.

        All of one stream epoch are taken at once. Followed one by one, a segment that continues two could be
        sent the events of one before those of the other.
        """
        loop = asyncio.get_running_loop()
        reconnects = Reconnects(self._config.reconnect)
        newest = max(map(epoch_of, self._map.segments()))
        while True:
            try:
                found = await self._services.segments.current(self.scope, self.stream)
                if not found:
                    raise StreamSealedError(f"stream {self.scope}/{self.stream} is sealed")
                if max(epoch_of(each.segment_id) for each in found) > newest:
                    return SegmentMap(found)
                failure: HeadraceError = UnreachableError(
                    f"no segments of {self.scope}/{self.stream} follow those that were sealed"
                )
            except RequestError:
                raise
            except HeadraceError as error:
                failure = error
            delay = reconnects.on_failure(loop.time(), self._services.entropy.random())
            if delay is None:
                raise failure
            await asyncio.sleep(delay)

    async def _ask_former(self, segments: SegmentMap) -> None:
        """Ask sealed segments that were not written to by this process what they have from an earlier one."""
        former = [each for each in self._map.segments() if each not in segments]
        ranges = {each: self._map.range_of(each) for each in former if not self._is_own(each)}
        found = await find_numbers(self._calls, self.scope, self.stream, ranges, self.name)
        for key_range, number in found:
            self._durable.raise_to(key_range, number)

    def _is_own(self, segment_id: int) -> bool:
        window = self._windows.get(segment_id)
        return window is not None and window.is_own

    def _go_on(self, segments: SegmentMap) -> None:
        """Send everything that is not stored to where it belongs now, in one step of the loop."""
        blocks: list[Block] = []
        for segment_id, output in list(self._outputs.items()):
            if output.is_ended or segment_id not in segments:
                output.leave()
                blocks += output.take_blocks()
                del self._outputs[segment_id]
        moved = MovedEvents([*blocks, *self._held.take_blocks()])
        self._ended = None
        self._map = segments
        self._windows = {each: window for each, window in self._windows.items() if each in self._outputs}
        self._remember_route()
        count, size = moved.drop_durable(self._durable)
        if size:
            super().on_durable(count, size)
        for segment_id, block in moved.divide(segments, self._config.block_bytes_max):
            self._output(segment_id).add_block(block)

    # ------------------------------------------------------------------------------ ending

    def _drop(self, output: SegmentOutput, error: HeadraceError) -> None:
        super()._drop(output, error)
        for each in [each for each in self._outputs.values() if each.is_ended]:
            super()._drop(each, error)
        self._fail_held(error)

    def abandon(self, error: HeadraceError) -> None:
        """See :meth:`RoutedWriter.abandon`."""
        super().abandon(error)
        self._fail_held(error)

    def _fail_held(self, error: HeadraceError) -> None:
        """What waits for segments fails: the writer has failed, or was left."""
        for block in self._held.take_blocks():
            self._fail_block(block, error)
        self._ended = None
        self._news.set()

    def _fail_block(self, block: Block, error: HeadraceError) -> None:
        number = block.places[0].number
        self._lost = number if self._lost < 0 else min(self._lost, number)
        super()._fail_block(block, error)


async def find_numbers(
    calls: SegmentCalls, scope: str, stream: str, ranges: dict[int, KeyRange], name: str
) -> list[tuple[KeyRange, int]]:
    """Return the last number of a writer in each of these segments that knows it and still exists."""
    found: list[tuple[KeyRange, int]] = []
    waiting = iter(ranges.items())

    async def ask() -> None:
        for segment_id, key_range in waiting:
            address = SegmentAddress(scope, stream, segment_id)
            try:
                number = await calls.attribute(address, wire_id_of(name, address.name))
            except NoSuchSegmentError:
                continue  # it was truncated meanwhile
            if number != ATTRIBUTE_NULL:
                found.append((key_range, number))

    await asyncio.gather(*(ask() for _ in range(min(len(ranges), _ASKED_AT_ONCE))))
    return found

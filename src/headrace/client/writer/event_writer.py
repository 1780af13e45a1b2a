"""Writes events to a stream, exactly once per event and in order per key, while the stream scales beneath it.

When a segment is sealed, its successors take its place in the map at once, and everything it did not store
follows in its old order before any new event of the same keys. Other segments are not disturbed: the keys
of a sealed segment's siblings keep their segments until those report their own seal, so no append is needed
to find that out early.

A writer may note times: then readers know up to which time the stream is complete.

Source: protocol, "Sealed segment: successor procedure", "Watermarks".
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from operator import add
from typing import Any

from headrace.client.config import WriterConfig
from headrace.client.control.writer_times import WriterTimes, event_time
from headrace.client.framing.event_frames import event_lengths, own_events
from headrace.client.framing.event_framing import STORED_EVENT_BYTES_MAX
from headrace.client.reconnect_policy import Reconnects
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import EventForm, Time
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.segment_map import SegmentMap, Successor
from headrace.client.services import ClientServices
from headrace.client.writer.ack import Ack
from headrace.client.writer.large_block import LargeBlock, LargeEvent, Progress
from headrace.client.writer.large_output import LargeOutput
from headrace.client.writer.large_source import LargeSource, PrefixedSource, source_on_loop
from headrace.client.writer.places import Places, resolve_places, slice_places
from headrace.client.writer.rerouting import divide_block
from headrace.client.writer.routed_writer import MANY_BYTES_MAX, RoutedWriter
from headrace.client.writer.routing import check_key
from headrace.client.writer.segment_output import RESUME_S, SegmentOutput
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    EventTooLargeError,
    HeadraceError,
    NoSuchSegmentError,
    RequestError,
    StreamSealedError,
)
from headrace.limits import EVENT_BYTES_MAX
from headrace.model.key_space import key_position


class EventWriter(RoutedWriter):
    """Made by :meth:`Client.event_writer`. One writer may be shared by all tasks of a loop."""

    event_bytes_max = STORED_EVENT_BYTES_MAX
    _takes_numbers = False

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        config: WriterConfig,
        segments: SegmentMap,
        *,
        calls: SegmentCalls,
        times: WriterTimes,
        writer_id: str | None,
        form: EventForm | None = None,
    ) -> None:
        """``writer_id`` None: a writer of its own, that nobody was before."""
        super().__init__(scope, stream, services, config, segments, form)
        self.writer_id = writer_id or str(uuid.UUID(bytes=services.entropy.uuid4_bytes()))
        """Under which times are noted."""
        self._calls = calls
        self._times = times
        self._is_new = not writer_id
        self._former_lengths: dict[int, int] = {}
        """Of segments to which an earlier writer of this id may have written."""
        self._has_noted = False

    @property
    def durable_number(self) -> int | None:
        """Of a writer with a name: events up to this number are durable. None: no number is known."""
        return None

    def _new_output(self, address: SegmentAddress) -> SegmentOutput:
        return LargeOutput(address, self._services, self._config, self)

    def _take_large(self, event: LargeEvent, routing_key: str | None) -> Ack:
        position = self._spread.next() if routing_key is None else key_position(routing_key)
        ack = Ack(1)
        block = LargeBlock(event, position, [ack])
        self._divide_waiting()
        self._take_block(self._map.segment_at(position), block)
        return ack

    def _take_arrow(self, events: Any, places: Places, ack: Ack) -> None:
        try:
            super()._take_arrow(events, places, ack)
        except EventTooLargeError as error:
            if error.limit_bytes != EVENT_BYTES_MAX:
                raise
            self._take_list(own_events(events.to_pylist()), places, ack)

    def _take_list(
        self, events: Sequence[bytes], places: Places, ack: Ack, prefixes: list[bytes] | None = None
    ) -> None:
        try:
            super()._take_list(events, places, ack, prefixes)
        except EventTooLargeError as error:
            if error.limit_bytes != EVENT_BYTES_MAX:
                raise
            if prefixes is not None:
                events = list(map(add, prefixes, events))
            total = sum(event_lengths(events, bytes_max=self.event_bytes_max))
            if total > MANY_BYTES_MAX:  # before anything is taken
                raise EventTooLargeError(total, MANY_BYTES_MAX) from None
            self._take_some_large(events, resolve_places(places, len(events), self._spread), ack)

    def _take_some_large(self, events: Sequence[bytes], positions: Any, ack: Ack) -> None:
        """Take events of which some are large, in their order."""
        first = 0
        for index, event in enumerate(events):
            if len(event) <= EVENT_BYTES_MAX:
                continue
            if first < index:
                super()._take_list(events[first:index], slice_places(positions, first, index), ack)
            position = positions if isinstance(positions, float) else float(positions[index])
            ack.add_parts(1)
            self._divide_waiting()
            block = LargeBlock(LargeEvent(LargeSource(event)), position, [ack])
            self._take_block(self._map.segment_at(position), block)
            first = index + 1
        if first < len(events):
            super()._take_list(events[first:], slice_places(positions, first, len(events)), ack)

    async def write_large(
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
        >>> await writer.write_large(blocks, "some key", progress=print)
        12 12

        It takes its place among the events of its key when the call begins; one that is copied first, when
        that is done. Events behind it wait in the writer. Cancelled, it is not written, unless that is
        decided already: readers see all of it or nothing.

        Args:
            event: bytes, text, a path, or a binary file, which is read from where it stands, and again if
                the stream scales meanwhile; it must not change. What can be read only once (an iterable of
                bytes, an asynchronous one, a file that cannot seek) is copied to a temporary file first.
            key: as in :meth:`write`.
            time: as in :meth:`write`.
            headers: as in :meth:`write`.
            number: as in :meth:`write`.
            progress: called with how many bytes are stored, and how many there are. It begins anew if the
                event is sent again.

        Raises:
            InvalidArgumentError: it is none of that, or empty, or became shorter.
            EventTooLargeError: it is larger than 2 GiB.
            OSError: it cannot be read.
            HeadraceError: as :meth:`write`, or why it is not durable.
        """
        self._check_can_write(None if self._takes_numbers else number)
        if key is not None:
            check_key(key)
        prefix = self._form.prefix(key, time, headers)
        await self.write_source(await source_on_loop(event), prefix, key, number, progress)

    async def write_source(
        self,
        source: LargeSource,
        prefix: bytes,
        key: str | None,
        number: int | None,
        progress: Progress | None,
    ) -> None:
        """As :meth:`write_large`, with a prefix in front. The source is closed in the end."""
        large = LargeEvent(PrefixedSource(prefix, source) if prefix else source, progress)
        try:
            self._check_can_write()
            await self._take_numbered(large, key, number)
        finally:
            large.is_cancelled = True
            source.close()

    def _take_numbered(self, event: LargeEvent, routing_key: str | None, number: int | None) -> Ack:  # noqa: ARG002
        return self._take_large(event, routing_key)

    async def note_time(self, time: datetime | int) -> None:
        """Make every event durable, then say: those are not younger than ``time``, later ones not older.

        Watermarks are made of what all writers of a stream say; readers see them as time windows. A writer
        that has noted a time is waited for: let it note times regularly, or close it.

        Args:
            time: in a unit that the writers of the stream agree on, such as milliseconds since 1970, which is
                what becomes of a ``datetime``; that has a zone. It never goes back.

        Raises:
            InvalidArgumentError: ``time`` is no signed 64-bit number, and no ``datetime`` with a zone.
            PreconditionError: the writer, or an earlier one with its id, has noted a later time.
            HeadraceError: as :meth:`flush`, or why it is not noted.
        """
        number = event_time(time)
        await self.flush()
        position = await self._durable_position()
        self._has_noted = True
        await self._times.note(self.scope, self.stream, self.writer_id, number, position)

    async def _durable_position(self) -> dict[int, int]:
        """Return offsets in front of which everything lies that was durable at the call; -1: nothing was
        written.

        An offset that is too great makes a watermark late, never wrong: so a segment's length will do where
        the writer cannot know more.
        """
        position: dict[int, int] = {}
        unknown: list[int] = []
        for segment_id in self._map.segments():  # at once: the map follows the stream
            output = self._outputs.get(segment_id)
            if output is not None:
                position[segment_id] = output.segment_length
                if output.segment_length < 0:
                    unknown.append(segment_id)
            elif self._is_new:
                position[segment_id] = -1
            else:
                position[segment_id] = self._former_lengths.get(segment_id, -1)
                if segment_id not in self._former_lengths:
                    unknown.append(segment_id)
        for segment_id in unknown:
            with contextlib.suppress(NoSuchSegmentError):
                info = await self._calls.info(SegmentAddress(self.scope, self.stream, segment_id))
                position[segment_id] = self._former_lengths[segment_id] = info.length
        return position

    async def finish(self) -> None:
        """Make everything durable, then leave; watermarks wait for the writer no more. See :meth:`close`."""
        try:
            await super().finish()
        except HeadraceError:
            await self._remove_times()
            raise
        await self._remove_times()

    async def _remove_times(self) -> None:
        if self._has_noted:
            self._has_noted = False
            with contextlib.suppress(HeadraceError):  # then it is waited for as long as the stream says
                await self._times.remove(self.scope, self.stream, self.writer_id)

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """Find the successors of the segment in the background."""
        name = f"follow {self.scope}/{self.stream}/{output.address.segment_id}"
        try:
            task = self._services.supervisor.spawn(name, self._follow(output))
        except ClosedError as error:
            self._drop(output, error)
        else:
            task.add_done_callback(partial(self._on_follow_ended, output))

    def _on_follow_ended(self, output: SegmentOutput, task: asyncio.Task[None]) -> None:
        """It may be cancelled before it ran, so this cannot be a part of it."""
        if self._outputs.get(output.address.segment_id) is not output:
            return  # it was replaced, or dropped
        if not task.cancelled():
            failure = f"{output.address.name}: finding its successors failed: {task.exception()!r}"
            self._drop(output, ConnectionLostError(failure))
        elif self._services.supervisor.stopped:
            self._drop(output, ClosedError("the client was closed"))
        else:
            asyncio.get_running_loop().call_later(RESUME_S, self._resume, output)

    def _resume(self, output: SegmentOutput) -> None:
        if self._outputs.get(output.address.segment_id) is output:
            self.on_segment_ended(output)

    async def _follow(self, output: SegmentOutput) -> None:
        error: HeadraceError = StreamSealedError(f"stream {self.scope}/{self.stream} is sealed")
        try:
            successors = await self._find_successors(output.address.segment_id)
            if self._outputs.get(output.address.segment_id) is not output:
                return  # the writer was closed meanwhile
            if successors:
                if self._error is None:
                    self._replace(output, successors)
                    return
                error = self._error
        except HeadraceError as failure:
            error = failure
        if self._outputs.get(output.address.segment_id) is output:
            self._drop(output, error)

    async def _find_successors(self, segment_id: int) -> list[Successor]:
        """Ask the controller, as long as it takes a writer to give up."""
        loop = asyncio.get_running_loop()
        reconnects = Reconnects(self._config.reconnect)
        while True:
            try:
                return await self._services.segments.successors(self.scope, self.stream, segment_id)
            except RequestError:
                raise
            except HeadraceError:
                delay = reconnects.on_failure(loop.time(), self._services.entropy.random())
                if delay is None:
                    raise
            await asyncio.sleep(delay)

    def _replace(self, output: SegmentOutput, successors: list[Successor]) -> None:
        """Redirect keys and move what was not stored, in one step of the loop: nothing gets in between."""
        segment_id = output.address.segment_id
        self._map.replace(segment_id, successors)
        del self._outputs[segment_id]
        self._remember_route()
        for block in output.take_blocks():
            for target, part in divide_block(block, self._map, self._spread):
                self._output(target).add_block(part)

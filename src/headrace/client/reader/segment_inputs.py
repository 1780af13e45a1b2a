"""Reads a set of segments that changes, and hands out what comes of them, a batch of one segment at a time.

Which segments, from where and what follows at their ends is for those that derive from it: a walk through one
stream, or a reader of a group. What was received and not handed out belongs to the reader, not to a wait or a
loop that ends: a next one goes on right behind what was handed out.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from headrace.client.config import ReaderConfig
from headrace.client.forks import OfOneProcess
from headrace.client.iterators import Each
from headrace.client.reader.event_batch import Decoder, Event, EventBatch
from headrace.client.reader.event_cutter import EventCutter
from headrace.client.reader.handout import Handout
from headrace.client.reader.record_batch import RecordBatch, not_a_record, split_records
from headrace.client.reader.segment_input import PIECES_MAX, SegmentInput
from headrace.client.segment_address import SegmentAddress
from headrace.client.serializers import Codec
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    CorruptionError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentTruncatedError,
)
from headrace.limits import KIB

_READ_BYTES_MIN: Final = 64 * KIB

OnError = Literal["raise", "skip"]
"""What follows from an event of a stream with records that is none."""


def check_on_error(on_error: object) -> None:
    """Raise InvalidArgumentError unless it is one of the two."""
    if on_error not in ("raise", "skip"):
        raise InvalidArgumentError(f"on_error is 'raise' or 'skip', not {on_error!r:.100}")


@dataclass(frozen=True, slots=True)
class InputStart:
    """A segment to be read from ``offset`` to ``end`` (None: until it is sealed)."""

    address: SegmentAddress
    offset: int
    end: int | None = None
    records: bool = False
    """Whether its stream has records."""


@dataclass(slots=True)
class _Input:
    source: SegmentInput
    cutter: EventCutter
    decoder: Decoder | None
    offset: int  # behind what was put into the hand-out
    records: bool
    parts: deque[EventBatch] = field(default_factory=deque)  # of a block, that wait for the hand-out


class SegmentInputs(OfOneProcess, ABC):
    """Iterates over events, or over batches. One consumer at a time; used on one loop."""

    def __init__(
        self,
        services: ClientServices,
        config: ReaderConfig,
        codec: Codec | None,
        limit: int | None = None,
        on_error: OnError = "raise",
    ) -> None:
        self._services = services
        self._config = config
        self._codec = codec
        self._limit = limit
        """Events that are still to be read; None: all."""
        self._on_error = on_error
        self._inputs: dict[SegmentAddress, _Input] = {}
        self._ready: dict[SegmentAddress, None] = {}
        self._news = asyncio.Event()
        self._failure: HeadraceError | None = None
        self._is_closed = False
        self.handout = Handout()
        """From which the consumer takes."""
        self._served: SegmentAddress | None = None
        """Whose batch is in the hand-out, or was taken from there a moment ago."""
        self._gone: SegmentInput | None = None
        """Whose loss of events is in the hand-out, or was taken from there a moment ago."""

    # ------------------------------------------------------------------------------ for who derives from it

    @abstractmethod
    def _on_read(self, address: SegmentAddress, offset: int) -> None:
        """Everything below ``offset`` of a segment is in the hand-out, was taken from there, or is gone."""

    @abstractmethod
    def _on_end(self, address: SegmentAddress, offset: int, *, sealed: bool) -> None:
        """A segment is not read any more: it was sealed at ``offset``, or was to be read to there."""

    @property
    @abstractmethod
    def _is_complete(self) -> bool:
        """Whether nothing will come."""

    @abstractmethod
    def _name(self) -> str:
        """What is read."""

    def _open_inputs(self, starts: Iterable[InputStart]) -> None:
        """Begin to read segments, each of which is not being read; a closed reader reads none."""
        opened = [] if self._is_closed else list(starts)
        share = self._config.window_bytes_max // (PIECES_MAX * max(1, len(self._inputs) + len(opened)))
        read_bytes = min(self._config.read_bytes_max, max(_READ_BYTES_MIN, share))
        for start in opened:
            address = start.address
            source = SegmentInput(
                address,
                self._services,
                self._config,
                self._on_ready,
                offset=start.offset,
                end=start.end,
                read_bytes=read_bytes,
            )
            decoder = None
            if self._codec is not None or start.records:
                decoder = Decoder(self._codec, address.scope, address.stream)
            cutter = self._cutter(address, start.offset)
            self._inputs[address] = _Input(source, cutter, decoder, start.offset, start.records)
            source.start()

    def _cutter(self, address: SegmentAddress, offset: int) -> EventCutter:
        return EventCutter(address, offset, self._config.event_bytes_max)

    def _close_input(self, address: SegmentAddress) -> int:
        """Read a segment no more. Return where: what lies in front of it was handed out, and nothing else."""
        offset = self._offset_of(address)
        if self._served == address:
            self.handout, self._served = Handout(), None
        if self._gone is self._inputs[address].source:
            self.handout, self._gone = Handout(), None
        self._inputs.pop(address).source.close()
        self._ready.pop(address, None)
        return offset

    def _offset_of(self, address: SegmentAddress) -> int:
        """Return the offset behind the last event of a segment that was handed out.

        Events that an error has said to be gone lie in front of it.
        """
        each = self._inputs[address]
        if self._served == address and (place := self.handout.place) is not None:
            return place[1]
        if self._gone is each.source and self.handout.is_taken:
            return self._place_behind(each)
        return each.offset

    @abstractmethod
    async def close(self) -> None:
        """Stop reading. Idempotent."""

    # ------------------------------------------------------------------------------ for the consumer

    async def next_batch(self) -> EventBatch | None:
        """Return the next events of some segment, waiting for them; None at the end.

        Cancelling it loses nothing. If some events of a batch were taken one by one, it is the rest of that.

        Raises:
            SegmentTruncatedError: events in front of the reader are gone. Once; reading goes on behind them.
            NoSuchSegmentError: a whole segment is gone. Once; reading goes on with its successors. If the
                stream was deleted and created anew it has none, and the error stays.
            DataCorruptionError: the bytes of a segment are no events.
            LargeEventError: an event is larger than ``event_bytes_max`` of the configuration. Once; reading
                goes on behind it. :meth:`Client.read_segment_range` reads its bytes.
            EventNotRecordError: an event of a stream with records is none. Once; reading goes on behind it.
            UnreachableError, UnknownOutcomeError: the store cannot be reached.
        """
        await self.fill()
        return self._take_batch()

    async def next_batch_within(self, timeout_s: float) -> EventBatch | None:
        """Like :meth:`next_batch`, but wait no longer than ``timeout_s``. Raises TimeoutError; nothing is
        lost.
        """
        await self.fill_within(timeout_s)
        return self._take_batch()

    def batches(self) -> AsyncIterator[EventBatch]:
        """Iterate over batches until the end. Raises as :meth:`next_batch`, and may go on after that."""
        return Each(self.next_batch)

    def __aiter__(self) -> Self:
        """Iterate over events until the end; the position follows each of them."""
        return self

    async def __anext__(self) -> Event:
        """Return the next event. Raises as :meth:`next_batch`."""
        try:
            event = self.handout.take_event()
            if event is None:
                await self.fill()
                event = self.handout.take_event()
                if event is None:
                    raise StopAsyncIteration
            return event
        except HeadraceError as error:
            self.handout.on_told(error)
            raise

    def _take_batch(self) -> EventBatch | None:
        try:
            return self.handout.take_batch()
        except HeadraceError as error:
            self.handout.on_told(error)
            raise

    async def fill(self) -> None:
        """Wait until there is something in the hand-out, or nothing will come. It takes nothing out, so it
        may be cancelled, also after it is done, and repeated.
        """
        while self.handout.is_taken:
            if self._limit == 0 and not self._is_closed:
                return
            self._pass_gone()
            if self._failure is not None:
                raise self._failure
            if self._is_closed:
                raise ClosedError(f"the reader of {self._name()} is closed")
            if self._ready:
                try:
                    self._serve(next(iter(self._ready)))
                except CorruptionError as error:
                    self._failure = error  # nothing behind it can be trusted
            elif self._is_complete:
                return
            else:
                self.handout = Handout()  # a batch that was taken is not retained while waiting
                self._news.clear()
                await self._news.wait()

    async def fill_within(self, timeout_s: float) -> None:
        """Like :meth:`fill`, but wait no longer than ``timeout_s``. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self.fill()

    def _close_inputs(self) -> None:
        """Read nothing any more; what was not taken is dropped. Idempotent."""
        self._is_closed = True
        self.handout, self._served = Handout(), None
        for each in self._inputs.values():
            each.source.close()
        self._news.set()

    # ------------------------------------------------------------------------------ one segment

    def _on_ready(self, source: SegmentInput) -> None:
        self._ready[source.address] = None
        self._news.set()

    def _serve(self, address: SegmentAddress) -> None:
        """Hand out what one input has: a block, or its error; or see its end."""
        del self._ready[address]
        each = self._inputs[address]
        source, cutter = each.source, each.cutter
        if each.parts:
            self._serve_part(address, each)
            return
        if cutter.refused is not None:
            self._gone = source
            self.handout, self._served = Handout(error=cutter.refused), None
            return
        block = source.take()
        if block is not None:
            batch = cutter.cut(block)
            if cutter.is_stopped:
                source.close()
            if source.has_news or cutter.is_stopped:
                self._ready[address] = None  # at the end of the order
            if batch is not None:
                batch.decoder = each.decoder
                if each.records:
                    each.parts.extend(split_records(batch))
                    self._serve_part(address, each)
                else:
                    self._hand_out(address, each, self._within_limit(batch))
        elif source.error is not None:
            self._on_input_error(source, source.error)
        elif source.is_at_end:
            cutter.finish()
            self._end_input(address, cutter.offset, sealed=source.is_sealed_at_end)

    def _serve_part(self, address: SegmentAddress, each: _Input) -> None:
        """Hand out the next records, or say that an event is none, or leave such events out."""
        part = each.parts.popleft()
        if isinstance(part, RecordBatch):
            self._hand_out(address, each, self._within_limit(part))
        elif self._on_error == "skip":
            self._pass(address, each, part.end_offset)
        else:
            error = not_a_record(part)
            self._pass(address, each, part.first(1).end_offset)
            place = (address.segment_id, part.start_offset)
            self.handout, self._served = Handout(error=error, error_place=place), address
            if len(part) > 1:
                each.parts.appendleft(part.behind(1))
        if each.parts or each.source.has_news or each.cutter.is_stopped:
            self._ready[address] = None

    def _hand_out(self, address: SegmentAddress, each: _Input, batch: EventBatch) -> None:
        self._pass(address, each, batch.end_offset)
        self.handout, self._served = Handout(batch), address

    def _pass(self, address: SegmentAddress, each: _Input, offset: int) -> None:
        each.offset = offset
        self._on_read(address, offset)

    def _within_limit(self, batch: EventBatch) -> EventBatch:
        """Return what of a batch is still to be read, and count it. At least one event is."""
        if self._limit is not None:
            batch = batch.first(self._limit)
            self._limit -= len(batch)
        return batch

    def _on_input_error(self, source: SegmentInput, error: HeadraceError) -> None:
        if not isinstance(error, SegmentTruncatedError | NoSuchSegmentError):
            self._failure = error
            return
        self._gone = source
        if self._config.on_truncation == "raise":
            self.handout, self._served = Handout(error=error), None

    def _pass_gone(self) -> None:
        """Go on behind events that are gone, now that the consumer knows."""
        source, self._gone = self._gone, None
        if source is None:
            return
        each = self._inputs[source.address]
        offset = self._place_behind(each)
        if each.cutter.is_stopped:
            del self._inputs[source.address]
            self._on_read(source.address, offset)
            self._open_inputs([InputStart(source.address, offset, source.end, each.records)])
        elif isinstance(source.error, SegmentTruncatedError):
            each.offset = offset
            self._on_read(source.address, offset)
            each.cutter = self._cutter(source.address, offset)
            source.restart_at(offset)
        else:
            self._end_input(source.address, offset, sealed=True)

    def _place_behind(self, each: _Input) -> int:
        """Return where an input goes on, or ends, without the events that are gone, or too large."""
        source, refused = each.source, each.cutter.refused
        if refused is not None:
            return refused.end if source.end is None else min(refused.end, source.end)
        if isinstance(source.error, SegmentTruncatedError):
            offset = source.error.start_offset
            return offset if source.end is None else min(offset, source.end)
        return each.cutter.offset

    def _end_input(self, address: SegmentAddress, offset: int, *, sealed: bool) -> None:
        self._inputs.pop(address).source.close()
        self._on_end(address, offset, sealed=sealed)

    def check(self) -> None:
        """Assert the invariants."""
        for each in self._inputs.values():
            each.source.check()

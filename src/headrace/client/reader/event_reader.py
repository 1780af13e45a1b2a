"""Reads the events of a stream between two cuts, through every scale event, in order per key.

Batches carry raw bytes of one segment and cost nothing per event until they are looked into. The position
is a stream cut at any moment: store it, and start again from there.

What was received and not handed out belongs to the reader, not to a wait or a loop that ends: a next one goes
on right behind what was handed out.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.iterators import Each
from headrace.client.reader.cuts import Cuts, Edge, parse_edge
from headrace.client.reader.event_batch import Decoder, Event, EventBatch
from headrace.client.reader.event_cutter import EventCutter
from headrace.client.reader.handout import Handout
from headrace.client.reader.segment_input import PIECES_MAX, SegmentInput
from headrace.client.reader.stream_walk import Start, StreamWalk
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.serializers import Codec
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    CorruptionError,
    HeadraceError,
    NoSuchSegmentError,
    SegmentTruncatedError,
)
from headrace.limits import KIB
from headrace.model.stream_cut import COMPLETED, StreamCut

_READ_BYTES_MIN: Final = 64 * KIB


class EventReader(OfOneProcess):
    """Made by :meth:`Client.event_reader`. One consumer at a time; used on one loop.

    It is an iterator over events. A caller that stops, or whose wait is cancelled, goes on right behind the
    last event or batch that was handed out: in a new loop, with the same iterator, or by batches.
    """

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        calls: SegmentCalls,
        config: ReaderConfig,
        walk: StreamWalk,
        codec: Codec | None = None,
        limit: int | None = None,
    ) -> None:
        self.scope = scope
        self.stream = stream
        self._services = services
        self._calls = calls
        self._config = config
        self._walk = walk
        self._limit = limit
        """Events that are still to be read; None: all."""
        self._decoder = None if codec is None else Decoder(codec, scope, stream)
        self._inputs: dict[int, tuple[SegmentInput, EventCutter]] = {}
        self._ready: dict[int, None] = {}
        self._news = asyncio.Event()
        self._failure: HeadraceError | None = None
        self.handout = Handout()
        """From which the consumer takes."""
        self._gone: SegmentInput | None = None
        """Whose loss of events is in the hand-out, or was taken from there a moment ago."""
        self._end: StreamCut | None = None
        """Where it was closed."""

    @classmethod
    async def open(
        cls,
        scope: str,
        stream: str,
        services: ClientServices,
        calls: SegmentCalls,
        config: ReaderConfig,
        *,
        start: Edge,
        end: Edge | None,
        codec: Codec | None = None,
        limit: int | None = None,
    ) -> Self:
        """Look up where to start and stop, and begin to read; ``limit``: it ends after so many events."""
        start, end = parse_edge(start), None if end is None else parse_edge(end)
        cuts = Cuts(services, calls, config)
        first = await cuts.start(scope, stream, start)
        last = await cuts.end(scope, stream, end)
        ranges = await cuts.ranges(scope, stream, {*first.offsets, *(() if last is None else last.offsets)})
        for edge, cut in ((start, first), (end, last)):
            if isinstance(edge, StreamCut) and cut is not None:
                await cuts.check(cut, ranges)
        walk = StreamWalk(first.offsets, ranges, None if last is None else last.offsets)
        reader = cls(scope, stream, services, calls, config, walk, codec, limit)
        await reader._begin(walk.to_read())
        return reader

    def __repr__(self) -> str:
        failed = self._failure is not None
        state = f"failed: {self._failure}" if failed else "open" if self._end is None else "closed"
        state += f", at {', '.join(f'{key}={value}' for key, value in self.position().offsets.items())}"
        return described("aio.EventReader", f"{self.scope}/{self.stream}", self._services.uri, state)

    # ------------------------------------------------------------------------------ reading

    async def next_batch(self) -> EventBatch | None:
        """Return the next events of some segment, waiting for them; None at the end.

        Cancelling it loses nothing. If some events of a batch were taken one by one, it is the rest of that.

        Raises:
            SegmentTruncatedError: events in front of the reader are gone. Once; reading goes on behind them.
            NoSuchSegmentError: a whole segment is gone. Once; reading goes on with its successors. If the
                stream was deleted and created anew it has none, and the error stays.
            DataCorruptionError: the bytes of a segment are no events.
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

    def position(self) -> StreamCut:
        """Return the cut behind the last event or batch that was handed out.

        Events that an error has said to be gone lie in front of it.
        """
        if self._end is not None:
            return self._end
        offsets = self._walk.offsets()
        if (place := self.handout.place) is not None:
            offsets[place[0]] = place[1]
        elif self._gone is not None and self.handout.is_taken:
            offsets[self._gone.address.segment_id] = self._place_behind(self._gone)
        return StreamCut.from_offsets(self.scope, self.stream, offsets)

    async def fill(self) -> None:
        """Wait until there is something in the hand-out, or nothing will come. It takes nothing out, so it
        may be cancelled, also after it is done, and repeated.
        """
        while self.handout.is_taken:
            if self._limit == 0 and self._end is None:
                return
            self._pass_gone()
            if self._failure is not None:
                raise self._failure
            if self._end is not None:
                raise ClosedError(f"the reader of {self.scope}/{self.stream} is closed")
            if self._ready:
                try:
                    self._serve(next(iter(self._ready)))
                except CorruptionError as error:
                    self._failure = error  # nothing behind it can be trusted
            elif self._walk.is_complete:
                return
            else:
                self.handout = Handout()  # a batch that was taken is not retained while waiting
                self._news.clear()
                await self._news.wait()

    async def fill_within(self, timeout_s: float) -> None:
        """Like :meth:`fill`, but wait no longer than ``timeout_s``. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self.fill()

    def _on_ready(self, source: SegmentInput) -> None:
        self._ready[source.address.segment_id] = None
        self._news.set()

    # ------------------------------------------------------------------------------ one segment

    def _serve(self, segment_id: int) -> None:
        """Hand out what one input has: a block, or its error; or see its end."""
        del self._ready[segment_id]
        source, cutter = self._inputs[segment_id]
        block = source.take()
        if block is not None:
            batch = cutter.cut(block)
            if source.has_news:
                self._ready[segment_id] = None  # at the end of the order
            if batch is not None:
                batch = self._within_limit(batch)
                batch.decoder = self._decoder
                self._walk.on_read(segment_id, batch.end_offset)
                self.handout = Handout(batch)
        elif source.error is not None:
            self._on_input_error(source, source.error)
        elif source.is_at_end:
            cutter.finish()
            self._end_input(segment_id, cutter.offset, sealed=source.is_sealed_at_end)

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
            self.handout = Handout(error=error)

    def _pass_gone(self) -> None:
        """Go on behind events that are gone, now that the consumer knows."""
        source, self._gone = self._gone, None
        if source is None:
            return
        segment_id, offset = source.address.segment_id, self._place_behind(source)
        if isinstance(source.error, SegmentTruncatedError):
            self._walk.on_read(segment_id, offset)
            self._inputs[segment_id] = (source, EventCutter(source.address, offset))
            source.restart_at(offset)
        else:
            self._end_input(segment_id, offset, sealed=True)

    def _place_behind(self, source: SegmentInput) -> int:
        """Return where an input goes on, or ends, without the events that are gone."""
        if isinstance(source.error, SegmentTruncatedError):
            offset = source.error.start_offset
            return offset if source.end is None else min(offset, source.end)
        return self._inputs[source.address.segment_id][1].offset

    def _end_input(self, segment_id: int, offset: int, *, sealed: bool) -> None:
        source, _ = self._inputs.pop(segment_id)
        source.close()
        if not self._walk.needs_successors(segment_id):
            if sealed:
                self._walk.on_finished(segment_id, offset, ())
            return
        name = f"successors of {source.address.name}"
        try:
            self._services.supervisor.spawn(name, self._follow(segment_id, offset))
        except ClosedError as error:
            self._failure = error

    async def _follow(self, segment_id: int, length: int) -> None:
        """Ask for successors of a finished segment, and read each once all its predecessors are read."""
        try:
            successors = await self._services.segments.successors(self.scope, self.stream, segment_id)
            if self._end is None:
                await self._begin(self._walk.on_finished(segment_id, length, successors))
        except HeadraceError as error:
            self._failure = error
        except asyncio.CancelledError:
            self._failure = ClosedError("the client was closed")
            raise
        finally:
            self._news.set()

    async def _begin(self, starts: Sequence[Start]) -> None:
        """Open inputs; a start of -1 is the end of a segment that has been read completely."""
        share = self._config.window_bytes_max // (PIECES_MAX * max(1, len(self._inputs) + len(starts)))
        read_bytes = min(self._config.read_bytes_max, max(_READ_BYTES_MIN, share))
        for start in starts:
            address = SegmentAddress(self.scope, self.stream, start.segment_id)
            offset = start.offset
            if offset == COMPLETED:
                offset = (await self._calls.info(address)).length
                self._walk.on_read(start.segment_id, offset)
            source = SegmentInput(
                address,
                self._services,
                self._config,
                self._on_ready,
                offset=offset,
                end=start.end,
                read_bytes=read_bytes,
            )
            self._inputs[start.segment_id] = (source, EventCutter(address, offset))
            source.start()

    # ------------------------------------------------------------------------------ ending

    async def close(self) -> None:
        """Stop reading. The position stays available. Idempotent."""
        self.stop()

    def stop(self) -> None:
        """Close it, outside of a task as well."""
        if self._end is None:
            self._end = self.position()
        self.handout = Handout()
        for source, _ in self._inputs.values():
            source.close()
        self._news.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def check(self) -> None:
        """Assert the invariants."""
        self._walk.check()
        for source, _ in self._inputs.values():
            source.check()

"""Reads the events of a stream between two cuts, through every scale event, in order per key.

Batches carry raw bytes of one segment and cost nothing per event until they are looked into. The position
is a stream cut at any moment: store it, and start again from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.reader.cuts import Cuts, Edge, parse_edge
from headrace.client.reader.event_batch import Decoder, Event, EventBatch
from headrace.client.reader.event_cutter import EventCutter
from headrace.client.reader.segment_input import PIECES_MAX, SegmentInput
from headrace.client.reader.stream_walk import Start, StreamWalk
from headrace.client.segment_calls import SegmentCalls
from headrace.client.serializers import Codec
from headrace.client.services import ClientServices, SegmentAddress
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


class EventReader:
    """Made by :meth:`Client.event_reader`. One consumer at a time; used on one loop."""

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        calls: SegmentCalls,
        config: ReaderConfig,
        walk: StreamWalk,
        codec: Codec | None = None,
    ) -> None:
        self.scope = scope
        self.stream = stream
        self._services = services
        self._calls = calls
        self._config = config
        self._walk = walk
        self._decoder = None if codec is None else Decoder(codec, scope, stream)
        self._inputs: dict[int, tuple[SegmentInput, EventCutter]] = {}
        self._ready: dict[int, None] = {}
        self._news: asyncio.Future[None] | None = None
        self._failure: HeadraceError | None = None
        self._within: Event | None = None
        """The last event, while the events of a batch are handed out one by one."""
        self._closed = False

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
    ) -> Self:
        """Look up where to start and stop, and begin to read."""
        start, end = parse_edge(start), None if end is None else parse_edge(end)
        cuts = Cuts(services, calls, config)
        first = await cuts.start(scope, stream, start)
        last = await cuts.end(scope, stream, end)
        ranges = await cuts.ranges(scope, stream, {*first.offsets, *(() if last is None else last.offsets)})
        for edge, cut in ((start, first), (end, last)):
            if isinstance(edge, StreamCut) and cut is not None:
                await cuts.check(cut, ranges)
        walk = StreamWalk(first.offsets, ranges, None if last is None else last.offsets)
        reader = cls(scope, stream, services, calls, config, walk, codec)
        await reader._begin(walk.to_read())
        return reader

    def __repr__(self) -> str:
        failed = self._failure is not None
        state = f"failed: {self._failure}" if failed else "closed" if self._closed else "open"
        state += f", at {', '.join(f'{key}={value}' for key, value in self.position().offsets.items())}"
        return described("aio.EventReader", f"{self.scope}/{self.stream}", self._services.uri, state)

    # ------------------------------------------------------------------------------ reading

    async def next_batch(self) -> EventBatch | None:
        """Return the next events of some segment, waiting for them; None at the end.

        Cancelling it loses nothing.

        Raises:
            SegmentTruncatedError: events in front of the reader are gone. Once; reading goes on behind them.
            NoSuchSegmentError: a whole segment is gone. Once; reading goes on with its successors. If the
                stream was deleted and created anew it has none, and the error stays.
            DataCorruptionError: the bytes of a segment are no events.
            UnreachableError, UnknownOutcomeError: the store cannot be reached.
        """
        self._within = None
        while True:
            if self._failure is not None:
                raise self._failure
            if self._closed:
                raise ClosedError(f"the reader of {self.scope}/{self.stream} is closed")
            while self._ready:
                segment_id = next(iter(self._ready))
                del self._ready[segment_id]
                try:
                    batch = self._serve(segment_id)
                except CorruptionError as error:
                    self._failure = error  # nothing behind it can be trusted
                    raise
                if batch is not None:
                    self._walk.on_read(segment_id, batch.end_offset)
                    batch.decoder = self._decoder
                    return batch
            if self._walk.is_complete:
                return None
            await self._wait_for_news()

    async def next_batch_within(self, timeout_s: float) -> EventBatch | None:
        """Like :meth:`next_batch`, but wait no longer than ``timeout_s``. Raises TimeoutError; nothing is
        lost.
        """
        async with asyncio.timeout(timeout_s):
            return await self.next_batch()

    async def batches(self) -> AsyncIterator[EventBatch]:
        """Yield batches until the end. Raises as :meth:`next_batch`."""
        while (batch := await self.next_batch()) is not None:
            yield batch

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Yield events until the end; the position follows each of them."""
        while (batch := await self.next_batch()) is not None:
            for event in batch.events():
                self._within = event
                yield event

    def position(self) -> StreamCut:
        """Return the cut behind the last batch, or behind the last event if events are taken one by one."""
        offsets = self._walk.offsets()
        if self._within is not None:
            offsets[self._within.segment_id] = self._within.end_offset
        return StreamCut.from_offsets(self.scope, self.stream, offsets)

    async def _wait_for_news(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        try:
            await self._news
        finally:
            self._news = None

    def _announce(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _on_ready(self, source: SegmentInput) -> None:
        self._ready[source.address.segment_id] = None
        self._announce()

    # ------------------------------------------------------------------------------ one segment

    def _serve(self, segment_id: int) -> EventBatch | None:
        """Take what one input has: a block, its end, or its error."""
        source, cutter = self._inputs[segment_id]
        block = source.take()
        if block is not None:
            batch = cutter.cut(block)
            if source.has_news:
                self._ready[segment_id] = None  # at the end of the order
            return batch
        if source.error is not None:
            self._on_input_error(segment_id, source, source.error)
        elif source.is_at_end:
            cutter.finish()
            self._end_input(segment_id, cutter.offset, sealed=source.is_sealed_at_end)
        return None

    def _on_input_error(self, segment_id: int, source: SegmentInput, error: HeadraceError) -> None:
        if isinstance(error, SegmentTruncatedError):
            offset = error.start_offset
            if source.end is not None:
                offset = min(offset, source.end)
            self._walk.on_read(segment_id, offset)
            self._inputs[segment_id] = (source, EventCutter(source.address, offset))
            source.restart_at(offset)
        elif isinstance(error, NoSuchSegmentError):
            self._end_input(segment_id, self._inputs[segment_id][1].offset, sealed=True)
        else:
            self._failure = error
            raise error
        if self._config.on_truncation == "raise":
            raise error

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
            if not self._closed:
                await self._begin(self._walk.on_finished(segment_id, length, successors))
        except HeadraceError as error:
            self._failure = error
        except asyncio.CancelledError:
            self._failure = ClosedError("the client was closed")
            raise
        finally:
            self._announce()

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
        self._closed = True
        for source, _ in self._inputs.values():
            source.close()
        self._announce()

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

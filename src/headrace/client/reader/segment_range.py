"""Reads a part of one segment, without readers, groups or order between segments: what parallel jobs need."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.iterators import Each
from headrace.client.reader.event_batch import EventBatch
from headrace.client.reader.event_cutter import EventCutter
from headrace.client.reader.segment_input import SegmentInput
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    DataCorruptionError,
    HeadraceError,
    InvalidArgumentError,
    LargeEventError,
)


class SegmentRangeReader(OfOneProcess):
    """The bytes ``[start, end)`` of a segment, in order. One consumer at a time; used on one loop.

    ``end`` None reads until the segment is sealed. The bytes must be there or come: a range behind the end
    of a sealed segment ends early, and :meth:`batches` and :meth:`read_all` report that.

    It is an iterator over blocks. A caller that stops, or whose wait is cancelled, goes on behind the last
    block, or batch, that was handed out. It is read as bytes or as events, as it was begun.
    """

    def __init__(
        self,
        address: SegmentAddress,
        start: int,
        end: int | None,
        services: ClientServices,
        config: ReaderConfig,
    ) -> None:
        if start < 0 or (end is not None and end < start):
            raise InvalidArgumentError(f"[{start}, {end}) is no range of {address.name}")
        self.address = address
        self.start = start
        self.end = end
        self._uri = services.uri
        self._event_bytes_max = config.event_bytes_max
        self._news = asyncio.Event()
        self._input = SegmentInput(address, services, config, self._on_ready, offset=start, end=end)
        self._started = False
        self._offset = start
        """Where the first held block begins, as long as bytes are read."""
        self._held: deque[ReadBlock] = deque()
        """Blocks that came while :meth:`read_all` was waiting for the last one."""
        self._cutter: EventCutter | None = None
        """Since events are read."""
        self._failure: HeadraceError | None = None

    def __repr__(self) -> str:
        place = f"{self.address.scope}/{self.address.stream}/{self.address.segment_id}"
        end = "its seal" if self.end is None else self.end
        return described("aio.SegmentRangeReader", place, self._uri, f"from {self.start} to {end}")

    def _on_ready(self, _: SegmentInput) -> None:
        self._news.set()

    async def next_block(self) -> ReadBlock | None:
        """Return the next bytes, or None at the end. Cancelling it loses nothing.

        Raises:
            SegmentTruncatedError: the next bytes were truncated.
            NoSuchSegmentError: the segment is gone.
            InvalidArgumentError: its events are being read.
        """
        if self._cutter is not None:
            raise InvalidArgumentError("the events of this range are being read: open another for its bytes")
        block = self._held.popleft() if self._held else await self._receive()
        if block is not None:
            self._offset += len(block)
        return block

    async def _receive(self) -> ReadBlock | None:
        if not self._started:
            self._started = True
            self._input.start()
        while True:
            if self._failure is not None:
                raise self._failure
            block = self._input.take()
            if block is not None:
                return block
            if self._input.error is not None:
                raise self._input.error
            if self._input.is_at_end:
                return None
            self._news.clear()
            await self._news.wait()

    async def next_batch(self) -> EventBatch | None:
        """Return the next whole events, or None at the end. Cancelling it loses nothing.

        Raises:
            DataCorruptionError: the bytes are no events, the range ends inside one, or the segment in front
                of ``end``.
            LargeEventError: an event is larger than ``event_bytes_max``; nothing behind it is read.
            InvalidArgumentError: its bytes are being read.
            HeadraceError: as :meth:`next_block`.
        """
        cutter = self._cutter
        if cutter is None:
            if self._held or self._offset != self.start:
                raise InvalidArgumentError("the bytes of this range are being read: open another for events")
            cutter = self._cutter = EventCutter(self.address, self.start, self._event_bytes_max)
        while (block := await self._receive_unless(cutter.refused)) is not None:
            try:
                batch = cutter.cut(block)
            except DataCorruptionError as error:
                self._failure = error  # nothing behind it can be trusted
                raise
            if batch is not None:
                return batch
        cutter.finish()
        self._check_end(cutter.offset)
        return None

    async def _receive_unless(self, refused: LargeEventError | None) -> ReadBlock | None:
        if refused is not None:
            self._input.close()
            self._failure = refused
        return await self._receive()

    def blocks(self) -> AsyncIterator[memoryview]:
        """Iterate over the bytes in large pieces; each piece belongs to the caller."""
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> memoryview:
        block = await self.next_block()
        if block is None:
            raise StopAsyncIteration
        return block.data

    def batches(self) -> AsyncIterator[EventBatch]:
        """Iterate over whole events; ``start`` has to be where one starts. Raises as :meth:`next_batch`."""
        return Each(self.next_batch)

    async def read_all(self) -> bytes:
        """Return all bytes that are left at once.

        Raises:
            DataCorruptionError: the segment ends in front of ``end``.
            HeadraceError: as :meth:`next_block`.
        """
        await self.hold_all()
        return self.take_all()

    async def hold_all(self) -> None:
        """Wait for the last block. It hands out nothing, so it may be cancelled, and repeated."""
        if self._cutter is None:
            while (block := await self._receive()) is not None:
                self._held.append(block)

    def take_all(self) -> bytes:
        """Return what :meth:`hold_all` has waited for."""
        if self._cutter is not None:
            raise InvalidArgumentError("the events of this range are being read: open another for its bytes")
        data = b"".join([block.data for block in self._held])
        self._check_end(self._offset + len(data))
        self._offset, self._held = self._offset + len(data), deque()
        return data

    def _check_end(self, offset: int) -> None:
        if self.end is not None and offset != self.end:
            raise DataCorruptionError(f"{self.address.name} ends at {offset}, not at {self.end}")

    async def close(self) -> None:
        """Stop reading. Idempotent."""
        self.stop()

    def stop(self) -> None:
        """Close it, outside of a task as well."""
        self._input.close()
        self._failure = self._failure or ClosedError(f"the reader of {self.address.name} is closed")
        self._news.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

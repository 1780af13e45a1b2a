"""Reads a part of one segment, without readers, groups or order between segments: what parallel jobs need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.description import described
from headrace.client.reader.event_batch import EventBatch
from headrace.client.reader.event_cutter import EventCutter
from headrace.client.reader.segment_input import SegmentInput
from headrace.client.services import ClientServices, SegmentAddress
from headrace.errors import DataCorruptionError, InvalidArgumentError


class SegmentRangeReader:
    """The bytes ``[start, end)`` of a segment, in order. One consumer at a time; used on one loop.

    ``end`` None reads until the segment is sealed. The bytes must be there or come: a range behind the end
    of a sealed segment ends early, and :meth:`batches` and :meth:`read_all` report that.
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
        self._news = asyncio.Event()
        self._input = SegmentInput(address, services, config, self._on_ready, offset=start, end=end)
        self._started = False

    def __repr__(self) -> str:
        place = f"{self.address.scope}/{self.address.stream}/{self.address.segment_id}"
        end = "its seal" if self.end is None else self.end
        return described("aio.SegmentRangeReader", place, self._uri, f"from {self.start} to {end}")

    def _on_ready(self, _: SegmentInput) -> None:
        self._news.set()

    async def next_block(self) -> ReadBlock | None:
        """Return the next bytes, or None at the end.

        Raises:
            SegmentTruncatedError: the next bytes were truncated.
            NoSuchSegmentError: the segment is gone.
        """
        if not self._started:
            self._started = True
            self._input.start()
        while True:
            block = self._input.take()
            if block is not None:
                return block
            if self._input.error is not None:
                raise self._input.error
            if self._input.is_at_end:
                return None
            self._news.clear()
            await self._news.wait()

    async def blocks(self) -> AsyncIterator[memoryview]:
        """Yield the bytes in large pieces; each piece belongs to the caller."""
        while (block := await self.next_block()) is not None:
            yield block.data

    async def batches(self) -> AsyncIterator[EventBatch]:
        """Yield whole events; ``start`` has to be where one starts.

        Raises:
            DataCorruptionError: the bytes are no events, the range ends inside one, or the segment in front
                of ``end``.
            HeadraceError: as :meth:`next_block`.
        """
        cutter = EventCutter(self.address, self.start)
        while (block := await self.next_block()) is not None:
            batch = cutter.cut(block)
            if batch is not None:
                yield batch
        cutter.finish()
        self._check_end(cutter.offset)

    async def read_all(self) -> bytes:
        """Return all bytes at once.

        Raises:
            DataCorruptionError: the segment ends in front of ``end``.
            HeadraceError: as :meth:`next_block`.
        """
        data = b"".join([block async for block in self.blocks()])
        self._check_end(self.start + len(data))
        return data

    def _check_end(self, offset: int) -> None:
        if self.end is not None and offset != self.end:
            raise DataCorruptionError(f"{self.address.name} ends at {offset}, not at {self.end}")

    def __aiter__(self) -> AsyncIterator[memoryview]:
        return self.blocks()

    async def close(self) -> None:
        """Stop reading. Idempotent."""
        self._input.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

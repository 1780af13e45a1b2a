"""Reads a stream of one segment as plain bytes, like a file that may still grow.

Source: protocol, "Byte-stream client".
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.errors import InvalidArgumentError


class ByteReader(OfOneProcess):
    """Made by :meth:`Client.byte_reader`. One consumer at a time; used on one loop."""

    def __init__(
        self,
        address: SegmentAddress,
        services: ClientServices,
        calls: SegmentCalls,
        config: ReaderConfig,
        offset: int,
    ) -> None:
        self.address = address
        self._services = services
        self._calls = calls
        self._config = config
        self._offset = offset
        self._source = self._open(offset)
        self._held: list[memoryview] = []
        """What came and was not handed out."""
        self._held_bytes = 0

    def _open(self, offset: int) -> SegmentRangeReader:
        return SegmentRangeReader(self.address, offset, None, self._services, self._config)

    def __repr__(self) -> str:
        place = f"{self.address.scope}/{self.address.stream}"
        return described("aio.ByteReader", place, self._services.uri, f"at {self._offset}")

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._offset

    async def read(self, size: int) -> bytes:
        """Return 1 to ``size`` bytes, waiting for the first; none at the end of a sealed segment.

        Cancelling it, or another call of the reader, loses nothing: :meth:`tell` says where it goes on.

        Raises:
            SegmentTruncatedError: the next bytes were truncated; seek to its ``start_offset``.
        """
        data = await self.look(self._offset, size, 1)
        self._pass(self._offset + len(data))
        return data

    async def read_exactly(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end of a sealed segment.

        Raises:
            SegmentTruncatedError: some of them were truncated; :meth:`read` returns those in front of it.
        """
        if size == 0:
            return b""
        data = await self.look(self._offset, size, size)
        self._pass(self._offset + len(data))
        return data

    async def look(self, offset: int, size: int, least: int) -> bytes:
        """Return up to ``size`` bytes at ``offset``, waiting for ``least``, without handing them out.

        What lies in front of ``offset`` is needed no more. It may be cancelled, also after it is done.
        """
        if size < 1:
            raise InvalidArgumentError(f"{size} bytes cannot be read")
        self._pass(offset)
        while self._held_bytes < least and (block := await self._source.next_block()) is not None:
            self._held.append(block.data)
            self._held_bytes += len(block)
        if len(self._held) > 1 and len(self._held[0]) < size:
            self._held = [memoryview(b"".join(self._held))]
        return bytes(self._held[0][:size]) if self._held else b""

    def _pass(self, offset: int) -> None:
        """Go on at ``offset``, with what is held of it."""
        distance = offset - self._offset
        self._offset = offset
        if not 0 <= distance <= self._held_bytes:
            self._reopen(offset)
            return
        self._held_bytes -= distance
        while distance:
            first = self._held[0]
            if distance < len(first):
                self._held[0] = first[distance:]
                break
            del self._held[0]
            distance -= len(first)

    async def seek(self, offset: int) -> None:
        """Read from ``offset`` on."""
        if offset < 0:
            raise InvalidArgumentError(f"there is no offset {offset}")
        self._reopen(offset)

    def _reopen(self, offset: int) -> None:
        self._source.stop()
        self._source = self._open(offset)
        self._held, self._held_bytes, self._offset = [], 0, offset

    async def head_offset(self) -> int:
        """Return where the byte stream begins: what is in front was truncated."""
        return (await self._calls.info(self.address)).start_offset

    async def tail_offset(self) -> int:
        """Return the length of the byte stream."""
        return (await self._calls.info(self.address)).length

    async def close(self) -> None:
        """Stop reading. Idempotent."""
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

"""Reads a stream of one segment as plain bytes, like a file that may still grow.

Source: protocol, "Byte-stream client".
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices, SegmentAddress
from headrace.errors import InvalidArgumentError


class ByteReader:
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
        self._rest = memoryview(b"")

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

        Raises:
            SegmentTruncatedError: the next bytes were truncated; seek to its ``start_offset``.
        """
        if size < 1:
            raise InvalidArgumentError(f"{size} bytes cannot be read")
        if not self._rest:
            block = await self._source.next_block()
            if block is None:
                return b""
            self._rest = block.data
        piece = bytes(self._rest[:size])
        self._rest = self._rest[size:]
        self._offset += len(piece)
        return piece

    async def read_exactly(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end of a sealed segment."""
        pieces = []
        missing = size
        while missing and (piece := await self.read(missing)):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces)

    async def seek(self, offset: int) -> None:
        """Read from ``offset`` on."""
        if offset < 0:
            raise InvalidArgumentError(f"there is no offset {offset}")
        await self._source.close()
        self._source = self._open(offset)
        self._rest = memoryview(b"")
        self._offset = offset

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

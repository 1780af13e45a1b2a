"""Calls that open a stream of one segment as bytes."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.config import ReaderConfig, WriterConfig
from headrace.client.face.core import ClientCore
from headrace.client.opening import Opening
from headrace.client.reader.byte_reader import ByteReader
from headrace.client.scoped_name import named
from headrace.client.segment_address import SegmentAddress
from headrace.client.writer.byte_writer import ByteWriter
from headrace.errors import PreconditionError, StreamSealedError


class ByteStreamFace(ClientCore):
    """Byte streams."""

    @named
    def byte_writer(self, scope: str, stream: str, config: WriterConfig | None = None) -> Opening[ByteWriter]:
        """Open a writer of plain bytes; the stream has exactly one segment.

        Raises (when opened):
            PreconditionError: the stream has several segments.
        """
        return Opening(self._open_byte_writer(scope, stream, config or self.config.writer))

    async def _open_byte_writer(self, scope: str, stream: str, config: WriterConfig) -> ByteWriter:
        segments = await self._services.segments.current(scope, stream)
        if not segments:
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        address = self._only_segment(scope, stream, [each.segment_id for each in segments])
        writer = ByteWriter(address, self._services, self._calls, config)
        return self._services.open_writers.add(writer)

    @named
    def byte_reader(
        self, scope: str, stream: str, *, offset: int | None = None, config: ReaderConfig | None = None
    ) -> Opening[ByteReader]:
        """Open a reader of plain bytes from ``offset`` on, by default from the head.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            PreconditionError: the stream has several segments.
        """
        return Opening(self._open_byte_reader(scope, stream, offset, config or self.config.reader))

    async def _open_byte_reader(
        self, scope: str, stream: str, offset: int | None, config: ReaderConfig
    ) -> ByteReader:
        head = await self._services.segments.head(scope, stream)
        address = self._only_segment(scope, stream, list(head))
        start = head[address.segment_id] if offset is None else offset
        return ByteReader(address, self._services, self._calls, config, start)

    @staticmethod
    def _only_segment(scope: str, stream: str, segment_ids: Sequence[int]) -> SegmentAddress:
        if len(segment_ids) != 1:
            raise PreconditionError(
                f"{scope}/{stream} has {len(segment_ids)} segments; a byte stream has one"
            )
        return SegmentAddress(scope, stream, segment_ids[0])

"""Byte streams as file objects, so that whatever reads or writes files can use them."""

from __future__ import annotations

import io
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any

from headrace.client.block_exit import beside
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.public_calls import OURS, outward
from headrace.client.reader import byte_reader
from headrace.client.writer import byte_writer
from headrace.errors import HeadraceError


class ByteWriter(OfOneProcess, io.RawIOBase):
    """A file that only grows. ``write`` waits while too much is not durable yet, ``flush`` until all of it
    is.
    """

    def __init__(self, writer: byte_writer.ByteWriter, thread: LoopThread) -> None:
        super().__init__()
        self._writer = writer
        self._thread = thread
        self._is_left = False

    def __repr__(self) -> str:
        return waiting(repr(self._writer))

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        """Append bytes, all of them. Raises SegmentSealedError when the byte stream has ended."""
        view = memoryview(data).cast("B")
        self._thread.run(self._write(bytes(view)))
        return len(view)

    async def _write(self, data: bytes) -> None:
        await self._writer.drain()
        self._writer.write(data)

    def flush(self) -> None:
        """Wait until everything written is durable."""
        if not self.closed and not self._is_left:
            self._thread.run(self._writer.flush())

    def seal(self) -> None:
        """Make everything durable, then allow no more appends."""
        self._thread.run(self._writer.seal())

    def truncate_before(self, offset: int) -> None:
        """Drop everything below ``offset``."""
        self._thread.run(self._writer.truncate(offset))

    def close(self) -> None:
        """Make everything durable, then leave. Idempotent.

        Interrupted, it takes nothing any more, and the next call waits for the rest.

        Raises:
            HeadraceError: why something is not durable; the writer is closed even then.
        """
        if self.closed:
            return
        try:
            if not self._writer.is_ended:
                self._thread.run(self._writer.close())
        except HeadraceError:
            self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        self._is_left = True
        super().close()  # which flushes

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with beside(error):
            self.close()

    def __del__(self) -> None:
        """Close what was forgotten. What it could not make durable is said by the end of the client: an error
        of this method is heard by no caller.
        """
        if not self._writer.is_ended:
            with suppress(HeadraceError):
                self._thread.finish(self._writer.finish())


class ByteReader(OfOneProcess, io.RawIOBase):
    """A file that may still grow: reading waits at its end until there is more, or the byte stream is
    sealed.
    """

    def __init__(self, reader: byte_reader.ByteReader, thread: LoopThread) -> None:
        super().__init__()
        self._reader = reader
        self._thread = thread
        self._offset = reader.tell()
        """Moves on when bytes are handed out, not when they arrive: an interrupt loses none."""

    def __repr__(self) -> str:
        return waiting(repr(self._reader))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a part of ``buffer``; 0 means that the byte stream has ended."""
        view = memoryview(buffer).cast("B")
        data = self._look(len(view), 1)
        size = len(data)
        view[:size] = data
        self._offset += size
        return size

    def readall(self) -> bytes:
        """Return everything up to the end of the byte stream, waiting for its seal."""
        data = self._look(sys.maxsize, sys.maxsize)
        end = self._offset + len(data)
        self._offset = end
        return data

    def _look(self, size: int, least: int) -> bytes:
        try:
            return self._thread.run(self._reader.look(self._offset, size, least))
        except OURS as error:
            failure = outward(error)
        raise failure

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move to an offset from the start, from here, or from the present end; return where that is."""
        if whence == io.SEEK_CUR:
            offset += self._offset
        elif whence == io.SEEK_END:
            offset += self._thread.run(self._reader.tail_offset())
        self._thread.run(self._reader.seek(offset))
        self._offset = offset
        return offset

    def head_offset(self) -> int:
        """Return where the byte stream begins: what is in front was truncated."""
        return self._thread.run(self._reader.head_offset())

    def close(self) -> None:
        """Stop reading. Idempotent."""
        if not self.closed:
            self._thread.finish(self._reader.close())
            super().close()

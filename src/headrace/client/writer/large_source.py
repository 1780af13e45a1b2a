"""Where the bytes of a large event come from: memory, a file, or a copy of what can be read only once.

They are read in pieces, and again from the first one if the segment is sealed meanwhile. The length is needed
first, as it stands in front of an event; so what has none is copied to a temporary file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterable, Iterable
from pathlib import Path
from typing import IO, Any, Final

from headrace.client.framing.event_frames import own_bytes
from headrace.client.framing.event_framing import STORED_EVENT_BYTES_MAX
from headrace.errors import EventTooLargeError, InvalidArgumentError
from headrace.limits import MIB
from headrace.runtime.blocking import BlockingWork, SystemThreads

_COPY_BYTES: Final = 1 * MIB
_THREADS: Final = "headrace-large-event"


class LargeSource:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def __len__(self) -> int:
        return len(self._data)

    async def read(self, offset: int, size: int) -> memoryview | bytes:
        """Return ``size`` bytes at ``offset``. Raises InvalidArgumentError: they are not there any more."""
        return self._data[offset : offset + size]

    def close(self) -> None:
        """Leave it."""


class FileSource(LargeSource):
    """What a binary file has from its present position on."""

    def __init__(self, file: IO[bytes], *, is_own: bool) -> None:
        """``is_own``: close the file in the end."""
        self._file = file
        self._is_own = is_own
        self._begin = file.tell()
        self._size = file.seek(0, os.SEEK_END) - self._begin
        self._threads: BlockingWork | None = None

    def __len__(self) -> int:
        return self._size

    async def read(self, offset: int, size: int) -> memoryview | bytes:
        """See :meth:`LargeSource.read`."""
        if self._threads is None:
            self._threads = SystemThreads().pool(1, _THREADS)
        data = await self._threads.run(self._read, offset, size)
        if len(data) < size:
            raise InvalidArgumentError(
                f"the file of a large event has become shorter than {self._size} bytes while it was written"
            )
        return data

    def _read(self, offset: int, size: int) -> bytes:
        self._file.seek(self._begin + offset)
        return self._file.read(size)

    def close(self) -> None:
        """Close the file, if it is not the caller's."""
        if self._threads is not None:
            self._threads.close()
        if self._is_own:
            self._file.close()


class PrefixedSource(LargeSource):
    """A source with some bytes in front of it."""

    def __init__(self, prefix: bytes, source: LargeSource) -> None:
        self._prefix = prefix
        self._source = source

    def __len__(self) -> int:
        return len(self._prefix) + len(self._source)

    async def read(self, offset: int, size: int) -> memoryview | bytes:
        """See :meth:`LargeSource.read`."""
        head = self._prefix[offset : offset + size]
        behind = max(0, offset - len(self._prefix))
        return head + bytes(await self._source.read(behind, size - len(head)))

    def close(self) -> None:
        """See :meth:`LargeSource.close`."""
        self._source.close()


def source_of(event: Any) -> LargeSource:
    """Return where to read what a caller gave: bytes, text, a path, a binary file, or an iterable of bytes.

    It may read files, so it is for a thread of its own.

    Raises:
        InvalidArgumentError: it is none of that, or empty.
        EventTooLargeError: it has more bytes than an event can.
        OSError: its file cannot be read.
    """
    if isinstance(event, str):
        source = LargeSource(event.encode())
    elif isinstance(event, os.PathLike):
        source = FileSource(Path(event).open("rb"), is_own=True)  # noqa: SIM115 - the source closes it
    elif hasattr(event, "read"):
        source = FileSource(event, is_own=False) if event.seekable() else _copied(_blocks_of(event))
    elif isinstance(event, Iterable) and not isinstance(event, bytes | bytearray | memoryview):
        source = _copied(event)
    else:
        source = LargeSource(own_bytes(event))
    return _checked(source)


async def source_on_loop(event: Any) -> LargeSource:
    """As :func:`source_of`, for a caller on the loop. It may give an asynchronous iterable as well."""
    if isinstance(event, str | bytes | bytearray | memoryview):
        return source_of(event)
    threads = SystemThreads().pool(1, _THREADS)
    try:
        if not isinstance(event, AsyncIterable):
            return await threads.run(source_of, event)
        copy = _Copy()
        try:
            async for data in event:
                await threads.run(copy.add, data)
        except BaseException:
            copy.file.close()
            raise
        return _checked(copy.finish())
    finally:
        threads.close()


class _Copy:
    """A temporary file that becomes a source."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - the source closes it

    def add(self, data: Any) -> None:
        self.file.write(own_bytes(data))
        if self.file.tell() > STORED_EVENT_BYTES_MAX:
            raise EventTooLargeError(self.file.tell(), STORED_EVENT_BYTES_MAX)

    def finish(self) -> FileSource:
        self.file.seek(0)
        return FileSource(self.file, is_own=True)


def _copied(blocks: Iterable[Any]) -> FileSource:
    copy = _Copy()
    try:
        for data in blocks:
            copy.add(data)
    except BaseException:
        copy.file.close()
        raise
    return copy.finish()


def _blocks_of(file: IO[bytes]) -> Iterable[bytes]:
    while data := file.read(_COPY_BYTES):
        yield data


def _checked(source: LargeSource) -> LargeSource:
    if 0 < len(source) <= STORED_EVENT_BYTES_MAX:
        return source
    source.close()
    if len(source):
        raise EventTooLargeError(len(source), STORED_EVENT_BYTES_MAX)
    raise InvalidArgumentError("an event has at least one byte")

"""A stream of one segment whose writers agree on its order: each appends only behind what it has read.

async with client.revisioned("demo/log") as log:
    async for entry in log.read():
        print(entry.revision, entry.data)
    revision = await log.append(b"next", after=entry.revision)

Its entries are ordinary events. Source: protocol, "Revisioned stream protocol".
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.iterators import Items
from headrace.client.reader.event_batch import Event
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.revisions.revision import Revision
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.services import ClientServices
from headrace.client.writer.conditional_output import ConditionalOutput
from headrace.errors import EventTooLargeError, OffsetMismatchError, SegmentTruncatedError
from headrace.limits import EVENT_BYTES_MAX
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.model.watermark import NEWEST_MARK


class RevisionedStream(OfOneProcess):
    """Made by :meth:`Client.revisioned`. Any number of calls may be in flight. Used on one loop.

    Every call may raise ``NoSuchSegmentError`` if the stream was deleted, ``AccessDeniedError``, and an
    ``UnknownOutcomeError`` or ``OwnershipError`` after the client has given up.
    """

    def __init__(
        self, address: SegmentAddress, services: ClientServices, calls: SegmentCalls, config: ReaderConfig
    ) -> None:
        self.address = address
        self._services = services
        self._calls = calls
        self._config = config
        self._output = ConditionalOutput(address, services, config.reconnect)

    def __repr__(self) -> str:
        place = f"{self.address.scope}/{self.address.stream}"
        return described("aio.RevisionedStream", place, self._services.uri, "open")

    @property
    def place(self) -> str:
        """``scope/stream``."""
        return f"{self.address.scope}/{self.address.stream}"

    async def oldest(self) -> Revision:
        """Return the revision in front of the first entry that is left."""
        return Revision((await self._calls.info(self.address)).start_offset)

    async def latest(self) -> Revision:
        """Return the revision behind the last entry."""
        return Revision((await self._calls.info(self.address)).length)

    def read(self, after: Revision | None = None) -> AsyncIterator[Event]:
        """Iterate over the entries behind ``after``, by default behind the oldest revision.

        It ends with the last entry that there is when it is begun; ``Revision(entry.end_offset)`` is that of
        an entry.

        Raises:
            SegmentTruncatedError: the next entry was truncated; go on from :meth:`oldest`, or from the mark.
        """
        return Items(_Batches(self, after))

    async def append(self, data: bytes, after: Revision | None = None) -> Revision:
        """Append an entry, and return its revision; a call that is cancelled may have happened.

        Args:
            data: the entry, at most 8 MiB.
            after: the revision that nothing may follow yet; None: whatever is there.

        Raises:
            OffsetMismatchError: something follows ``after`` already. Nothing was appended.
            SegmentSealedError: the stream was sealed. Nothing was appended.
            EventTooLargeError: nothing was appended.
        """
        if after is not None:
            revision = await self.append_if(data, after)
            if revision is None:
                latest = await self.latest()
                raise OffsetMismatchError(self.address.name, after.offset, latest.offset)
            return revision
        while True:
            revision = await self.append_if(data, await self.latest())
            if revision is not None:
                return revision

    async def append_if(self, data: bytes, after: Revision) -> Revision | None:
        """Append an entry as :meth:`append` does; return None if something follows ``after`` already."""
        if len(data) > EVENT_BYTES_MAX:
            raise EventTooLargeError(len(data), EVENT_BYTES_MAX)
        with self._services.open_writers.change(self.place):
            done = await self._output.append(data, after.offset)
        return after.behind(len(data)) if done else None

    async def mark(self) -> Revision | None:
        """Return where the mark is; None: nowhere. Everybody who uses the stream sees the same one."""
        offset = await self._calls.attribute(self.address, NEWEST_MARK)
        return None if offset == ATTRIBUTE_NULL else Revision(offset)

    async def move_mark(self, expected: Revision | None, to: Revision) -> bool:
        """Move the mark from where it is expected; return whether it is at ``to`` then."""
        was = ATTRIBUTE_NULL if expected is None else expected.offset
        with self._services.open_writers.change(self.place):
            return await self._calls.replace_attribute(self.address, NEWEST_MARK, was, to.offset)

    async def truncate(self, revision: Revision) -> None:
        """Drop the entries up to ``revision``. One that is truncated already is none to complain about."""
        with self._services.open_writers.change(self.place):
            try:
                await self._calls.truncate(self.address, revision.offset)
            except SegmentTruncatedError as error:
                if error.start_offset < revision.offset:
                    raise

    async def close(self) -> None:
        """Leave. Idempotent; what was appended is durable already."""
        self._output.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open_range(self, after: Revision | None) -> SegmentRangeReader:
        """Return a reader of what there is now behind a revision. Whoever has it closes it."""
        info = await self._calls.info(self.address)
        start = info.start_offset if after is None else after.offset
        if start < info.start_offset:
            raise SegmentTruncatedError(self.address.name, info.start_offset, start)
        return SegmentRangeReader(self.address, start, max(start, info.length), self._services, self._config)


class _Batches(AsyncIterator[list[Event]]):
    """The entries of a stream, some at a time; it goes on where it was if a wait is cancelled."""

    def __init__(self, stream: RevisionedStream, after: Revision | None) -> None:
        self._stream = stream
        self._after = after
        self._range: SegmentRangeReader | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Event]:
        if self._range is None:
            self._range = await self._stream.open_range(self._after)
        batch = await self._range.next_batch()
        if batch is None:
            self._range.stop()
            raise StopAsyncIteration
        return list(batch.events())

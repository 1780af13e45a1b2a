"""Reads the events of a stream between two cuts, through every scale event, in order per key.

Batches carry raw bytes of one segment and cost nothing per event until they are looked into. The position
is a stream cut at any moment: store it, and start again from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from headrace.client.config import ReaderConfig
from headrace.client.description import described
from headrace.client.reader.cuts import Cuts, Edge, parse_edge
from headrace.client.reader.segment_inputs import InputStart, OnError, SegmentInputs
from headrace.client.reader.stream_walk import Start, StreamWalk
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentCalls
from headrace.client.serializers import Codec
from headrace.client.services import ClientServices
from headrace.errors import ClosedError, HeadraceError
from headrace.model.stream_cut import COMPLETED, StreamCut


class EventReader(SegmentInputs):
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
        records: bool = False,
        on_error: OnError = "raise",
    ) -> None:
        super().__init__(services, config, codec, limit, on_error)
        self.has_records = records
        """Whether the events of the stream are records."""
        self.scope = scope
        self.stream = stream
        self._calls = calls
        self._walk = walk
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
        records: bool = False,
        on_error: OnError = "raise",
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
        reader = cls(scope, stream, services, calls, config, walk, codec, limit, records, on_error)
        await reader._begin(walk.to_read())
        return reader

    def __repr__(self) -> str:
        failed = self._failure is not None
        state = f"failed: {self._failure}" if failed else "open" if self._end is None else "closed"
        state += f", at {', '.join(f'{key}={value}' for key, value in self.position().offsets.items())}"
        return described("aio.EventReader", f"{self.scope}/{self.stream}", self._services.uri, state)

    def position(self) -> StreamCut:
        """Return the cut behind the last event or batch that was handed out.

        Events that an error has said to be gone lie in front of it.
        """
        if self._end is not None:
            return self._end
        offsets = self._walk.offsets()
        offsets.update({address.segment_id: self._offset_of(address) for address in self._inputs})
        return StreamCut.from_offsets(self.scope, self.stream, offsets)

    # ------------------------------------------------------------------------------ the walk

    @property
    def _is_complete(self) -> bool:
        return self._walk.is_complete

    def _name(self) -> str:
        return f"{self.scope}/{self.stream}"

    def _on_read(self, address: SegmentAddress, offset: int) -> None:
        self._walk.on_read(address.segment_id, offset)

    def _on_end(self, address: SegmentAddress, offset: int, *, sealed: bool) -> None:
        segment_id = address.segment_id
        if not self._walk.needs_successors(segment_id):
            if sealed:
                self._walk.on_finished(segment_id, offset, ())
            return
        name = f"successors of {address.name}"
        try:
            self._services.supervisor.spawn(name, self._follow(segment_id, offset))
        except ClosedError as error:
            self._failure = error

    async def _follow(self, segment_id: int, length: int) -> None:
        """Ask for successors of a finished segment, and read each once all its predecessors are read."""
        try:
            successors = await self._services.segments.successors(self.scope, self.stream, segment_id)
            if not self._is_closed:
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
        opened = []
        for start in starts:
            address, offset = SegmentAddress(self.scope, self.stream, start.segment_id), start.offset
            if offset == COMPLETED:
                offset = (await self._calls.info(address)).length
                self._walk.on_read(start.segment_id, offset)
            opened.append(InputStart(address, offset, start.end, self.has_records))
        self._open_inputs(opened)

    # ------------------------------------------------------------------------------ ending

    async def close(self) -> None:
        """Stop reading. The position stays available. Idempotent."""
        self.stop()

    def stop(self) -> None:
        """Close it, outside of a task as well."""
        if self._end is None:
            self._end = self.position()
        self._close_inputs()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def check(self) -> None:
        """Assert the invariants."""
        self._walk.check()
        super().check()

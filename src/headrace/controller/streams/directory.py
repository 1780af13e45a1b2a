"""Finds streams by name and caches their handles, so that all callers share one per stream.

Handles are found as long as they are referenced; a bounded number of recent ones is cached beyond that.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from weakref import WeakValueDictionary

from headrace.controller.segments.calls import SegmentCalls
from headrace.controller.store.contract import MetadataStore, Row
from headrace.controller.store.layout import STREAM, member_key, member_name
from headrace.controller.store.rows.stream_row import StreamRow, decode_stream
from headrace.controller.streams.history_rows import HistoryRows
from headrace.controller.streams.scopes import Scope, Scopes
from headrace.controller.streams.stream import Stream
from headrace.errors import NoSuchScopeError, NoSuchStreamError, NoSuchTableError


@dataclass(slots=True)
class DirectoryStatistics:
    """Gauges of now and counts since creation."""

    streams: int
    streams_max: int
    hits: int
    misses: int


class Directory:
    """Streams by scope and name. An unreferenced handle may be dropped and read again."""

    def __init__(
        self, store: MetadataStore, scopes: Scopes, segments: SegmentCalls, *, streams_max: int
    ) -> None:
        self._store = store
        self._segments = segments
        self.history = HistoryRows(store)
        self._scopes = scopes
        self._streams_max = streams_max
        self._streams: WeakValueDictionary[tuple[str, str], Stream] = WeakValueDictionary()
        self._recent: OrderedDict[tuple[str, str], Stream] = OrderedDict()
        self._hits = 0
        self._misses = 0

    async def get(self, scope_name: str, name: str) -> Stream:
        """Return the stream as fresh as this moment. Raises NoSuchStreamError."""
        stream = await self.find(scope_name, name)
        if stream is None:
            raise NoSuchStreamError(f"stream {scope_name}/{name} does not exist")
        return stream

    async def find(self, scope_name: str, name: str) -> Stream | None:
        """Return the stream, or None if it (or its scope) does not exist."""
        known = self.known(scope_name, name)
        if known is not None:
            self._keep(known)
            try:
                await known.refresh()
            except NoSuchStreamError:
                self.forget(known)
            else:
                self._hits += 1
                return known
        self._misses += 1
        scope = await self._scopes.find(scope_name)
        if scope is None or not name.isascii():
            return None
        return await self.find_in(scope, name)

    def known(self, scope_name: str, name: str) -> Stream | None:
        """Return the stream as it was read last, if its handle is cached; it may have changed since."""
        known = self._streams.get((scope_name, name))
        return None if known is None or known.gone else known

    async def find_in(self, scope: Scope, name: str) -> Stream | None:
        """Read the stream's row and return its handle."""
        try:
            row = await self._store.get(scope.table, member_key(STREAM, name))
        except NoSuchTableError:
            return None
        if row is None:
            return None
        return self.learn(scope.name, name, scope.table, decode_stream(row.value), row.version)

    def learn(self, scope_name: str, name: str, table: str, row: StreamRow, version: int) -> Stream:
        """Return the handle of a stream whose row was just read or written."""
        key = (scope_name, name)
        stream = self._streams.get(key)
        if stream is not None and not stream.gone and stream.uid == row.uid:
            stream.adopt(row, version)
            return stream
        stream = self._streams[key] = Stream(
            self._store, self.history, self._segments, scope_name, name, table, row, version
        )
        self._keep(stream)
        return stream

    def forget(self, stream: Stream) -> None:
        """The stream is gone."""
        stream.gone = True
        key = (stream.scope, stream.name)
        if self._streams.get(key) is stream:
            del self._streams[key]
            self._recent.pop(key, None)

    async def page(self, scope_name: str, token: bytes, count: int) -> tuple[list[tuple[str, Row]], bytes]:
        """Return (name, row) of some streams of a scope and the token after them; empty at the end.

        Raises:
            NoSuchScopeError: the scope does not exist.
        """
        scope = await self._scopes.find(scope_name)
        if scope is None:
            raise NoSuchScopeError(f"scope {scope_name!r} does not exist")
        return await self.page_in(scope, token, count)

    async def page_in(self, scope: Scope, token: bytes, count: int) -> tuple[list[tuple[str, Row]], bytes]:
        """Like :meth:`page`, of this very scope: not of a later one of its name."""
        while True:
            try:
                page = await self._store.scan(scope.table, token, count)
            except NoSuchTableError:
                raise NoSuchScopeError(f"scope {scope.name!r} does not exist") from None
            streams = [(member_name(key), row) for key, row in page.rows if key[:1] == STREAM]
            if streams or not page.rows:
                return streams, page.token
            token = page.token

    def _keep(self, stream: Stream) -> None:
        key = (stream.scope, stream.name)
        self._recent[key] = stream
        self._recent.move_to_end(key)
        while len(self._recent) > self._streams_max:
            self._recent.popitem(last=False)

    def statistics(self) -> DirectoryStatistics:
        return DirectoryStatistics(len(self._streams), self._streams_max, self._hits, self._misses)

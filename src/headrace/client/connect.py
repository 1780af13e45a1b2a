"""Entry to a running system: connect to its controllers, then ask for streams, writers and readers.

async with connect("tcp://localhost:9090") as client:
    await client.create_stream("demo", "orders")
    async with client.event_writer("demo", "orders") as writer:
        await writer.write(b"hello", "some key")
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Self

from headrace.client.config import (
    DEFAULT_URI,
    ClientConfig,
    ControllerAddress,
    ReaderConfig,
    WriterConfig,
)
from headrace.client.connections.pool import ConnectionPool
from headrace.client.connections.tls import tls_context
from headrace.client.control.controller import Controller
from headrace.client.control.key_value_tables import KeyValueTables
from headrace.client.control.segments import Segments
from headrace.client.control.stream_times import StreamTimes, TimedCut
from headrace.client.control.streams import StreamInfo, Streams
from headrace.client.control.tokens import Tokens
from headrace.client.control.transactions import Transactions
from headrace.client.control.writer_times import WriterTimes
from headrace.client.opening import Opening
from headrace.client.owner_calls import OwnerCalls
from headrace.client.reader.byte_reader import ByteReader
from headrace.client.reader.cuts import Cuts, Edge
from headrace.client.reader.event_reader import EventReader
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.reader.time_windows import MarkReader, TimeWindows
from headrace.client.segment_calls import SegmentCalls, SegmentInfo
from headrace.client.services import ClientServices, SegmentAddress
from headrace.client.tables.key_value_table import KeyValueTable
from headrace.client.writer.byte_writer import ByteWriter
from headrace.client.writer.event_writer import EventWriter
from headrace.client.writer.segment_map import SegmentMap, SegmentRange, Successor
from headrace.client.writer.txn_writer import TxnWriter
from headrace.errors import PreconditionError, StreamSealedError
from headrace.model.endpoint import is_loopback
from headrace.model.key_space import KeyRange
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.policies import StreamConfiguration
from headrace.model.stream_cut import StreamCut
from headrace.model.watermark import Watermark
from headrace.runtime import logs
from headrace.runtime.clock import SystemClock
from headrace.runtime.entropy import Entropy, SystemEntropy
from headrace.runtime.supervisor import Supervisor

_log = logs.logger(__name__)


def connect(
    uri: str = DEFAULT_URI, config: ClientConfig | None = None, *, entropy: Entropy | None = None
) -> Client:
    """Return a client of the controllers at ``uri``. Nothing is sent before the first call.

    Call it where an event loop runs; the client belongs to that loop.

    Args:
        uri: ``tcp://host:9090``, or ``tls://``; several addresses are separated by commas.
        config: everything else. By default credentials and authorities are those of the environment:
            ``HEADRACE_USER``, ``HEADRACE_PASSWORD``, ``HEADRACE_TLS_CA``.
        entropy: source of ids and jitter; the system's if none is given.

    Raises:
        InvalidArgumentError: the URI makes no sense, or a file of TLS cannot be used.
    """
    return Client(uri, config or ClientConfig(), entropy or SystemEntropy())


def _warn_of_plain_credentials(address: ControllerAddress, config: ClientConfig) -> None:
    if config.credentials is None or address.tls:
        return
    distant = [each for each in address.endpoints if not is_loopback(each.host)]
    if distant:
        _log.warning("credentials are sent unencrypted: connect to tls://...", controller=str(distant[0]))


class Client:
    """One connection to the system, shared by everything that is made from it. Used on one loop."""

    def __init__(self, uri: str, config: ClientConfig, entropy: Entropy) -> None:
        address = ControllerAddress.parse(uri)
        _warn_of_plain_credentials(address, config)
        clock = SystemClock()
        self.uri = uri
        self.config = config
        self._controller = Controller(address, config, entropy)
        self._streams = Streams(self._controller, clock)
        self._times = StreamTimes(self._controller)
        self.transactions = Transactions(self._controller)
        """Transactions by id: status, commit, abort; and batches of them for exactly-once sinks."""
        self._services = ClientServices(
            pool=ConnectionPool(
                connections_max=config.connections_max,
                connect_timeout_s=config.connect_timeout_s,
                tls=tls_context(config) if address.tls else None,
            ),
            segments=Segments(self._controller),
            tokens=Tokens(self._controller, clock, enabled=config.credentials is not None),
            entropy=entropy,
            supervisor=Supervisor("client"),
        )
        self._owner_calls = OwnerCalls(self._services, config.reader.reconnect)
        self._calls = SegmentCalls(self._owner_calls)
        self._tables = KeyValueTables(self._controller)
        self._cuts = Cuts(self._services, self._calls, config.reader)
        self._txn_writers: dict[TxnWriter, None] = {}
        """Those that were not closed."""
        self._closed = False

    # ------------------------------------------------------------------------------ scopes and streams

    async def create_scope(self, scope: str) -> bool:
        """Create a scope; False if it exists already."""
        return await self._streams.create_scope(scope)

    async def delete_scope(self, scope: str, *, recursive: bool = False) -> bool:
        """Delete a scope (with everything in it, if ``recursive``); False if there is none.

        Raises:
            ScopeNotEmptyError: it holds streams and ``recursive`` is not set.
        """
        return await self._streams.delete_scope(scope, recursive=recursive)

    async def scope_exists(self, scope: str) -> bool:
        """Tell whether the scope exists."""
        return await self._streams.scope_exists(scope)

    def list_scopes(self) -> AsyncIterator[str]:
        """Yield every scope, ``_system`` included."""
        return self._streams.list_scopes()

    async def create_stream(
        self, scope: str, stream: str, configuration: StreamConfiguration | None = None
    ) -> bool:
        """Create a stream, by default with one segment and without retention; False if it exists already.

        Raises:
            NoSuchScopeError: the scope does not exist.
        """
        return await self._streams.create_stream(scope, stream, configuration)

    async def update_stream(self, scope: str, stream: str, configuration: StreamConfiguration) -> None:
        """Replace the whole configuration of a stream. Raises NoSuchStreamError, StreamSealedError."""
        await self._streams.update_stream(scope, stream, configuration)

    async def stream_configuration(self, scope: str, stream: str) -> StreamConfiguration:
        """Return the configuration of a stream. Raises NoSuchStreamError."""
        return await self._streams.stream_configuration(scope, stream)

    async def stream_exists(self, scope: str, stream: str) -> bool:
        """Tell whether the stream exists."""
        return await self._streams.stream_exists(scope, stream)

    def list_streams(
        self, scope: str, *, tag: str | None = None, internal: bool = False
    ) -> AsyncIterator[str]:
        """Yield the streams of a scope, with ``tag`` if given; ``internal`` ones only if asked for."""
        return self._streams.list_streams(scope, tag=tag, internal=internal)

    async def stream_info(self, scope: str, stream: str) -> StreamInfo:
        """Return configuration, head and tail of a stream. Raises NoSuchStreamError."""
        configuration = await self._streams.stream_configuration(scope, stream)
        head = await self._cuts.head(scope, stream)
        tail = await self._cuts.tail(scope, stream)
        return StreamInfo(scope, stream, configuration, head, tail, not tail.offsets)

    async def scale_stream(
        self,
        scope: str,
        stream: str,
        sealed: Sequence[int],
        new_ranges: Iterable[KeyRange],
        *,
        wait: bool = True,
    ) -> list[SegmentRange]:
        """Seal segments and continue them with new ones that own the same keys; see
        :meth:`Streams.scale_stream`.
        """
        made = await self._streams.scale_stream(scope, stream, sealed, new_ranges, wait=wait)
        return [SegmentRange(*each) for each in made]

    async def truncate_stream(self, cut: StreamCut, *, any_offset: bool = False) -> None:
        """Drop everything in front of ``cut``.

        Args:
            cut: where the stream begins then.
            any_offset: whether a place is not looked at: for plain bytes that happen to look like events.

        Raises:
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidArgumentError: the stream never had a segment of the cut, or an offset is behind the tail
                or inside an event, so that no reader could begin there.
        """
        if not any_offset:
            await self._cuts.check_truncation(cut)
        await self._streams.truncate_stream(cut)

    async def seal_stream(self, scope: str, stream: str) -> None:
        """Allow no more writes to a stream. Raises NoSuchStreamError."""
        await self._streams.seal_stream(scope, stream)

    async def delete_stream(self, scope: str, stream: str) -> bool:
        """Remove a sealed stream with all its data; False if there is none. Raises StreamNotSealedError."""
        return await self._streams.delete_stream(scope, stream)

    # ------------------------------------------------------------------------------ segments and cuts

    async def current_segments(self, scope: str, stream: str) -> list[SegmentRange]:
        """Return the segments that take events now; none if the stream is sealed."""
        return await self._services.segments.current(scope, stream)

    async def successors(self, scope: str, stream: str, segment_id: int) -> list[Successor]:
        """Return what continues a sealed segment; nothing if the stream ends there.

        Raises:
            NoSuchSegmentError: the stream never had the segment.
        """
        return await self._services.segments.successors(scope, stream, segment_id)

    async def segments_between(
        self,
        start: StreamCut | Mapping[int, int],
        end: StreamCut | None = None,
        *,
        scope: str = "",
        stream: str = "",
    ) -> list[int]:
        """Return the segments that have events between two cuts, oldest first.

        Args:
            start: a cut, or offsets (then ``scope`` and ``stream`` are needed); unbounded is the head.
            end: a cut; None is the present tail.
            scope: of the stream, unless a cut contains it.
            stream: its name, unless a cut contains it.
        """
        for cut in (start, end):
            if isinstance(cut, StreamCut) and not cut.is_unbounded:
                scope, stream = cut.scope, cut.stream
        first = start.offsets if isinstance(start, StreamCut) else start
        if not first:
            first = (await self._cuts.head(scope, stream)).offsets
        last = {} if end is None else end.offsets
        return await self._services.segments.between(scope, stream, first, last)

    async def key_ranges(self, scope: str, stream: str, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, sealed ones included, without those the stream never had."""
        return await self._cuts.ranges(scope, stream, segment_ids)

    async def head_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut at which the stream begins. Raises NoSuchStreamError."""
        return await self._cuts.head(scope, stream)

    async def tail_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut behind the last durable event; without segments if the stream is sealed."""
        return await self._cuts.tail(scope, stream)

    async def cut_at(self, scope: str, stream: str, time: datetime | int) -> TimedCut:
        """Return where a stream was at a time: everything acknowledged after it lies at or behind the cut.

        Args:
            scope: of the stream.
            stream: its name.
            time: a ``datetime`` (of the local zone if it names none), or milliseconds since 1970.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the time is before 1970.
        """
        return await self._times.cut_at(scope, stream, time)

    async def check_cut(self, cut: StreamCut) -> None:
        """Check that a bounded cut is a position of the present stream, whether truncated or not.

        Raises:
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the stream never had a segment of the cut, its segments do not own every key
                once, an offset is behind the tail, or lies inside an event.
        """
        await self._cuts.check(cut)

    async def segment_info(self, scope: str, stream: str, segment_id: int) -> SegmentInfo:
        """Return start, length and seal of a segment. Raises NoSuchSegmentError."""
        return await self._calls.info(SegmentAddress(scope, stream, segment_id))

    async def locate_offset(self, scope: str, stream: str, segment_id: int, target_offset: int) -> int:
        """Return an event boundary at or after an offset; the segment's length if the server knows none."""
        return await self._calls.locate_offset(SegmentAddress(scope, stream, segment_id), target_offset)

    def read_segment_range(
        self, scope: str, stream: str, segment_id: int, start: int, end: int | None
    ) -> SegmentRangeReader:
        """Return a reader of the raw bytes (or the events) of one segment between two offsets."""
        address = SegmentAddress(scope, stream, segment_id)
        return SegmentRangeReader(address, start, end, self._services, self.config.reader)

    # ------------------------------------------------------------------------------ writers and readers

    def event_writer(
        self, scope: str, stream: str, config: WriterConfig | None = None, *, writer_id: str | None = None
    ) -> Opening[EventWriter]:
        """Open a writer: ``async with client.event_writer(...) as writer``, or ``await`` it and close it.

        Args:
            scope: of the stream.
            stream: its name.
            config: instead of the client's.
            writer_id: under which times are noted; a random one if not given.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
        """
        return Opening(self._open_writer(scope, stream, config or self.config.writer, writer_id))

    async def _open_writer(
        self, scope: str, stream: str, config: WriterConfig, writer_id: str | None
    ) -> EventWriter:
        segments = await self._services.segments.current(scope, stream)
        if not segments:
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        return EventWriter(
            scope,
            stream,
            self._services,
            config,
            SegmentMap(segments),
            calls=self._calls,
            times=WriterTimes(self._controller),
            writer_id=writer_id,
        )

    def event_reader(
        self,
        scope: str,
        stream: str,
        *,
        start: Edge = "head",
        end: Edge | None = None,
        config: ReaderConfig | None = None,
    ) -> Opening[EventReader]:
        """Open a reader of everything between two cuts: ``async with client.event_reader(...) as reader``.

        Args:
            scope: of the stream.
            stream: its name.
            start: a cut, ``"head"`` or ``"tail"``.
            end: a cut, ``"tail"`` (as it is now), or None: go on until the stream is sealed.
            config: instead of the client's.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the present stream does not have a given cut; see :meth:`check_cut`.
        """
        opening = EventReader.open(
            scope,
            stream,
            self._services,
            self._calls,
            config or self.config.reader,
            start=start,
            end=end,
        )
        return Opening(opening)

    async def watermarks(self, scope: str, stream: str) -> AsyncIterator[Watermark]:
        """Yield the watermarks of a stream that are retained, oldest first, up to the present end.

        Raises:
            NoSuchStreamError: there is no such stream, or it has no watermarks.
        """
        marks = MarkReader(scope, stream, self._services, self._calls, self.config.reader)
        async for watermark in marks.read():
            yield watermark

    def time_windows(self, scope: str, stream: str) -> TimeWindows:
        """Return what says up to which time a stream is complete at the positions of a reader."""
        marks = MarkReader(scope, stream, self._services, self._calls, self.config.reader)
        return TimeWindows(marks, self._cuts)

    def txn_writer(
        self,
        scope: str,
        stream: str,
        *,
        writer_id: str | None = None,
        lease_ms: int | None = None,
        config: WriterConfig | None = None,
    ) -> TxnWriter:
        """Return a writer of transactions; nothing is sent before the first one begins.

        Args:
            scope: of the stream.
            stream: its name.
            writer_id: reports the times of commits; a random one if not given.
            lease_ms: how long a transaction survives without a ping, at least 10 s.
            config: instead of the client's.
        """
        writer = TxnWriter(
            scope,
            stream,
            self._services,
            self.transactions,
            config or self.config.writer,
            writer_id=writer_id or str(uuid.UUID(bytes=self._services.entropy.uuid4_bytes())),
            lease_ms=self.config.transaction_lease_ms if lease_ms is None else lease_ms,
            on_closed=lambda closed: self._txn_writers.pop(closed, None),
        )
        self._txn_writers[writer] = None
        return writer

    # ------------------------------------------------------------------------------ byte streams

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
        return ByteWriter(address, self._services, self._calls, config)

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

    # ------------------------------------------------------------------------------ key-value tables

    async def create_key_value_table(
        self,
        scope: str,
        table: str,
        *,
        primary_key_bytes: int,
        secondary_key_bytes: int = 0,
        partitions: int = 1,
        rollover_bytes: int = 0,
    ) -> bool:
        """Create a key-value table; False if one with this name exists already, whatever its configuration.

        Args:
            scope: where.
            table: its name.
            primary_key_bytes: of every primary key, which decides the partition.
            secondary_key_bytes: of every secondary key; 0: the table has none.
            partitions: how many parts are spread over the segment stores, for ever.
            rollover_bytes: size of chunks in long-term storage; 0 leaves it to the server.

        Raises:
            NoSuchScopeError: the scope does not exist.
            InvalidArgumentError: the numbers or the name are none that a table can have.
        """
        configuration = KeyValueTableConfiguration(
            partitions=partitions,
            primary_key_bytes=primary_key_bytes,
            secondary_key_bytes=secondary_key_bytes,
            rollover_bytes=rollover_bytes,
        )
        return await self._tables.create(scope, table, configuration)

    async def key_value_table_configuration(self, scope: str, table: str) -> KeyValueTableConfiguration:
        """Return what a key-value table was created with. Raises NoSuchKeyValueTableError."""
        return await self._tables.configuration(scope, table)

    def list_key_value_tables(self, scope: str) -> AsyncIterator[str]:
        """Yield the key-value tables of a scope. Raises NoSuchScopeError."""
        return self._tables.list(scope)

    async def delete_key_value_table(self, scope: str, table: str) -> bool:
        """Remove a key-value table with all its entries; False if there is none."""
        return await self._tables.delete(scope, table)

    def key_value_table(self, scope: str, table: str) -> Opening[KeyValueTable]:
        """Open a key-value table: ``async with client.key_value_table(...) as table``, or ``await`` it.

        Raises (when opened):
            NoSuchKeyValueTableError: there is no such table.
        """
        return Opening(self._open_table(scope, table))

    async def _open_table(self, scope: str, table: str) -> KeyValueTable:
        configuration = await self._tables.configuration(scope, table)
        partitions = await self._tables.partitions(scope, table)
        return KeyValueTable(scope, table, configuration, partitions, self._owner_calls)

    # ------------------------------------------------------------------------------ life

    async def prepare_fork(self) -> None:
        """Release what does not survive a fork in this process; it is opened again by its next use."""
        await self._controller.release()

    async def close(self) -> None:
        """Drop connections and stop. Writers should be closed before, or their last events fail.
        Idempotent.
        """
        if self._closed:
            return
        self._closed = True
        for writer in list(self._txn_writers):
            await writer.close()
        # Tasks first: their calls fail, and none connects again when connections are closed.
        await self._services.supervisor.stop()
        self._services.pool.close()
        await self._controller.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

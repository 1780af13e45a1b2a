"""The synchronous client: every method of :class:`headrace.client.Client`, performed on a private loop's
thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headrace.client.blocking.byte_streams import BlockingByteReader, BlockingByteWriter
from headrace.client.blocking.event_times import BlockingEventWriter, BlockingTimeWindows
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.readers import BlockingEventReader, BlockingSegmentRange
from headrace.client.blocking.tables import BlockingKeyValueTable
from headrace.client.blocking.writers import BlockingTxnWriter
from headrace.client.config import DEFAULT_URI, ClientConfig, ControllerAddress, ReaderConfig, WriterConfig
from headrace.client.connect import Client
from headrace.client.connect import connect as connect_on_loop
from headrace.client.connections.tls import tls_context
from headrace.client.control.stream_times import TimedCut
from headrace.client.control.streams import StreamInfo
from headrace.client.control.transactions import BatchOutcome, SinkWatermark, TransactionStatus
from headrace.client.reader.cuts import Edge
from headrace.client.segment_calls import SegmentInfo
from headrace.client.writer.segment_map import SegmentRange, Successor
from headrace.errors import ClosedError, HeadraceError
from headrace.model.key_space import KeyRange
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.policies import StreamConfiguration
from headrace.model.stream_cut import StreamCut
from headrace.model.watermark import Watermark

T = TypeVar("T")

_FORK_TIMEOUT_S: Final = 2.0

_abandoned: Final[list[object]] = []
"""What a forked child inherited and must neither use nor destroy: the parent's sockets and channels
depend on it.
"""


_clients: Final[weakref.WeakSet[BlockingClient]] = weakref.WeakSet()


def _prepare_fork() -> None:
    """Close every control channel: a child that inherits the threads' locks of an open one would wait for
    ever.
    """
    for client in list(_clients):
        client.prepare_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_prepare_fork)


def connect(uri: str = DEFAULT_URI, config: ClientConfig | None = None) -> BlockingClient:
    """Return a client of the controllers at ``uri``. Nothing is sent before the first call.

    Raises:
        InvalidArgumentError: the URI makes no sense, or a file of TLS cannot be used.
    """
    config = config or ClientConfig()
    if ControllerAddress.parse(uri).tls:
        tls_context(config)  # the client is made later, by its first call
    return BlockingClient(uri, config)


class BlockingClient:
    """One connection to the system, for any number of threads. Picklable; connects again after a fork."""

    def __init__(self, uri: str, config: ClientConfig) -> None:
        self.uri = uri
        self.config = config
        self._lock = threading.Lock()
        self._running: tuple[int, LoopThread, Client] | None = None
        self._closed = False
        _clients.add(self)

    def prepare_fork(self) -> None:
        """Called in the parent right before a fork, on the thread that forks."""
        running = self._running
        if running is None or running[0] != os.getpid():
            return
        with contextlib.suppress(HeadraceError, TimeoutError):
            running[1].run(running[2].prepare_fork(), _FORK_TIMEOUT_S)

    def __reduce__(self) -> tuple[Callable[..., BlockingClient], tuple[str, ClientConfig]]:
        return BlockingClient, (self.uri, self.config)

    def _start(self) -> tuple[LoopThread, Client]:
        """Return the loop's thread and its client, both of this process."""
        running = self._running
        if running is not None and running[0] == os.getpid():
            return running[1], running[2]
        with self._lock:
            running = self._running
            if running is None or running[0] != os.getpid():
                if self._closed:
                    raise ClosedError("the client is closed")
                if running is not None:
                    _abandoned.append(running)
                thread = LoopThread(self.config.loop)
                try:
                    client = thread.call(lambda: connect_on_loop(self.uri, self.config))
                except BaseException:
                    thread.stop()
                    raise
                running = self._running = (os.getpid(), thread, client)
        return running[1], running[2]

    def _run(self, call: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
        thread, client = self._start()
        return thread.run(call(client))

    # ------------------------------------------------------------------------------ scopes and streams

    def create_scope(self, scope: str) -> bool:
        """Create a scope; False if it exists already."""
        return self._run(lambda client: client.create_scope(scope))

    def delete_scope(self, scope: str, *, recursive: bool = False) -> bool:
        """Delete a scope (with everything in it, if ``recursive``); False if there is none."""
        return self._run(lambda client: client.delete_scope(scope, recursive=recursive))

    def scope_exists(self, scope: str) -> bool:
        """Tell whether the scope exists."""
        return self._run(lambda client: client.scope_exists(scope))

    def list_scopes(self) -> Iterator[str]:
        """Yield every scope, ``_system`` included."""
        thread, client = self._start()
        return thread.iterate(client.list_scopes())

    def create_stream(
        self, scope: str, stream: str, configuration: StreamConfiguration | None = None
    ) -> bool:
        """Create a stream; False if it exists already. Raises NoSuchScopeError."""
        return self._run(lambda client: client.create_stream(scope, stream, configuration))

    def update_stream(self, scope: str, stream: str, configuration: StreamConfiguration) -> None:
        """Replace the whole configuration of a stream. Raises NoSuchStreamError, StreamSealedError."""
        self._run(lambda client: client.update_stream(scope, stream, configuration))

    def stream_configuration(self, scope: str, stream: str) -> StreamConfiguration:
        """Return the configuration of a stream. Raises NoSuchStreamError."""
        return self._run(lambda client: client.stream_configuration(scope, stream))

    def stream_exists(self, scope: str, stream: str) -> bool:
        """Tell whether the stream exists."""
        return self._run(lambda client: client.stream_exists(scope, stream))

    def list_streams(self, scope: str, *, tag: str | None = None, internal: bool = False) -> Iterator[str]:
        """Yield the streams of a scope, with ``tag`` if given; ``internal`` ones only if asked for."""
        thread, client = self._start()
        return thread.iterate(client.list_streams(scope, tag=tag, internal=internal))

    def stream_info(self, scope: str, stream: str) -> StreamInfo:
        """Return configuration, head and tail of a stream. Raises NoSuchStreamError."""
        return self._run(lambda client: client.stream_info(scope, stream))

    def scale_stream(
        self,
        scope: str,
        stream: str,
        sealed: Sequence[int],
        new_ranges: Iterable[KeyRange],
        *,
        wait: bool = True,
    ) -> list[SegmentRange]:
        """Seal segments and continue them with new ones; see :meth:`Client.scale_stream`."""
        return self._run(lambda client: client.scale_stream(scope, stream, sealed, new_ranges, wait=wait))

    def truncate_stream(self, cut: StreamCut, *, any_offset: bool = False) -> None:
        """Drop everything in front of ``cut``; see :meth:`Client.truncate_stream`."""
        self._run(lambda client: client.truncate_stream(cut, any_offset=any_offset))

    def seal_stream(self, scope: str, stream: str) -> None:
        """Allow no more writes to a stream. Raises NoSuchStreamError."""
        self._run(lambda client: client.seal_stream(scope, stream))

    def delete_stream(self, scope: str, stream: str) -> bool:
        """Remove a sealed stream with all its data; False if there is none. Raises StreamNotSealedError."""
        return self._run(lambda client: client.delete_stream(scope, stream))

    # ------------------------------------------------------------------------------ segments and cuts

    def current_segments(self, scope: str, stream: str) -> list[SegmentRange]:
        """Return the segments that take events now; none if the stream is sealed."""
        return self._run(lambda client: client.current_segments(scope, stream))

    def successors(self, scope: str, stream: str, segment_id: int) -> list[Successor]:
        """Return what continues a sealed segment; nothing if the stream ends there.

        Raises:
            NoSuchSegmentError: the stream never had the segment.
        """
        return self._run(lambda client: client.successors(scope, stream, segment_id))

    def segments_between(
        self,
        start: StreamCut | Mapping[int, int],
        end: StreamCut | None = None,
        *,
        scope: str = "",
        stream: str = "",
    ) -> list[int]:
        """Return the segments that have events between two cuts; see :meth:`Client.segments_between`."""
        return self._run(lambda client: client.segments_between(start, end, scope=scope, stream=stream))

    def key_ranges(self, scope: str, stream: str, segment_ids: Iterable[int]) -> dict[int, KeyRange]:
        """Return the key ranges of segments, sealed ones included, without those the stream never had."""
        return self._run(lambda client: client.key_ranges(scope, stream, segment_ids))

    def head_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut at which the stream begins. Raises NoSuchStreamError."""
        return self._run(lambda client: client.head_cut(scope, stream))

    def tail_cut(self, scope: str, stream: str) -> StreamCut:
        """Return the cut behind the last durable event; without segments if the stream is sealed."""
        return self._run(lambda client: client.tail_cut(scope, stream))

    def cut_at(self, scope: str, stream: str, time: datetime | int) -> TimedCut:
        """Return where a stream was at a time; see :meth:`Client.cut_at`."""
        return self._run(lambda client: client.cut_at(scope, stream, time))

    def check_cut(self, cut: StreamCut) -> None:
        """Check that a bounded cut is a position of the present stream; see :meth:`Client.check_cut`."""
        self._run(lambda client: client.check_cut(cut))

    def segment_info(self, scope: str, stream: str, segment_id: int) -> SegmentInfo:
        """Return start, length and seal of a segment. Raises NoSuchSegmentError."""
        return self._run(lambda client: client.segment_info(scope, stream, segment_id))

    def locate_offset(self, scope: str, stream: str, segment_id: int, target_offset: int) -> int:
        """Return an event boundary at or after an offset; the segment's length if the server knows none."""
        return self._run(lambda client: client.locate_offset(scope, stream, segment_id, target_offset))

    def read_segment_range(
        self, scope: str, stream: str, segment_id: int, start: int, end: int | None
    ) -> BlockingSegmentRange:
        """Return a reader of the raw bytes (or the events) of one segment between two offsets."""
        thread, client = self._start()
        part = thread.call(lambda: client.read_segment_range(scope, stream, segment_id, start, end))
        return BlockingSegmentRange(part, thread)

    # ------------------------------------------------------------------------------ writers and readers

    def event_writer(
        self, scope: str, stream: str, config: WriterConfig | None = None, *, writer_id: str | None = None
    ) -> BlockingEventWriter:
        """Open a writer; see :meth:`Client.event_writer`. Raises NoSuchStreamError, StreamSealedError."""
        thread, client = self._start()

        async def opened() -> BlockingEventWriter:
            writer = await client.event_writer(
                scope, stream, config or self.config.writer, writer_id=writer_id
            )
            return BlockingEventWriter(writer, thread)

        return thread.run(opened())

    def event_reader(
        self,
        scope: str,
        stream: str,
        *,
        start: Edge = "head",
        end: Edge | None = None,
        config: ReaderConfig | None = None,
    ) -> BlockingEventReader:
        """Open a reader of everything between two cuts; see :meth:`Client.event_reader`."""
        thread, client = self._start()

        async def opened() -> BlockingEventReader:
            reader = await client.event_reader(scope, stream, start=start, end=end, config=config)
            return BlockingEventReader(reader, thread)

        return thread.run(opened())

    def watermarks(self, scope: str, stream: str) -> Iterator[Watermark]:
        """Yield the watermarks of a stream that are retained, oldest first, up to the present end."""
        thread, client = self._start()
        return thread.iterate(client.watermarks(scope, stream))

    def time_windows(self, scope: str, stream: str) -> BlockingTimeWindows:
        """Return what says up to which time a stream is complete at the positions of a reader."""
        thread, client = self._start()
        return BlockingTimeWindows(thread.call(lambda: client.time_windows(scope, stream)), thread)

    def txn_writer(
        self,
        scope: str,
        stream: str,
        *,
        writer_id: str | None = None,
        lease_ms: int | None = None,
        config: WriterConfig | None = None,
    ) -> BlockingTxnWriter:
        """Return a writer of transactions; see :meth:`Client.txn_writer`."""
        thread, client = self._start()

        def made() -> BlockingTxnWriter:
            writer = client.txn_writer(scope, stream, writer_id=writer_id, lease_ms=lease_ms, config=config)
            return BlockingTxnWriter(writer, thread)

        return thread.call(made)

    def byte_writer(self, scope: str, stream: str, config: WriterConfig | None = None) -> BlockingByteWriter:
        """Open a stream of one segment as a file that only grows; see :meth:`Client.byte_writer`."""
        thread, client = self._start()

        async def opened() -> BlockingByteWriter:
            return BlockingByteWriter(await client.byte_writer(scope, stream, config), thread)

        return thread.run(opened())

    def byte_reader(
        self, scope: str, stream: str, *, offset: int | None = None, config: ReaderConfig | None = None
    ) -> BlockingByteReader:
        """Open a stream of one segment as a file to be read; see :meth:`Client.byte_reader`."""
        thread, client = self._start()

        async def opened() -> BlockingByteReader:
            reader = await client.byte_reader(scope, stream, offset=offset, config=config)
            return BlockingByteReader(reader, thread)

        return thread.run(opened())

    # ------------------------------------------------------------------------------ key-value tables

    def create_key_value_table(
        self,
        scope: str,
        table: str,
        *,
        primary_key_bytes: int,
        secondary_key_bytes: int = 0,
        partitions: int = 1,
        rollover_bytes: int = 0,
    ) -> bool:
        """Create a key-value table; False if it exists; see :meth:`Client.create_key_value_table`."""
        return self._run(
            lambda client: client.create_key_value_table(
                scope,
                table,
                primary_key_bytes=primary_key_bytes,
                secondary_key_bytes=secondary_key_bytes,
                partitions=partitions,
                rollover_bytes=rollover_bytes,
            )
        )

    def key_value_table_configuration(self, scope: str, table: str) -> KeyValueTableConfiguration:
        """Return what a key-value table was created with. Raises NoSuchKeyValueTableError."""
        return self._run(lambda client: client.key_value_table_configuration(scope, table))

    def list_key_value_tables(self, scope: str) -> Iterator[str]:
        """Yield the key-value tables of a scope. Raises NoSuchScopeError."""
        thread, client = self._start()
        return thread.iterate(client.list_key_value_tables(scope))

    def delete_key_value_table(self, scope: str, table: str) -> bool:
        """Remove a key-value table with all its entries; False if there is none."""
        return self._run(lambda client: client.delete_key_value_table(scope, table))

    def key_value_table(self, scope: str, table: str) -> BlockingKeyValueTable:
        """Open a key-value table as a mapping. Raises NoSuchKeyValueTableError."""
        thread, client = self._start()

        async def opened() -> BlockingKeyValueTable:
            return BlockingKeyValueTable(await client.key_value_table(scope, table), thread)

        return thread.run(opened())

    # ------------------------------------------------------------------------------ transactions by id

    def transaction_status(self, scope: str, stream: str, txn_id: int) -> TransactionStatus:
        """Return the state of a transaction; UNKNOWN if it does not exist (any more)."""
        return self._run(lambda client: client.transactions.status(scope, stream, txn_id))

    def commit_transaction(self, scope: str, stream: str, txn_id: int) -> None:
        """Decide that an open transaction becomes visible. Raises TransactionStateError."""
        self._run(lambda client: client.transactions.commit(scope, stream, txn_id))

    def abort_transaction(self, scope: str, stream: str, txn_id: int) -> None:
        """Drop an open transaction. Raises TransactionStateError."""
        self._run(lambda client: client.transactions.abort(scope, stream, txn_id))

    def completed_transactions(self, scope: str, stream: str) -> list[tuple[int, TransactionStatus]]:
        """Return transactions that ended recently, with COMMITTED or ABORTED."""
        return self._run(lambda client: client.transactions.completed(scope, stream))

    def commit_batch(
        self,
        scope: str,
        stream: str,
        *,
        sink: str,
        query: str,
        batch: int,
        txn_ids: Sequence[int],
        takeover: bool = False,
        wait_until_visible: bool = False,
    ) -> BatchOutcome:
        """Commit all transactions of a batch or none, once; see :meth:`Transactions.commit_batch`."""
        return self._run(
            lambda client: client.transactions.commit_batch(
                scope,
                stream,
                sink=sink,
                query=query,
                batch=batch,
                txn_ids=txn_ids,
                takeover=takeover,
                wait_until_visible=wait_until_visible,
            )
        )

    def abort_batch(self, scope: str, stream: str, *, sink: str, query: str, batch: int) -> int:
        """Abort the open transactions of a batch; return how many."""
        return self._run(
            lambda client: client.transactions.abort_batch(scope, stream, sink=sink, query=query, batch=batch)
        )

    def sink_watermark(self, scope: str, stream: str, sink: str) -> SinkWatermark | None:
        """Return how far a sink has come, or None if it never committed or was forgotten."""
        return self._run(lambda client: client.transactions.sink_watermark(scope, stream, sink))

    # ------------------------------------------------------------------------------ life

    def close(self) -> None:
        """Drop connections and end the thread. Idempotent."""
        with self._lock:
            self._closed = True
            running, self._running = self._running, None
        if running is not None and running[0] == os.getpid():
            running[1].run(running[2].close())
            running[1].stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""The client of threads: what :class:`headrace.client.connect.Client` can be asked, without ``await``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from headrace.client.blocking.batches import Batch
from headrace.client.blocking.byte_streams import ByteReader, ByteWriter
from headrace.client.blocking.event_client import EventClient
from headrace.client.blocking.reader_groups import ReaderGroup
from headrace.client.blocking.readers import SegmentRangeReader
from headrace.client.blocking.revisions import RevisionedStream, Synchronizer
from headrace.client.blocking.stream import Stream
from headrace.client.blocking.tables import KeyValueTable
from headrace.client.blocking.waits import iterates, like, makes, opens, waits
from headrace.client.config import ClientConfig, ControllerAddress, default_uri
from headrace.client.connect import Client as LoopClient
from headrace.client.connections.tls import tls_context
from headrace.client.public_calls import public_call
from headrace.client.scoped_name import named
from headrace.client.stream_options import Retention, configuration_of, parts_said
from headrace.model.policies import ScalingPolicy, StreamConfiguration


@public_call
def connect(uri: str | None = None, config: ClientConfig | None = None) -> Client:
    """Return a client of the controllers at ``uri``. Nothing is sent before the first call.

    >>> with headrace.connect("tcp://localhost:9090") as client:
    ...     scopes = list(client.list_scopes())

    Args:
        uri: ``tcp://host:9090``, or ``tls://``; several addresses are separated by commas. By default
            ``HEADRACE_URI`` of the environment, or ``tcp://localhost:9090``.
        config: everything else. By default credentials and authorities are those of the environment:
            ``HEADRACE_USER``, ``HEADRACE_PASSWORD``, ``HEADRACE_TLS_CA``.

    Raises:
        InvalidArgumentError: the URI makes no sense, or a file of TLS cannot be used.
    """
    uri = uri if uri is not None else default_uri()
    config = config or ClientConfig()
    if ControllerAddress.parse(uri).tls:
        tls_context(config)  # the client is made later, by its first call
    return Client(uri, config)


class Client(EventClient):
    """One connection to the system, for any number of threads. Picklable; connects again after a fork.

    Where a scope and a stream are wanted, ``"scope/stream"`` will do.

    >>> with headrace.connect("tcp://localhost:9090") as client:
    ...     scopes = list(client.list_scopes())
    """

    # ------------------------------------------------------------------------------ scopes and streams

    create_scope = waits(LoopClient.create_scope)
    delete_scope = waits(LoopClient.delete_scope)
    scope_exists = waits(LoopClient.scope_exists)
    list_scopes = iterates(LoopClient.list_scopes)
    _create_stream = waits(LoopClient._create_stream)  # noqa: SLF001 - it warns here, where the user's line is
    update_stream = waits(LoopClient.update_stream)
    stream_configuration = waits(LoopClient.stream_configuration)
    stream_exists = waits(LoopClient.stream_exists)
    list_streams = iterates(LoopClient.list_streams)
    stream_info = waits(LoopClient.stream_info)
    scale_stream = waits(LoopClient.scale_stream)
    truncate_stream = waits(LoopClient.truncate_stream)
    seal_stream = waits(LoopClient.seal_stream)
    delete_stream = waits(LoopClient.delete_stream)

    @named
    @like(LoopClient.create_stream)
    def create_stream(
        self,
        scope: str,
        stream: str,
        configuration: StreamConfiguration | None = None,
        *,
        segments: int | None = None,
        tags: Iterable[str] | None = None,
        retention: Retention | None = None,
        scaling: ScalingPolicy | None = None,
        records: bool | None = None,
        exist_ok: bool = True,
    ) -> bool:
        wanted = configuration_of(
            configuration,
            segments=segments,
            tags=tags,
            retention=retention,
            scaling=scaling,
            records=records,
        )
        said = parts_said(configuration, segments, tags, retention, scaling, records)
        created, difference = self._create_stream(scope, stream, wanted, said, exist_ok=exist_ok)
        if difference:
            warnings.warn(difference, stacklevel=4)
        return created

    @named
    def stream(self, scope: str, stream: str) -> Stream:
        """Return a stream as an object. Nothing is asked, and it need not exist.

        >>> orders = client.stream("demo/orders")
        """
        return Stream(self, scope, stream)

    # ------------------------------------------------------------------------------ segments and cuts

    current_segments = waits(LoopClient.current_segments)
    successors = waits(LoopClient.successors)
    segments_between = waits(LoopClient.segments_between)
    key_ranges = waits(LoopClient.key_ranges)
    head_cut = waits(LoopClient.head_cut)
    tail_cut = waits(LoopClient.tail_cut)
    cut_at = waits(LoopClient.cut_at)
    check_cut = waits(LoopClient.check_cut)
    segment_info = waits(LoopClient.segment_info)
    locate_offset = waits(LoopClient.locate_offset)
    read_segment_range = makes(LoopClient.read_segment_range, SegmentRangeReader)

    # ------------------------------------------------------------------------------ byte streams, tables

    byte_writer = opens(LoopClient.byte_writer, ByteWriter)
    byte_reader = opens(LoopClient.byte_reader, ByteReader)
    create_key_value_table = waits(LoopClient.create_key_value_table)
    key_value_table_configuration = waits(LoopClient.key_value_table_configuration)
    list_key_value_tables = iterates(LoopClient.list_key_value_tables)
    delete_key_value_table = waits(LoopClient.delete_key_value_table)
    key_value_table = opens(LoopClient.key_value_table, KeyValueTable)

    # ------------------------------------------------------------------------------ reader groups

    reader_group = opens(LoopClient.reader_group, ReaderGroup)
    list_reader_groups = iterates(LoopClient.list_reader_groups)

    # ------------------------------------------------------------------------------ shared states

    revisioned = opens(LoopClient.revisioned, RevisionedStream)
    synchronizer: Any = opens(LoopClient.synchronizer, Synchronizer)  # of whatever it is given

    # ------------------------------------------------------------------------------ batches, transactions

    batch = opens(LoopClient.batch, Batch)
    last_batch = waits(LoopClient.last_batch)

    transaction_status = waits(LoopClient.transaction_status)
    commit_transaction = waits(LoopClient.commit_transaction)
    abort_transaction = waits(LoopClient.abort_transaction)
    completed_transactions = waits(LoopClient.completed_transactions)
    commit_batch = waits(LoopClient.commit_batch)
    abort_batch = waits(LoopClient.abort_batch)
    sink_watermark = waits(LoopClient.sink_watermark)

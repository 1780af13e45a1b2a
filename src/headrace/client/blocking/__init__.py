"""The client without ``await``: the same names, for threads, notebooks, command lines and Spark's workers.

    with connect("tcp://localhost:9090") as client:
        client.create_stream("demo", "orders")
        with client.event_writer("demo", "orders") as writer:
            writer.write(b"hello", "some key").wait()

Where servers have TLS and users: ``connect("tls://host:9090", ClientConfig(credentials=
Credentials.basic("me", password), tls_authorities=Path("ca.pem")))``, or ``HEADRACE_USER``,
``HEADRACE_PASSWORD`` and ``HEADRACE_TLS_CA`` in the environment.

A private thread runs the event loop. A client may be used by many threads, pickled (it connects again where
it is unpickled) and carried through a fork (it connects again in the child).
"""

from headrace.client import (
    UNBOUNDED,
    BatchOutcome,
    BatchStatus,
    ClientConfig,
    Consumption,
    Credentials,
    Event,
    EventBatch,
    GroupLag,
    GroupMember,
    Insert,
    KeyRange,
    KeyValueTableConfiguration,
    MarkedSegment,
    Put,
    ReaderConfig,
    ReaderGroupConfig,
    Record,
    RecordBatch,
    Remove,
    RetentionPolicy,
    Revision,
    ScalingPolicy,
    SegmentInfo,
    SegmentLag,
    SegmentRange,
    Serializer,
    SinkWatermark,
    StreamConfiguration,
    StreamCut,
    StreamInfo,
    Successor,
    TableVersion,
    TimedCut,
    TimeWindow,
    TransactionStatus,
    TransactionTag,
    VersionedEntry,
    VersionedKey,
    Watermark,
    WriterConfig,
    events_to_arrow,
)
from headrace.client.blocking.acks import Ack
from headrace.client.blocking.batches import Batch
from headrace.client.blocking.byte_streams import ByteReader, ByteWriter
from headrace.client.blocking.client import Client, connect
from headrace.client.blocking.event_times import EventWriter, TimeWindows
from headrace.client.blocking.named_writer import NamedWriter
from headrace.client.blocking.reader_groups import GroupReader, ReaderGroup
from headrace.client.blocking.readers import EventReader, SegmentRangeReader
from headrace.client.blocking.revisions import RevisionedStream, Synchronizer
from headrace.client.blocking.stream import Stream
from headrace.client.blocking.tables import KeyValueTable
from headrace.client.blocking.transactions import Transaction, TxnWriter
from headrace.client.blocking.writers import Writer
from headrace.client.public_calls import make_public

# The names they had before they had the ones of the front door.
BlockingAck = Ack
BlockingByteReader = ByteReader
BlockingByteWriter = ByteWriter
BlockingClient = Client
BlockingEventReader = EventReader
BlockingEventWriter = EventWriter
BlockingKeyValueTable = KeyValueTable
BlockingSegmentRange = SegmentRangeReader
BlockingTimeWindows = TimeWindows
BlockingTransaction = Transaction
BlockingTxnWriter = TxnWriter
BlockingWriter = Writer

__all__ = [
    "UNBOUNDED",
    "Ack",
    "Batch",
    "BatchOutcome",
    "BatchStatus",
    "BlockingAck",
    "BlockingByteReader",
    "BlockingByteWriter",
    "BlockingClient",
    "BlockingEventReader",
    "BlockingEventWriter",
    "BlockingKeyValueTable",
    "BlockingSegmentRange",
    "BlockingTimeWindows",
    "BlockingTransaction",
    "BlockingTxnWriter",
    "BlockingWriter",
    "ByteReader",
    "ByteWriter",
    "Client",
    "ClientConfig",
    "Consumption",
    "Credentials",
    "Event",
    "EventBatch",
    "EventReader",
    "EventWriter",
    "GroupLag",
    "GroupMember",
    "GroupReader",
    "Insert",
    "KeyRange",
    "KeyValueTable",
    "KeyValueTableConfiguration",
    "MarkedSegment",
    "NamedWriter",
    "Put",
    "ReaderConfig",
    "ReaderGroup",
    "ReaderGroupConfig",
    "Record",
    "RecordBatch",
    "Remove",
    "RetentionPolicy",
    "Revision",
    "RevisionedStream",
    "ScalingPolicy",
    "SegmentInfo",
    "SegmentLag",
    "SegmentRange",
    "SegmentRangeReader",
    "Serializer",
    "SinkWatermark",
    "Stream",
    "StreamConfiguration",
    "StreamCut",
    "StreamInfo",
    "Successor",
    "Synchronizer",
    "TableVersion",
    "TimeWindow",
    "TimeWindows",
    "TimedCut",
    "Transaction",
    "TransactionStatus",
    "TransactionTag",
    "TxnWriter",
    "VersionedEntry",
    "VersionedKey",
    "Watermark",
    "WriterConfig",
    "connect",
    "events_to_arrow",
]

make_public(Client, Stream, TimeWindows, TxnWriter, KeyValueTable, Ack, ByteWriter)
make_public(RevisionedStream, Synchronizer, ReaderGroup)
make_public(
    EventReader,
    GroupReader,
    SegmentRangeReader,
    ByteReader,
    but=("next_batch", "read_all", "readinto", "readall"),
)
make_public(EventWriter, NamedWriter, Transaction, Batch, but=("write",))

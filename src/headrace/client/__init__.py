"""The client library: ``connect`` to a system and read and write its streams, with asyncio.

:mod:`headrace.client.blocking` is the same without ``await``. Reading order: ``connect``, then
``writer/event_writer`` or ``reader/event_reader``, and from there down to ``connections``.
"""

from headrace.client.config import ClientConfig, ReaderConfig, WriterConfig
from headrace.client.connect import Client, connect
from headrace.client.control.stream_times import TimedCut
from headrace.client.control.streams import StreamInfo
from headrace.client.control.transactions import BatchOutcome, BatchStatus, SinkWatermark, TransactionStatus
from headrace.client.credentials import Credentials
from headrace.client.framing.event_framing import events_to_arrow
from headrace.client.groups.group_lag import GroupLag, SegmentLag
from headrace.client.groups.group_reader import GroupReader
from headrace.client.groups.reader_group import GroupMember, ReaderGroup
from headrace.client.public_calls import make_public
from headrace.client.reader.byte_reader import ByteReader
from headrace.client.reader.event_batch import Event, EventBatch
from headrace.client.reader.event_reader import EventReader
from headrace.client.reader.record_batch import Record, RecordBatch
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.reader.time_windows import TimeWindow, TimeWindows
from headrace.client.revisions.revision import Revision
from headrace.client.revisions.revisioned_stream import RevisionedStream
from headrace.client.revisions.synchronizer import Synchronizer
from headrace.client.segment_calls import SegmentInfo
from headrace.client.segment_map import SegmentRange, Successor
from headrace.client.serializers import Serializer
from headrace.client.stream import Stream
from headrace.client.tables.changes import Insert, Put, Remove
from headrace.client.tables.key_value_table import KeyValueTable
from headrace.client.tables.versions import TableVersion, VersionedEntry, VersionedKey
from headrace.client.writer.ack import Ack
from headrace.client.writer.byte_writer import ByteWriter
from headrace.client.writer.event_writer import EventWriter
from headrace.client.writer.named_writer import NamedWriter
from headrace.client.writer.numbered_batch import Batch
from headrace.client.writer.txn_writer import Transaction, TxnWriter
from headrace.model.key_space import KeyRange
from headrace.model.key_value_table import KeyValueTableConfiguration
from headrace.model.policies import RetentionPolicy, ScalingPolicy, StreamConfiguration
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED, StreamCut
from headrace.model.transaction_tag import TransactionTag
from headrace.model.watermark import MarkedSegment, Watermark

__all__ = [
    "UNBOUNDED",
    "Ack",
    "Batch",
    "BatchOutcome",
    "BatchStatus",
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
    "KeyRange",
    "MarkedSegment",
    "NamedWriter",
    "ReaderConfig",
    "ReaderGroup",
    "ReaderGroupConfig",
    "Record",
    "RecordBatch",
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
    "Synchronizer",
    "Successor",
    "TimedCut",
    "TimeWindow",
    "TimeWindows",
    "Transaction",
    "TransactionStatus",
    "TransactionTag",
    "TxnWriter",
    "Watermark",
    "WriterConfig",
    "connect",
    "events_to_arrow",
    "Insert",
    "Put",
    "Remove",
    "KeyValueTable",
    "TableVersion",
    "VersionedEntry",
    "VersionedKey",
    "KeyValueTableConfiguration",
]

make_public(Client, Stream, EventReader, SegmentRangeReader, TimeWindows, TxnWriter, KeyValueTable)
make_public(ByteReader, ByteWriter, RevisionedStream, Synchronizer, Revision, ReaderGroup, GroupReader)
make_public(EventWriter, NamedWriter, Transaction, Batch, but=("write", "drain"))
make_public(ClientConfig, ReaderConfig, WriterConfig, also=("__init__",))

"""One row of every kind with every field in use, and the functions that write and read it."""

from headrace.controller.store.rows import (
    bucket_row,
    cut_series_row,
    epoch_row,
    event_rows,
    group_row,
    load_marks_row,
    marks_row,
    number_row,
    outcome_row,
    retention_row,
    scope_row,
    sealed_row,
    sink_row,
    stream_row,
    table_row,
    txn_row,
)
from headrace.limits import INT64_MAX
from headrace.model.key_space import KeyRange
from headrace.model.policies import (
    RetentionKind,
    RetentionPolicy,
    ScalingKind,
    ScalingPolicy,
    StreamConfiguration,
)
from headrace.model.transaction_tag import TransactionTag

UID = bytes(range(16))
TXN = (1 << 96) | 42
TIME_MS = 1_700_000_000_000

CONFIG = StreamConfiguration(
    scaling=ScalingPolicy(ScalingKind.EVENTS_PER_SECOND, 500, 2, 2),
    retention=RetentionPolicy(RetentionKind.TIME, 86_400_000, INT64_MAX),
    tags=frozenset({"billing", "eu"}),
    timestamp_timeout_ms=2000,
    rollover_size_bytes=1 << 20,
)
EPOCH = epoch_row.EpochRecord(
    epoch=1,
    reference=1,
    created_ms=TIME_MS,
    segments=(
        epoch_row.SegmentRecord(0, TIME_MS - 5, KeyRange(0.0, 0.5)),
        epoch_row.SegmentRecord((1 << 32) + 2, TIME_MS, KeyRange(0.5, 1.0)),
    ),
    splits=1,
    merges=2,
)
STREAM = stream_row.StreamRow(
    uid=UID,
    created_ms=TIME_MS,
    state=stream_row.StreamState.COMMITTING_TXN,
    config=CONFIG,
    epoch=EPOCH,
    truncation=((0, 17), ((1 << 32) + 2, -1)),
    scale=stream_row.ScalePlan(1, (0,), (KeyRange(0.0, 0.25), KeyRange(0.25, 0.5)), TIME_MS),
    commit=stream_row.CommitBatch(0, (42, 43), stream_row.Roll(TIME_MS, stream_row.RollPhase.REVEALED)),
)
PLAIN_STREAM = stream_row.StreamRow(
    uid=UID,
    created_ms=TIME_MS,
    state=stream_row.StreamState.ACTIVE,
    config=StreamConfiguration(),
    epoch=EPOCH,
)
UPDATING_STREAM = stream_row.StreamRow(
    uid=UID,
    created_ms=TIME_MS,
    state=stream_row.StreamState.UPDATING,
    config=StreamConfiguration(),
    epoch=EPOCH,
    updating=CONFIG,
)
TRUNCATING_STREAM = stream_row.StreamRow(
    uid=UID,
    created_ms=TIME_MS,
    state=stream_row.StreamState.TRUNCATING,
    config=StreamConfiguration(),
    epoch=EPOCH,
    truncating=((0, 5), ((1 << 32) + 2, 9)),
)
WANTING_STREAM = stream_row.StreamRow(
    uid=UID,
    created_ms=TIME_MS,
    state=stream_row.StreamState.COMMITTING_TXN,
    config=StreamConfiguration(),
    epoch=EPOCH,
    commit=stream_row.CommitBatch(1, (TXN,)),
    wants=stream_row.Wants(CONFIG, ((0, 5), ((1 << 32) + 2, 9)), seal=True, delete=True),
)
GROUP_CONFIG = group_row.GroupConfig(
    refresh_ms=3000,
    checkpoint_interval_ms=-1,
    checkpoints_max=3,
    retention_type=2,
    starts=(group_row.StreamPosition("demo", "orders", ()),),
    ends=(group_row.StreamPosition("demo", "orders", ((0, 100), (1, -1))),),
)
CUT_SAMPLES = (
    cut_series_row.CutSample(TIME_MS, ((0, 17), ((1 << 32) + 2, 300))),
    cut_series_row.CutSample(TIME_MS + 10_000, ((0, 17), ((1 << 32) + 2, 1 << 40))),
    cut_series_row.CutSample(TIME_MS + 20_000, (((1 << 32) + 2, 1 << 40), ((2 << 32) + 3, 0))),
)
CUT_SERIES = cut_series_row.SeriesRow(
    (
        cut_series_row.LevelRow(
            (cut_series_row.BlockEntry(TIME_MS - 7, 900), cut_series_row.BlockEntry(TIME_MS - 5, 70)),
            5,
            cut_series_row.Samples().added(CUT_SAMPLES[0]).added(CUT_SAMPLES[1]).added(CUT_SAMPLES[2]),
        ),
        cut_series_row.LevelRow(samples=cut_series_row.Samples().added(CUT_SAMPLES[1])),
        cut_series_row.LevelRow(),
    )
)

MARKS = {
    "writer-1": marks_row.WriterMark(-7, ((0, 100),)),
    "writer-2": marks_row.WriterMark(TIME_MS, (), alive=False),
}

SAMPLES = {
    "scope": (
        scope_row.ScopeRow(UID, TIME_MS, scope_row.ScopeState.CLOSED),
        scope_row.encode_scope,
        scope_row.decode_scope,
    ),
    "stream": (STREAM, stream_row.encode_stream, stream_row.decode_stream),
    "stream-plain": (PLAIN_STREAM, stream_row.encode_stream, stream_row.decode_stream),
    "stream-updating": (UPDATING_STREAM, stream_row.encode_stream, stream_row.decode_stream),
    "stream-truncating": (TRUNCATING_STREAM, stream_row.encode_stream, stream_row.decode_stream),
    "stream-wanting": (WANTING_STREAM, stream_row.encode_stream, stream_row.decode_stream),
    "event-progress": (
        event_rows.ProgressRow(70_000, 3),
        event_rows.encode_progress,
        event_rows.decode_progress,
    ),
    "event-set-aside": (
        event_rows.FailedEventRow(17, TIME_MS, "host:9090", "no handler", b"Q\x01\x09"),
        event_rows.encode_failed_event,
        event_rows.decode_failed_event,
    ),
    "epoch": (EPOCH, epoch_row.encode_epoch, epoch_row.decode_epoch),
    "sealed": (sealed_row.SealedRow(3, 1 << 40), sealed_row.encode_sealed, sealed_row.decode_sealed),
    "sealed-unmeasured": (sealed_row.SealedRow(3), sealed_row.encode_sealed, sealed_row.decode_sealed),
    "sealed-with-stream": (sealed_row.SealedRow(None, 7), sealed_row.encode_sealed, sealed_row.decode_sealed),
    "deleted": (number_row.DeletedRow(7, TIME_MS), number_row.encode_deleted, number_row.decode_deleted),
    "counter": (10_240, number_row.encode_counter, number_row.decode_counter),
    "transaction": (
        txn_row.TxnRow(
            state=txn_row.TxnState.PREPARED,
            scope="demo",
            stream="orders",
            created_ms=TIME_MS,
            lease_ms=30_000,
            end_of_life_ms=TIME_MS + 30_000_000,
            prepared_ms=TIME_MS + 1,
            commit_time=-5,
            writer="writer-1",
            tag=TransactionTag("sink", "query", 17, -1, 3),
        ),
        txn_row.encode_txn,
        txn_row.decode_txn,
    ),
    "bucket-member": (
        bucket_row.BucketRow(TIME_MS),
        bucket_row.encode_bucket_member,
        bucket_row.decode_bucket_member,
    ),
    "retention-set": (
        retention_row.RetentionRow(((TIME_MS, 0), (TIME_MS + 60_000, 1 << 40))),
        retention_row.encode_retention,
        retention_row.decode_retention,
    ),
    "retention-cut": (
        ((0, 17), ((1 << 32) + 2, -1)),
        retention_row.encode_retention_cut,
        retention_row.decode_retention_cut,
    ),
    "outcomes": (
        outcome_row.OutcomeRow(committed=0b101, aborted=1 << 1023),
        outcome_row.encode_outcomes,
        outcome_row.decode_outcomes,
    ),
    "load-marks": (
        load_marks_row.LoadMarksRow(
            {7: load_marks_row.ColdMark(TIME_MS, 120), 1 << 32: load_marks_row.ColdMark(INT64_MAX)},
            {(1 << 32) + 2: load_marks_row.SplitMark(TIME_MS, 2500, 1)},
        ),
        load_marks_row.encode_load_marks,
        load_marks_row.decode_load_marks,
    ),
    "sink": (
        sink_row.SinkRow(
            3, sink_row.SinkMark("sink", "query", 17, sink_row.SinkPhase.DECIDED, TIME_MS, (TXN, 43))
        ),
        sink_row.encode_sink,
        sink_row.decode_sink,
    ),
    "sink-names": (
        sink_row.SinkNamesRow({"sink": TIME_MS, "other": TIME_MS + 1}),
        sink_row.encode_sink_names,
        sink_row.decode_sink_names,
    ),
    "marks": (
        marks_row.MarksRow(MARKS),
        marks_row.encode_marks,
        marks_row.decode_marks,
    ),
    "marks-listed": (
        marks_row.MarksRow(MARKS, listed=True),
        marks_row.encode_marks,
        marks_row.decode_marks,
    ),
    "group": (
        group_row.GroupRow(UID, 4, group_row.GroupState.UPDATING, GROUP_CONFIG, GROUP_CONFIG),
        group_row.encode_group,
        group_row.decode_group,
    ),
    "subscribers": (
        group_row.SubscribersRow({"demo/group": group_row.Subscriber(UID, 4, ((0, 100),))}),
        group_row.encode_subscribers,
        group_row.decode_subscribers,
    ),
    "table": (
        table_row.TableRow(TIME_MS, table_row.TableState.ACTIVE, 3, 4, 16, 8, 0),
        table_row.encode_table,
        table_row.decode_table,
    ),
    "cut-series": (CUT_SERIES, cut_series_row.encode_series, cut_series_row.decode_series),
    "cut-block": (CUT_SAMPLES, cut_series_row.encode_block, cut_series_row.decode_block),
}

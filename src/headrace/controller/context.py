"""What everything above the rows works with: the parts of one controller, wired once."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.controller.buckets.owners import AskController, Owners, ask_nobody
from headrace.controller.buckets.ownership import Buckets
from headrace.controller.config import ControllerConfig
from headrace.controller.engine import WorkflowEngine
from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.events.progress_rows import ProgressRows
from headrace.controller.events.queue import Events
from headrace.controller.segments.calls import SegmentCalls
from headrace.controller.store.contract import MetadataStore
from headrace.controller.streams.bucket_index import BucketIndex
from headrace.controller.streams.directory import Directory
from headrace.controller.streams.numbering import Numbering
from headrace.controller.streams.retention_sets import RetentionSets
from headrace.controller.streams.scopes import Scopes
from headrace.controller.streams.stream import Stream
from headrace.controller.streams.writer_marks import WriterMarks
from headrace.controller.transactions.outcomes import Outcomes
from headrace.controller.transactions.registry import Registry
from headrace.controller.transactions.sinks import Sinks
from headrace.controller.transactions.txn_ids import TxnIds
from headrace.coordination.contract import Coordinator
from headrace.model.endpoint import Endpoint
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy


@dataclass(slots=True)
class ControllerContext:
    """The parts of one controller below its workflows."""

    config: ControllerConfig
    clock: Clock
    entropy: Entropy
    store: MetadataStore
    segments: SegmentCalls
    scopes: Scopes
    directory: Directory
    numbering: Numbering
    registry: Registry
    outcomes: Outcomes
    sinks: Sinks
    txn_ids: TxnIds
    marks: WriterMarks
    engine: WorkflowEngine
    buckets: Buckets
    owners: Owners
    bucket_index: BucketIndex
    retention_sets: RetentionSets
    events: Events
    event_progress: ProgressRows

    def wake(self, stream: Stream) -> None:
        """The stream's row, or one of its transactions, says that there is something to do.

        It is done by the owner of the stream's bucket: by the engine here, or after an event.
        """
        if self.buckets.owns_stream(stream.scope, stream.name):
            self.engine.wake(stream)
        else:
            self.events.notify(RequestEvent(EventKind.STREAM_WORK, stream.scope, stream.name))


def make_context(
    config: ControllerConfig,
    clock: Clock,
    entropy: Entropy,
    store: MetadataStore,
    segments: SegmentCalls,
    coordinator: Coordinator,
    ask: AskController = ask_nobody,
) -> ControllerContext:
    """Wire the parts of a controller. ``ask``: how it calls other ones."""
    scopes = Scopes(store, clock, entropy)
    registry = Registry(store)
    endpoint = Endpoint(config.rpc_host, config.rpc_port)
    buckets = Buckets(config.buckets, store, coordinator, clock, entropy, endpoint)
    owners = Owners(buckets, ask)
    bucket_index = BucketIndex(store, buckets.bucket_of)
    registry.is_owned = buckets.owns_stream
    return ControllerContext(
        config=config,
        clock=clock,
        entropy=entropy,
        store=store,
        segments=segments,
        scopes=scopes,
        directory=Directory(store, scopes, segments, streams_max=config.streams_cached_max),
        numbering=Numbering(store),
        registry=registry,
        outcomes=Outcomes(store, clock, kept_ms=config.outcomes_kept_ms),
        sinks=Sinks(store),
        txn_ids=TxnIds(store),
        marks=WriterMarks(store, bucket_index, clock),
        engine=WorkflowEngine(
            entropy,
            timeout_s=config.workflow_timeout_s,
            streams_at_once=config.streams_at_once,
            wait_told=owners.wait_changed,
        ),
        buckets=buckets,
        owners=owners,
        bucket_index=bucket_index,
        retention_sets=RetentionSets(store),
        events=Events(segments.access, buckets, entropy),
        event_progress=ProgressRows(store),
    )

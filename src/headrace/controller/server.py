"""One controller: its parts, their start and their end.

Recovery is the only start: the controller finds unfinished work in the rows and goes on with it, while it
already serves calls.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import grpc

from headrace.controller.api.auth import make_rules
from headrace.controller.api.batch_commit_calls import BatchCommitCalls
from headrace.controller.api.call_front import CallFront, Handler, handlers_of
from headrace.controller.api.cluster_calls import ClusterCalls
from headrace.controller.api.grpc_service import GrpcServer as _GrpcServer
from headrace.controller.api.internal_calls import InternalCalls
from headrace.controller.api.issued_tokens import IssuedTokens
from headrace.controller.api.reader_group_calls import ReaderGroupCalls
from headrace.controller.api.scale_calls import ScaleCalls
from headrace.controller.api.scope_calls import ScopeCalls
from headrace.controller.api.segment_calls import SegmentCalls as SegmentApi
from headrace.controller.api.stream_calls import StreamCalls
from headrace.controller.api.stream_time_calls import StreamTimeCalls
from headrace.controller.api.table_calls import KeyValueTableCalls
from headrace.controller.api.transaction_calls import TransactionCalls
from headrace.controller.api.truncation_calls import TruncationCalls
from headrace.controller.api.writer_calls import WriterCalls
from headrace.controller.buckets.owners import AskController, ask_nobody
from headrace.controller.config import ControllerConfig
from headrace.controller.context import make_context
from headrace.controller.events.event import REQUEST_STREAM, EventKind
from headrace.controller.segments.calls import SegmentCalls
from headrace.controller.segments.placement import Placement
from headrace.controller.services.cut_sampling import CutSampling
from headrace.controller.services.event_processor import EventProcessor
from headrace.controller.services.housekeeping import Housekeeping
from headrace.controller.services.retention import Retention
from headrace.controller.services.stream_work import StreamWork
from headrace.controller.services.sweeper import Sweeper
from headrace.controller.services.txn_adoption import TxnAdoption
from headrace.controller.services.watermarks import Watermarks
from headrace.controller.store.contract import MetadataStore
from headrace.controller.store.layout import permanent_tables
from headrace.controller.workflows.auto_scale import LoadReports, post_reports
from headrace.controller.workflows.catalogue import Catalogue
from headrace.controller.workflows.delete_scope import ScopeDeletion
from headrace.controller.workflows.key_value_tables import KeyValueTables
from headrace.controller.workflows.reader_groups import ReaderGroups
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.controller.workflows.transactions import Transactions
from headrace.coordination.contract import Coordinator
from headrace.errors import ScopeExistsError, StreamExistsError
from headrace.model.endpoint import Endpoint
from headrace.model.names import SYSTEM_SCOPE
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.segment_access import SegmentAccess
from headrace.model.segment_report import SegmentReport
from headrace.rpc.generated import (
    batch_commit_pb2,
    cluster_status_pb2,
    controller_pb2,
    internal_pb2,
    stream_time_pb2,
    truncation_pb2,
)
from headrace.runtime.clock import Clock
from headrace.runtime.entropy import Entropy
from headrace.runtime.supervisor import Supervisor
from headrace.security.access import Gatekeeper
from headrace.security.internal_identity import InternalCallers


class Controller:
    """The control plane on one event loop. No other thread touches it."""

    def __init__(
        self,
        store: MetadataStore,
        segments: SegmentAccess,
        clock: Clock,
        entropy: Entropy,
        config: ControllerConfig,
        placement: Placement,
        coordinator: Coordinator,
        ask: AskController = ask_nobody,
    ) -> None:
        """Make a controller that does nothing yet.

        ``placement`` says where clients find the owner of a segment. ``coordinator`` is the one of all
        controllers that share ``store``, and ``ask`` how this one calls the others.
        """
        self.config = config
        self._store = store
        self._services = Supervisor("services of the controller")
        """What runs as long as the controller does."""
        self._started = False
        self._stopped = False
        self.context = make_context(
            config,
            clock,
            entropy,
            store,
            SegmentCalls(segments, entropy),
            coordinator,
            ask,
        )
        self.engine = self.context.engine
        self.transactions = Transactions(self.context)
        self.engine.work = Catalogue(self.context, self.transactions)
        self.cut_sampling = CutSampling(self.context)
        self.context.buckets.add(Watermarks(self.context))
        self._placement = placement
        self.streams = StreamRequests(self.context)
        self.retention = Retention(self.context, self.streams)
        self.context.buckets.add(self.retention)
        StreamWork(self.context)
        self.processor = EventProcessor(self.context)
        self.context.buckets.add(self.processor)
        self.groups = ReaderGroups(self.context)
        self._tables = KeyValueTables(self.context)
        self.context.events.handle(EventKind.SCALE_REPORT, LoadReports(self.context).handle)
        self._deletion = ScopeDeletion(self.context, self.groups, self._tables)
        self._sweeps = (
            Sweeper(self.context, self._deletion, self.groups, self._tables),
            TxnAdoption(self.context, self.transactions),
            Housekeeping(self.context),
        )
        for sweep in self._sweeps:
            self.context.buckets.add(sweep)
        self.handlers: dict[str, Handler] = handlers_of(
            ScopeCalls(self.context, self._deletion),
            StreamCalls(self.context, self.streams),
            ScaleCalls(self.context),
            SegmentApi(self.context, self._placement),
            TransactionCalls(self.context, self.transactions),
            WriterCalls(self.context),
            ReaderGroupCalls(self.context, self.groups),
            KeyValueTableCalls(self.context, self._tables),
            BatchCommitCalls(self.context, self.transactions),
            StreamTimeCalls(self.context),
            TruncationCalls(self.streams),
            InternalCalls(self.context, self.transactions),
            ClusterCalls(self.context.buckets),
        )

    def publish(self, endpoint: Endpoint) -> None:
        """Answer from now on that clients find this controller at ``endpoint``."""
        self.context.buckets.publish(endpoint)

    async def report_loads(self, reports: Sequence[SegmentReport]) -> None:
        """Have the streams of segments scaled if their reports ask for that. Returns once all are posted."""
        await post_reports(self.context.events, reports)

    async def start(self) -> None:
        """Be ready for calls; unfinished work goes on in the background, once its buckets are claimed."""
        await self.context.buckets.fix_count()
        await asyncio.gather(
            *(self._store.create_table(table) for table in permanent_tables(self.context.buckets.count))
        )
        with contextlib.suppress(ScopeExistsError):
            await self.context.scopes.create(SYSTEM_SCOPE)
        with contextlib.suppress(StreamExistsError):
            requests = StreamConfiguration(scaling=ScalingPolicy(segments_min=self.context.buckets.count))
            await self.streams.create(SYSTEM_SCOPE, REQUEST_STREAM, requests)
        await self.transactions.start()
        await self.context.buckets.start()
        self._services.spawn("cut sampling", self.cut_sampling.run())
        self._started = True

    def is_ready(self) -> bool:
        """Whether calls are served."""
        return self._started and not self._stopped

    def is_stopped(self) -> bool:
        return self._stopped

    async def stop(self) -> None:
        """Stop wherever the work is; the next start finishes it."""
        self._stopped = True
        await self._services.stop()
        await self.context.buckets.stop()
        await self.context.events.stop()
        await self.transactions.stop()
        await self.engine.stop()

    def is_idle(self) -> bool:
        """Whether no work is active but that of calls that still wait."""
        owned = self.context.buckets.owned()
        return not (
            self.engine.statistics().streams_busy
            or self.transactions.busy()
            or not all(sweep.is_done(owned) for sweep in self._sweeps)
            or not self.context.events.is_idle()
            or not self.processor.is_idle()
        )

    def statistics(self) -> dict[str, object]:
        """Describe the controller: workflows, transactions, streams and epochs in memory."""
        return {
            "buckets": self.context.buckets.statistics(),
            "workflows": self.engine.statistics(),
            "transactions": self.transactions.statistics(),
            "streams": self.context.directory.statistics(),
            "histories": self.context.directory.history.statistics(),
            "cut_sampling": self.cut_sampling.statistics(),
            "retention": self.retention.statistics(),
            "events": self.context.events.statistics(),
            "event_processor": self.processor.statistics(),
        }


class GrpcServer(_GrpcServer):
    """All services of one controller on one port."""

    def __init__(
        self,
        controller: Controller,
        host: str,
        port: int,
        gatekeeper: Gatekeeper | None = None,
        tokens: IssuedTokens | None = None,
        *,
        readers_manage_groups: bool = True,
        credentials: grpc.ServerCredentials | None = None,
        internal: InternalCallers | None = None,
    ) -> None:
        """Answer every caller; with a ``gatekeeper`` those that the rules allow it, and with ``tokens``.

        With ``credentials`` every connection is encrypted. ``internal`` recognises processes of the cluster.
        """
        services = [
            controller_pb2.DESCRIPTOR.services_by_name["ControllerService"],
            batch_commit_pb2.DESCRIPTOR.services_by_name["BatchCommitService"],
            stream_time_pb2.DESCRIPTOR.services_by_name["StreamTimeService"],
            truncation_pb2.DESCRIPTOR.services_by_name["TruncationService"],
            cluster_status_pb2.DESCRIPTOR.services_by_name["ClusterStatusService"],
            internal_pb2.DESCRIPTOR.services_by_name["InternalService"],
        ]
        rules = make_rules(readers_manage_groups=readers_manage_groups)
        front = CallFront(controller.handlers, gatekeeper, rules, tokens, internal)
        super().__init__(front, services, host, port, credentials)

"""The controller of a process, over a segment store: gRPC, what REST answers, metadata in the store's tables.

Every call is parsed, decided and answered on the loop of its process: handing it over between threads would
cost more than the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.controller.api.issued_tokens import IssuedTokens
from headrace.controller.buckets.owners import AskController, ask_nobody
from headrace.controller.segments.placement import Placement
from headrace.controller.server import Controller, GrpcServer
from headrace.controller.store.tables import TableStore
from headrace.coordination.contract import Coordinator
from headrace.model.endpoint import Endpoint
from headrace.model.segment_access import SegmentAccess
from headrace.model.segment_report import SegmentReport
from headrace.processes.controller_config import ControllerServerConfig
from headrace.processes.port_errors import naming_port
from headrace.processes.protection import Protection
from headrace.runtime.context import Runtime
from headrace.security.grpc_credentials import server_credentials
from headrace.security.internal_identity import InternalCallers
from headrace.web.asked_stores import AskedStores
from headrace.web.process_parts import ProcessPart
from headrace.web.server import Application

if TYPE_CHECKING:  # with it come the modules of a segment store, which a controller by itself never needs
    from headrace.processes.config import StandaloneConfig


class ServedController:
    """Controller and gRPC, as one part of a process. Started once, stopped once.

    Args:
        config: of the process.
        runtime: of the process.
        segments: reaches every segment; the metadata are in some of them.
        placement: where clients find the segments.
        coordinator: what all controllers over these segments agree through.
        protection: of the process; with certificates its port is encrypted.
        stores: all segment stores, as REST asks them.
        parts: other parts of the process whose health and metrics are shown.
        buckets: into how many streams are divided; None: as configured; 0: as the rows say.
        ask: how it calls other controllers.
    """

    def __init__(
        self,
        config: StandaloneConfig | ControllerServerConfig,
        runtime: Runtime,
        segments: SegmentAccess,
        placement: Placement,
        coordinator: Coordinator,
        protection: Protection,
        stores: AskedStores,
        parts: Sequence[ProcessPart],
        buckets: int | None = None,
        ask: AskController = ask_nobody,
    ) -> None:
        self._config = config
        self._protection = protection
        self._stores = stores
        self._parts = parts
        self._tokens = self._internal = None
        if protection.token_key is not None:
            key, leeway_s = protection.token_key, config.auth.token_leeway_s
            self._internal = InternalCallers(key, runtime.clock, leeway_s)
            self._tokens = IssuedTokens(
                key,
                runtime.clock,
                config.auth.token_lifetime_s,
                readers_manage_groups=config.auth.readers_manage_groups,
            )
        rpc = config.advertised("controller", config.controller_port)
        self._tables = TableStore(segments, runtime.entropy)
        self._controller = Controller(
            self._tables,
            segments,
            runtime.clock,
            runtime.entropy,
            replace(
                config.controller,
                rpc_host=rpc.host,
                rpc_port=rpc.port,
                buckets=config.controller.buckets if buckets is None else buckets,
            ),
            placement,
            coordinator,
            ask,
        )
        self._grpc: GrpcServer | None = None
        self._grpc_port = config.controller_port

    @property
    def grpc_endpoint(self) -> Endpoint:
        """Where clients find its gRPC."""
        return self._config.advertised("controller", self._grpc_port)

    def make_application(self, hosts: Iterable[str]) -> Application:
        """Make what answers at the web port of the process, under these names of hosts."""
        from headrace.controller.rest.routes import RestRoutes  # late, with the web libraries

        protection, controller, stores = self._protection, self._controller, self._stores
        routes = RestRoutes(controller, stores, protection.gatekeeper, hosts, self._parts)
        if not self._config.rest.console:
            return routes.application()
        from headrace.console.entrance import ConsoleEntrance

        encrypted = protection.certificates is not None
        console = ConsoleEntrance(controller, stores, protection.gatekeeper, encrypted=encrypted)
        return routes.application(console.routes())

    async def recover(self) -> int:
        """Look at the rows, begin the work that they ask for, and return the number of buckets. May be called
        again after it failed.
        """
        await self._controller.start()
        return self._controller.context.buckets.count

    async def serve(self) -> None:
        """Serve control calls, after :meth:`recover`.

        Raises:
            OSError: the address is taken, or none of this machine; the message names the option to change.
        """
        certificates = self._protection.certificates
        self._grpc = GrpcServer(
            self._controller,
            self._config.host,
            self._config.controller_port,
            self._protection.gatekeeper,
            self._tokens,
            readers_manage_groups=self._config.auth.readers_manage_groups,
            credentials=None if certificates is None else server_credentials(certificates),
            internal=self._internal,
        )
        self._tables.callers = self._grpc.calls_running
        with naming_port("controller_port", self._config.host, self._config.controller_port):
            self._grpc_port = self._grpc.bind()
        self._controller.publish(self.grpc_endpoint)
        await self._grpc.start()

    async def report_loads(self, reports: Sequence[SegmentReport]) -> None:
        """See :meth:`Controller.report_loads`."""
        await self._controller.report_loads(reports)

    async def stop(self) -> None:
        """Refuse new calls, let active ones end, stop. Idempotent."""
        if self._grpc is not None:
            grpc, self._grpc = self._grpc, None
            await grpc.stop()
        await self._controller.stop()
        await self._tables.close()

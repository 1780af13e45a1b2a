"""The controller of a standalone process: on the segment store's loop, with its metadata in the store's
tables.

Every call is parsed, decided and answered on that loop: handing it over between threads would cost more than
the call.
"""

from __future__ import annotations

import socket
from dataclasses import replace

from headrace.controller.api.issued_tokens import IssuedTokens
from headrace.controller.rest.store_beside import StoreBeside
from headrace.controller.segments.placement import SingleHost
from headrace.controller.server import Controller, GrpcServer
from headrace.controller.store.tables import TableStore
from headrace.coordination.memory import MemoryCoordinator
from headrace.model.segment_report import SegmentReport
from headrace.processes.config import StandaloneConfig
from headrace.processes.port_errors import naming_port
from headrace.runtime.context import Runtime
from headrace.security.certificates import ServerCertificates
from headrace.security.gatekeeper import Gatekeeper
from headrace.security.grpc_credentials import server_credentials
from headrace.security.tokens import TokenKey
from headrace.segmentstore.store import SegmentStore
from headrace.web.server import Application, WebServer


class ControlPlane:
    """Controller, gRPC and REST of one standalone process."""

    def __init__(
        self,
        config: StandaloneConfig,
        runtime: Runtime,
        store: SegmentStore,
        segmentstore_port: int,
        beside: StoreBeside | None = None,
        gatekeeper: Gatekeeper | None = None,
        token_key: TokenKey | None = None,
        certificates: ServerCertificates | None = None,
    ) -> None:
        """Make the control plane of ``store``. With ``certificates`` both of its ports are encrypted."""
        self._config = config
        self._beside = beside
        self._gatekeeper = gatekeeper
        self._tokens = None
        if token_key is not None:
            self._tokens = IssuedTokens(
                token_key,
                runtime.clock,
                config.auth.token_lifetime_s,
                readers_manage_groups=config.auth.readers_manage_groups,
            )
        self._certificates = certificates
        rpc = config.advertised("controller", config.controller_port)
        self._tables = TableStore(store, runtime.entropy)
        self._controller = Controller(
            self._tables,
            store,
            runtime.clock,
            runtime.entropy,
            replace(config.controller, rpc_host=rpc.host, rpc_port=rpc.port),
            SingleHost(config.advertised("segmentstore", segmentstore_port)),
            MemoryCoordinator(),
        )
        self._grpc: GrpcServer | None = None
        self._rest: WebServer | None = None
        self.grpc_port = config.controller_port
        self.rest_port = config.rest_port

    async def start_rest(self) -> None:
        """Answer questions about health and statistics. Raises OSError if the address is taken."""
        tls = None if self._certificates is None else self._certificates.context
        self._rest = WebServer(self._make_application, self._config.host, self._config.rest_port, tls)
        self.rest_port = await self._rest.start()
        self._rest.serve()

    def _make_application(self) -> Application:
        from headrace.controller.rest.routes import RestRoutes  # late, with the web libraries

        names = (*self._config.rest_names(), socket.gethostname())
        return RestRoutes(self._controller, self._beside, self._gatekeeper, names).application()

    async def start(self) -> None:
        """Serve control calls. Raises OSError if an address is taken."""
        try:
            await self._controller.start()
            certificates = self._certificates
            self._grpc = GrpcServer(
                self._controller,
                self._config.host,
                self._config.controller_port,
                self._gatekeeper,
                self._tokens,
                readers_manage_groups=self._config.auth.readers_manage_groups,
                credentials=None if certificates is None else server_credentials(certificates),
            )
            self._tables.callers = self._grpc.calls_running
            with naming_port("controller_port", self._config.host, self._config.controller_port):
                self.grpc_port = self._grpc.bind()
            self._controller.publish(self._config.advertised("controller", self.grpc_port))
            await self._grpc.start()
        except BaseException:
            await self.stop()
            raise

    async def report_load(self, report: SegmentReport) -> None:
        """See :meth:`Controller.report_load`."""
        await self._controller.report_load(report)

    async def stop(self) -> None:
        """Refuse new calls, let active ones end, stop. Idempotent."""
        if self._rest is not None:
            rest, self._rest = self._rest, None
            await rest.stop()
        if self._grpc is not None:
            grpc, self._grpc = self._grpc, None
            await grpc.stop()
        await self._controller.stop()
        await self._tables.close()

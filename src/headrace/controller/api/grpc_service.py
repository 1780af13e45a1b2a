"""The gRPC interface: takes calls from the network and hands each to the front, on the controller's loop."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass

from headrace.controller.api.call_front import CALLS_MAX, Answer, CallFront, snake_case
from headrace.errors import UnsupportedError
from headrace.model.endpoint import Endpoint
from headrace.rpc.status import status_of
from headrace.security.header import HEADER_CHARS_MAX
from headrace.security.tls_transport import HANDSHAKE_S

_MESSAGE_BYTES_MAX: Final = 16 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    # Below the hard limit, gRPC would refuse at random what exceeds the soft one.
    ("grpc.max_metadata_size", 2 * HEADER_CHARS_MAX),
    ("grpc.so_reuseport", 0),
    ("grpc.server_handshake_timeout_ms", int(HANDSHAKE_S * 1000)),  # two minutes by default
    # Clients ping idle connections, some of them without a call in flight.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class GrpcServer:
    """Serves a front to the network. Used on the front's loop."""

    def __init__(
        self,
        front: CallFront,
        services: list[ServiceDescriptor],
        host: str,
        port: int,
        credentials: grpc.ServerCredentials | None = None,
    ) -> None:
        """Make a server that does nothing yet. With ``credentials`` every connection is encrypted."""
        self._front = front
        self._credentials = credentials
        self._listens_at = Endpoint(host, port)
        self._is_bound = False
        self._server: Any = grpc.aio.server(options=_OPTIONS, maximum_concurrent_rpcs=CALLS_MAX)
        for service in services:
            methods = {method.name: self._method(method) for method in service.methods}
            generic = grpc.method_handlers_generic_handler(service.full_name, methods)
            self._server.add_generic_rpc_handlers((generic,))

    def bind(self) -> int:
        """Take the port and return it; calls wait for :meth:`start`. Idempotent.

        Raises:
            OSError: the address cannot be had.
        """
        if not self._is_bound:
            where = self._listens_at
            try:
                check_address(*where)
                if self._credentials is None:
                    port = self._server.add_insecure_port(str(where))
                else:
                    port = self._server.add_secure_port(str(where), self._credentials)
            except (OSError, RuntimeError) as error:
                raise OSError(f"cannot listen on {where} for control calls: {error}") from error
            self._listens_at = Endpoint(where.host, int(port))
            self._is_bound = True
        return self._listens_at.port

    async def start(self) -> int:
        """Begin to serve and return the port. Raises as :meth:`bind`."""
        port = self.bind()
        await self._server.start()
        return port

    async def stop(self, grace_s: float = 0.5) -> None:
        """Take no more calls, give active ones ``grace_s`` seconds, abandon the rest. Idempotent.

        The next start finishes what a call had begun.
        """
        await self._server.stop(grace_s)
        await self._front.stop()

    def calls_running(self) -> int:
        """Return how many calls are being answered now."""
        return self._front.calls_running()

    def _method(self, method: MethodDescriptor) -> Any:
        response = GetMessageClass(method.output_type)
        serve = self._serve(method) if self._front.serves(snake_case(method.name)) else _refuse(method.name)
        return grpc.unary_unary_rpc_method_handler(serve, response_serializer=response.SerializeToString)

    def _serve(self, method: MethodDescriptor) -> Callable[[bytes, Any], Awaitable[Any]]:
        front, name, request = self._front, method.name, GetMessageClass(method.input_type)

        async def serve(data: bytes, context: Any) -> Any:
            answer = await front.answer(name, request, data, context.invocation_metadata() or ())
            if isinstance(answer, Answer):
                if answer.trailer:
                    context.set_trailing_metadata(answer.trailer)
                return answer.reply
            return await context.abort(answer.code, answer.details, answer.trailer)

        return serve


def _refuse(name: str) -> Callable[[bytes, Any], Awaitable[Any]]:
    async def refuse(data: bytes, context: Any) -> Any:  # noqa: ARG001 - the shape of a gRPC handler
        error = UnsupportedError(f"{name} is not offered by this controller")
        await context.abort(status_of(error), str(error))

    return refuse


def check_address(host: str, port: int) -> None:
    """Bind the address for a moment: gRPC says only on stderr what is wrong with one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)

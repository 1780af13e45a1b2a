"""The gRPC interface: threads that take calls and hand each to a coroutine on the controller's loop.

The threads decide nothing. A handler that refuses a call raises: the error becomes a status of the reply if
there is one for it (:mod:`headrace.rpc.refusals`), else a status code. Any other exception is a bug of ours,
is logged and answered as INTERNAL.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Callable, Coroutine, Mapping
from concurrent import futures
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from headrace.controller.api.auth import Authorizer, need_of
from headrace.errors import HeadraceError, InvalidArgumentError, UnsupportedError
from headrace.model.endpoint import Endpoint
from headrace.rpc.refusals import refusing_reply, tell_error
from headrace.rpc.status import status_of
from headrace.runtime.logs import logger

Handler = Callable[[Any], Coroutine[Any, Any, Any]]

_log = logger(__name__)

THREADS_MAX: Final = 256
CALL_TIMEOUT_S: Final = 300.0
_MESSAGE_BYTES_MAX: Final = 16 << 20
_OPTIONS: Final = (
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.so_reuseport", 0),
    # Clients ping idle connections, some of them without a call in flight.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


class GrpcServer:
    """Serves handlers of ``loop`` to the network. Created, started and stopped outside or on the loop."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        services: list[ServiceDescriptor],
        loop: asyncio.AbstractEventLoop,
        host: str,
        port: int,
        authorizer: Authorizer | None = None,
    ) -> None:
        """``handlers`` maps method names in snake case to coroutine functions of one request.

        Without an ``authorizer`` every call is allowed.
        """
        self._loop = loop
        self._authorizer = authorizer
        self._listens_at = Endpoint(host, port)
        self._is_bound = False
        self.is_over = False
        """Whether it was stopped: no call is served any more."""
        self._calls: set[futures.Future[Any]] = set()
        self._threads = futures.ThreadPoolExecutor(THREADS_MAX, "grpc")
        self._server: Any = grpc.server(
            self._threads,
            options=_OPTIONS,
            maximum_concurrent_rpcs=4 * THREADS_MAX,
        )
        for service in services:
            methods = {method.name: self._method(method, handlers) for method in service.methods}
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
                port = self._server.add_insecure_port(str(where))
            except (OSError, RuntimeError) as error:
                raise OSError(f"cannot listen on {where} for control calls: {error}") from error
            self._listens_at = Endpoint(where.host, int(port))
            self._is_bound = True
        return self._listens_at.port

    def start(self) -> int:
        """Begin to serve and return the port. Raises as :meth:`bind`."""
        port = self.bind()
        self._server.start()
        return port

    def stop(self, grace_s: float = 0.5) -> None:
        """Take no more calls, give active ones ``grace_s`` seconds, abandon the rest; wait for the threads.

        The next start finishes what a call had begun. Not to be called on the loop while calls are active
        there: they could not end.
        """
        self._server.stop(grace_s).wait()
        self.is_over = True
        for call in list(self._calls):
            call.cancel()
        self._threads.shutdown()

    def _method(self, method: MethodDescriptor, handlers: Mapping[str, Handler]) -> Any:
        handler = handlers.get(snake_case(method.name))
        request = GetMessageClass(method.input_type)
        response = GetMessageClass(method.output_type)
        serve = self._refuse(method.name) if handler is None else self._serve(method.name, request, handler)
        return grpc.unary_unary_rpc_method_handler(serve, response_serializer=response.SerializeToString)

    def _serve(self, name: str, message: Any, handler: Handler) -> Callable[[bytes, Any], Any]:
        """Return the function that serves ``name``, whose requests are of the class ``message``."""
        loop, call = self._loop, snake_case(name)

        def serve(data: bytes, context: Any) -> Any:
            try:
                request = parse_request(message, data)  # not by gRPC, which calls garbage a bug of ours
                if self._authorizer is not None:
                    authorize(self._authorizer, call, request, context.invocation_metadata())
                future = asyncio.run_coroutine_threadsafe(handler(request), loop)
                self._calls.add(future)
                if self.is_over:
                    future.cancel()  # its thread was late: nobody else cancels it
                try:
                    return future.result(CALL_TIMEOUT_S)
                finally:
                    self._calls.discard(future)
            except HeadraceError as error:
                context.set_trailing_metadata((tell_error(error),))
                reply = refusing_reply(name, error)
                if reply is not None:
                    return reply
                context.abort(status_of(error), str(error))
            except (TimeoutError, futures.CancelledError, RuntimeError) as error:
                context.abort(grpc.StatusCode.UNAVAILABLE, f"{name} was not completed: {error}")
            except Exception as error:  # noqa: BLE001 - a bug of ours must not look like an answer
                _log.error("call failed", call=name, exc_info=error)
                context.abort(grpc.StatusCode.INTERNAL, f"{name} failed: {type(error).__name__}")
            raise AssertionError("abort raises")

        return serve

    @staticmethod
    def _refuse(name: str) -> Callable[[Any, Any], Any]:
        def refuse(data: bytes, context: Any) -> Any:  # noqa: ARG001 - the shape of a gRPC handler
            error = UnsupportedError(f"{name} is not offered by this controller")
            context.abort(status_of(error), str(error))

        return refuse


def parse_request(message: Any, data: bytes) -> Any:
    """Raises InvalidArgumentError if ``data`` are no ``message``."""
    try:
        return message.FromString(data)
    except DecodeError:
        raise InvalidArgumentError(f"the request is no {message.DESCRIPTOR.name}") from None


def authorize(authorizer: Authorizer, call: str, request: Any, metadata: Any) -> None:
    """Raises UnauthenticatedError, PermissionDeniedError."""
    need = need_of(call, request)
    if need is not None:
        authorization = next((value for key, value in metadata if key == "authorization"), "")
        authorizer.check(authorization, *need)


def check_address(host: str, port: int) -> None:
    """Bind the address for a moment: gRPC says only on stderr what is wrong with one. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)


def snake_case(name: str) -> str:
    """``getURI`` -> ``get_uri``, ``listKeyValueTablesInScope`` -> ``list_key_value_tables_in_scope``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def handlers_of(*groups: object) -> dict[str, Handler]:
    """Collect the public coroutine functions of call groups by name."""
    found: dict[str, Handler] = {}
    for group in groups:
        for name, member in vars(type(group)).items():
            if not name.startswith("_") and asyncio.iscoroutinefunction(member):
                assert name not in found
                found[name] = getattr(group, name)
    return found

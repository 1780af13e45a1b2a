"""Calls to the controller: which one is asked, how often, and what its refusals mean.

Every call of the control plane may be repeated safely, so a lost answer leads to the next attempt at the next
controller; only when attempts run out does the caller learn that the outcome is unknown. If no attempt
reached a controller, nothing has happened, and the caller learns that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from headrace.client.config import ClientConfig, ControllerAddress
from headrace.client.connections.tls import channel_credentials
from headrace.client.connections.tls_failures import CERTIFICATE_HINT, failure_of_channel, server_speaks_tls
from headrace.client.connections.tls_probe import speaks_tls
from headrace.client.control.call_watch import IS_THERE_S, CallWatch
from headrace.client.control.channel import NO_ANSWER, ChannelCutError, ControlChannel
from headrace.client.credentials import NO_CREDENTIALS
from headrace.client.forks import OfOneProcess
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    DeadlineExceededError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchStreamError,
    OverloadError,
    OwnershipError,
    PermissionDeniedError,
    PreconditionError,
    RequestError,
    StreamExistsError,
    TlsError,
    UnauthenticatedError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
)
from headrace.model.endpoint import Endpoint, is_loopback
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.batch_commit_pb2_grpc import BatchCommitServiceStub
from headrace.rpc.generated.cluster_status_pb2_grpc import ClusterStatusServiceStub
from headrace.rpc.generated.controller_pb2_grpc import ControllerServiceStub
from headrace.rpc.generated.stream_time_pb2_grpc import StreamTimeServiceStub
from headrace.rpc.generated.truncation_pb2_grpc import TruncationServiceStub
from headrace.rpc.quiet_grpc import grpc
from headrace.rpc.refusals import refusal_of, told_error
from headrace.runtime import logs
from headrace.runtime.entropy import Entropy
from headrace.runtime.retry import RetryPolicy, retry

Reply = TypeVar("Reply")

_log = logs.logger(__name__)

FINAL_CODES: Final[dict[grpc.StatusCode, Callable[[str], HeadraceError]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NoSuchStreamError,
    grpc.StatusCode.ALREADY_EXISTS: StreamExistsError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDeniedError,
    grpc.StatusCode.UNAUTHENTICATED: UnauthenticatedError,
    grpc.StatusCode.OUT_OF_RANGE: PreconditionError,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionError,
    grpc.StatusCode.UNIMPLEMENTED: UnsupportedError,
}
"""What a controller that does not say its error means with codes that repeating does not change.
FAILED_PRECONDITION is among them for our own calls' sake.
"""

_NOT_SENT: Final = ("failed to connect to all addresses", "errors resolving", "DNS resolution failed")
"""How gRPC begins to say that it had no connection for a call; it has no code of its own for that."""

_HUNG_UP: Final = ("Socket closed", "reset by peer")
"""What it says of a server that took the connection and did not like what it received."""

_GRPC_WORDS: Final = re.compile(r"UNKNOWN: ipv[46]:(\S+): Failed to connect to remote host: ")
"""How it begins to say why; users are told the address alone."""

_MAY_PASS: Final = (UnknownOutcomeError, OverloadError, OwnershipError)

_PORT_MAX: Final = 65535

_TOLD_AFTER: Final = 6
"""Attempts, which take a second; the command line does not make so many."""


class Controller(OfOneProcess):
    """The control plane as seen by one client. Used on one loop."""

    _called = "the client"

    def __init__(self, address: ControllerAddress, config: ClientConfig, entropy: Entropy) -> None:
        self._address = address
        self._config = config
        self._entropy = entropy
        self._endpoints = list(address.endpoints)
        self._next = 0
        self._channel: ControlChannel | None = None
        self._discovered = not address.discover
        self._closed = False
        self._told = False
        """That no controller takes the connection, since one did."""
        self._retry = RetryPolicy(
            initial_s=0.01, multiplier=3.0, delay_max_s=3.0, attempts=config.control_attempts
        )
        credentials = config.credentials
        _warn_of_plain_credentials(address, config)
        self._metadata = None if credentials is None else (("authorization", credentials.header),)

    async def call(
        self, method: str, request: Any, *, timeout_s: float | None = None, attempts: int | None = None
    ) -> Any:
        """Call a method of the compatible service.

        Raises:
            RequestError: the leaf that fits the refusal, be it a status of the reply or of gRPC; NOT_FOUND
                of a controller that does not say more is reported as a missing stream.
            UnreachableError: no controller was reached in any attempt; nothing was sent.
            OverloadError, OwnershipError: no controller would do it in any attempt; it did not happen.
            UnknownOutcomeError: an attempt was not answered; the call may have happened.
        """
        return await self._attempts(ControllerServiceStub, method, request, timeout_s, attempts)

    async def call_batch(self, method: str, request: Any, *, timeout_s: float | None = None) -> Any:
        """Call a method of the batch commit service. Raises as :meth:`call`."""
        return await self._attempts(BatchCommitServiceStub, method, request, timeout_s, None)

    async def call_time(self, method: str, request: Any) -> Any:
        """Call a method of the service of times. Raises as :meth:`call`."""
        return await self._attempts(StreamTimeServiceStub, method, request, None, None)

    async def call_truncation(self, method: str, request: Any) -> Any:
        """Call a method of the service of truncations. Raises as :meth:`call`."""
        return await self._attempts(TruncationServiceStub, method, request, None, None)

    async def call_cluster_status(self, method: str, request: Any) -> Any:
        """Call a method of the service about the cluster. Raises as :meth:`call`."""
        return await self._attempts(ClusterStatusServiceStub, method, request, None, None)

    async def _attempts(
        self, stub: Any, method: str, request: Any, timeout_s: float | None, attempts: int | None
    ) -> Any:
        policy = self._retry
        if attempts is not None:
            policy = RetryPolicy(policy.initial_s, policy.multiplier, policy.delay_max_s, attempts)

        doubt: UnknownOutcomeError | None = None
        _log.debug("a controller is called", method=method)

        async def once() -> tuple[Any, HeadraceError | None]:
            nonlocal doubt
            try:
                return await self._once(stub, method, request, timeout_s or self._config.call_timeout_s)
            except UnknownOutcomeError as error:
                doubt = error
                raise

        def may_pass(error: Exception) -> bool:
            _log.info("a call of a controller failed", method=method, error=error)
            return self._may_pass(error)

        def on_retry(failures: int, error: Exception, _: float) -> None:
            if failures == _TOLD_AFTER and isinstance(error, UnreachableError) and not self._told:
                self._told = True  # whoever waits at a prompt is told why
                _log.warning("no controller takes the connection, trying again", error=error)

        try:
            reply, refusal = await retry(
                policy, once, entropy=self._entropy, retryable=may_pass, on_retry=on_retry
            )
            self._told = False
        except (OverloadError, OwnershipError) as error:
            if doubt is not None:  # an earlier attempt may have done it
                raise doubt from error
            raise
        if refusal is not None:
            raise refusal
        return reply

    def _may_pass(self, error: Exception) -> bool:
        return isinstance(error, _MAY_PASS) and not self._closed

    async def _once(
        self, stub: Any, method: str, request: Any, timeout_s: float
    ) -> tuple[Any, HeadraceError | None]:
        """Return the reply, and the error that it stands for if it refuses."""
        while True:
            channel = await self._open_channel()
            try:
                reply, call = await channel.call(
                    stub, method, request, timeout_s=timeout_s, metadata=self._metadata
                )
            except ChannelCutError:
                continue  # this process was forked: no fault of the controller, and no attempt
            except grpc.RpcError as error:
                raise await self._translate(channel, method, error) from None  # its details are in the text
            refusal = refusal_of(method, reply, ())
            if refusal is not None:
                refusal = refusal_of(method, reply, call.trailing_metadata() or ())
            return reply, refusal

    async def _translate(self, channel: ControlChannel, method: str, error: Any) -> HeadraceError:
        told = told_error(error.trailing_metadata() or ())
        if told is not None:
            return self._explain(told)
        details = error.details() or ""
        code, text = error.code(), f"{method}: {details}"
        final = FINAL_CODES.get(code)
        if final is not None:
            return self._explain(final(text))
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return DeadlineExceededError(text)
        if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_SENT):
            mismatch = await self._find_tls_failure(details)
            if mismatch is not None:
                return mismatch
        if code is grpc.StatusCode.UNAVAILABLE and len(self._endpoints) > 1:
            self._move_on(channel)
        if code is grpc.StatusCode.UNAVAILABLE and details.startswith(_NOT_SENT):
            reason = _GRPC_WORDS.sub(r"\1: ", unquote(details.rpartition("last error: ")[2]))  # [::1]
            if reason.endswith("Connection refused"):
                reason += "; is a server running there? `headrace standalone` starts one"
            if self._address.tls and reason.endswith(_HUNG_UP):
                reason = f"{reason}; {CERTIFICATE_HINT}"
            return UnreachableError(
                f"{method}: no controller takes the connection, nothing was sent: {reason}"
            )
        return ConnectionLostError(f"{text} ({code.name})")

    def _explain(self, error: HeadraceError) -> HeadraceError:
        """Say to who has no credentials how to give some."""
        if self._metadata is None and isinstance(error, UnauthenticatedError):
            return UnauthenticatedError(f"{error}: {NO_CREDENTIALS}")
        return error

    async def _find_tls_failure(self, details: str) -> TlsError | None:
        """Find out whether no connection came about because of TLS, which no repetition changes."""
        endpoint = self._endpoints[self._next % len(self._endpoints)]
        if self._address.tls:
            return failure_of_channel(details, str(endpoint))
        if any(words in details for words in _HUNG_UP) and await speaks_tls(
            endpoint, self._config.connect_timeout_s
        ):
            return server_speaks_tls(str(endpoint))
        return None

    def _move_on(self, channel: ControlChannel) -> None:
        """Use the next controller from now on, unless another call has moved on already."""
        if self._channel is channel:
            self._channel = None
            self._next += 1
            channel.close()

    async def _open_channel(self) -> ControlChannel:
        if self._closed:
            raise ClosedError("the client is closed")
        channel = self._channel
        if channel is None or not channel.is_open:
            endpoint = self._endpoints[self._next % len(self._endpoints)]
            _log.info("a controller is chosen", controller=endpoint, tls=self._address.tls)
            channel = self._channel = self._make_channel(endpoint)
        if not self._discovered:
            self._discovered = True
            await self._discover(channel)
        return channel if self._channel is None else self._channel

    def _make_channel(self, endpoint: Endpoint) -> ControlChannel:
        # A controller that restarts should be found again within a second, not after a minute of back-off.
        options = [
            ("grpc.initial_reconnect_backoff_ms", 50),
            # Not a pause, but how long an attempt to connect may take.
            ("grpc.min_reconnect_backoff_ms", int(1000 * self._config.connect_timeout_s)),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.enable_http_proxy", 0),
        ]
        credentials = partial(channel_credentials, self._config) if self._address.tls else None
        if len(self._endpoints) == 1:
            return ControlChannel(str(endpoint), options, credentials)

        async def is_there() -> bool:
            return await self._is_there(channel)

        channel = ControlChannel(
            str(endpoint), options, credentials, CallWatch(is_there, lambda: self._move_on(channel))
        )
        return channel

    async def _is_there(self, channel: ControlChannel) -> bool:
        """Ask a controller that lets calls wait something that needs no waiting, whatever it answers."""
        try:
            await self._ask_servers(channel, IS_THERE_S)
        except ChannelCutError:
            return True
        except grpc.RpcError as error:
            return error.code() not in NO_ANSWER
        return True

    async def _discover(self, channel: ControlChannel) -> None:
        """Learn the addresses of all controllers; without an answer the given ones stay."""
        try:
            reply = await self._ask_servers(channel, self._config.connect_timeout_s)
        except (grpc.RpcError, ChannelCutError):
            return
        listed = [convert.endpoint_from_message(node) for node in reply.nodeURI if 0 < node.port <= _PORT_MAX]
        if listed:
            self._endpoints = [*listed, *(each for each in self._address.endpoints if each not in listed)]

    async def _ask_servers(self, channel: ControlChannel, timeout_s: float) -> Any:
        """Raises as :meth:`ControlChannel.call`."""
        reply, _ = await channel.call(
            ControllerServiceStub,
            "getControllerServerList",
            pb.ServerRequest(),
            timeout_s=timeout_s,
            metadata=self._metadata,
        )
        return reply

    async def close(self) -> None:
        """Close the channel; calls in progress fail. Idempotent."""
        self._closed = True
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()


def is_final(error: Exception) -> bool:
    """Tell whether repeating the call would not change the answer."""
    return isinstance(error, RequestError)


def _warn_of_plain_credentials(address: ControllerAddress, config: ClientConfig) -> None:
    if config.credentials is None or address.tls:
        return
    distant = [each for each in address.endpoints if not is_loopback(each.host)]
    if distant:
        _log.warning("credentials are sent unencrypted: connect to tls://...", controller=str(distant[0]))

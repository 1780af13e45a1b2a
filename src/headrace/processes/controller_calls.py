"""Internal calls of this process at controllers of its cluster, each over a channel that stays open.

Page: ``docs/formats/internal-calls.md``.
"""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from typing import Any, Final

import grpc

from headrace.client.config import ClientConfig
from headrace.client.connections.tls import channel_credentials
from headrace.errors import ConnectionLostError
from headrace.model.endpoint import Endpoint
from headrace.rpc.generated.internal_pb2_grpc import InternalServiceStub
from headrace.rpc.refusals import told_error
from headrace.security.header import AUTHORIZATION
from headrace.security.internal_identity import InternalTokens
from headrace.security.tls_config import TlsConfig

_CHANNELS_MAX: Final = 32
"""More controllers than that take turns."""
_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 5000),  # not a pause, but how long an attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
)


def tls_among_processes(tls: TlsConfig, authority: str | None) -> ClientConfig | None:
    """Return how this process speaks TLS with others of its cluster; None: it does not.

    It shows its own certificate, and trusts ``authority``; None: the authorities of clients, or the system's.
    """
    if tls.cert is None or tls.key is None:
        return None
    trusted = authority or tls.authority
    return ClientConfig(
        tls_authorities=None if trusted is None else Path(trusted),
        tls_cert=Path(tls.cert),
        tls_key=Path(tls.key),
    )


class ControllerCalls:
    """Used on one loop. Closed at the end."""

    def __init__(self, tls: ClientConfig | None, tokens: InternalTokens | None) -> None:
        """Without ``tls`` nothing is encrypted, without ``tokens`` no process says who it is."""
        self._tls = tls
        self._tokens = tokens
        self._channels: OrderedDict[Endpoint, tuple[grpc.aio.Channel, Any]] = OrderedDict()

    async def ask(self, where: Endpoint, method: str, request: Any, timeout_s: float) -> Any:
        """Return the reply of the controller at ``where``.

        Raises:
            HeadraceError: it refuses for this reason, or does not answer in time.
            InvalidArgumentError: files of TLS cannot be used.
        """
        stub = await self._stub(where)
        metadata = () if self._tokens is None else ((AUTHORIZATION, self._tokens.header()),)
        try:
            return await getattr(stub, method)(request, timeout=timeout_s, metadata=metadata)
        except grpc.aio.AioRpcError as error:
            refusal = told_error(error.trailing_metadata() or ())
            raise refusal or ConnectionLostError(
                f"{method} of the controller at {where}: {error.details()} ({error.code().name})"
            ) from None

    async def _stub(self, where: Endpoint) -> Any:
        found = self._channels.get(where)
        if found is None:
            if self._tls is None:
                channel = grpc.aio.insecure_channel(str(where), _OPTIONS)
            else:
                channel = grpc.aio.secure_channel(str(where), channel_credentials(self._tls), _OPTIONS)
            found = self._channels[where] = channel, InternalServiceStub(channel)
        self._channels.move_to_end(where)
        while len(self._channels) > _CHANNELS_MAX:
            _, (oldest, _) = self._channels.popitem(last=False)
            await oldest.close(None)
        return found[1]

    async def close(self) -> None:
        """Calls in progress fail. Idempotent."""
        while self._channels:
            _, (channel, _) = self._channels.popitem()
            await channel.close(None)

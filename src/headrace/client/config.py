"""Settings of a client: plain values, picklable, every number with its unit."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Self

from headrace.client.credentials import Credentials
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.errors import InvalidArgumentError
from headrace.limits import APPEND_BYTES_MAX, KIB, MIB
from headrace.model.endpoint import Endpoint
from headrace.runtime.client_variables import TLS_CA_VARIABLE, URI_VARIABLE

DEFAULT_URI: Final = "tcp://localhost:9090"
DEFAULT_PORT: Final = 9090

_PLAIN_SCHEMES: Final = frozenset({"tcp", "pravega"})
_TLS_SCHEMES: Final = frozenset({"tls", "ssl", "tcps", "pravegas"})
_DISCOVERY_SCHEMES: Final = frozenset({"pravega", "pravegas"})


def default_uri() -> str:
    """Return ``HEADRACE_URI`` of the environment, or where a server on this machine listens."""
    return os.environ.get(URI_VARIABLE) or DEFAULT_URI


APPEND_BLOCK_BYTES_MAX: Final = 8 * MIB + 8
"""What every server of the protocol takes in one append: the largest event with its header."""


_WINDOW_BYTES_LEAST: Final = 32 * MIB
_WINDOW_BYTES_MOST: Final = 512 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterConfig:
    """How events become appends.

    A block is sent at the end of the iteration of the loop in which it was filled, unless
    ``blocks_in_flight_max`` of its segment are in flight: then it grows, up to ``block_bytes_max``, until one
    is acknowledged. While a quarter of the window is used, a block of less than 128 KiB waits for events of
    the next iterations as long as one of its segment is in flight. The window bounds unacknowledged bytes.
    """

    block_bytes_max: int = 256 * KIB
    blocks_in_flight_max: int = 64
    bytes_in_flight_max: int = 8 * MIB
    window_bytes_max: int | None = None
    """None: two blocks of each segment of the stream, one in flight and one being filled; at least 32 MiB and
    at most 512 MiB. A smaller window is shared in smaller blocks, and each of those costs a server as much as
    30 KB do. A writer that calls ``drain`` uses up to half of it."""
    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)

    def __post_init__(self) -> None:
        if not 1 * KIB <= self.block_bytes_max <= APPEND_BLOCK_BYTES_MAX:
            raise InvalidArgumentError(f"a block of {self.block_bytes_max} bytes cannot be appended")
        if self.blocks_in_flight_max < 1 or self.bytes_in_flight_max < 1:
            raise InvalidArgumentError("at least one block has to be in flight")
        if self.window_bytes(1) < self.block_bytes_max:
            raise InvalidArgumentError("the window has to hold at least one block")

    def window_bytes(self, segments: int) -> int:
        """Return the window of a writer to a stream of so many segments."""
        if self.window_bytes_max is not None:
            return self.window_bytes_max
        return min(max(_WINDOW_BYTES_LEAST, 2 * segments * self.block_bytes_max), _WINDOW_BYTES_MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderConfig:
    """How segments are read.

    ``read_bytes_max`` is asked for per request; one block waits and up to two are in flight per segment,
    less per request if the stream has so many segments that ``window_bytes_max`` would be exceeded.
    """

    read_bytes_max: int = 960 * KIB
    """By default so much that a server reads it, with what belongs to the checksums at its ends, in 1 MiB."""
    window_bytes_max: int = 64 * MIB
    event_bytes_max: int = 256 * MIB
    """Of one event: what is larger is a ``LargeEventError``, which says where its bytes are, and is not read.
    """
    on_truncation: Literal["raise", "skip"] = "raise"
    """What to do when data in front of the reader was truncated: raise once (reading may go on), or go on."""
    reconnect: ReconnectPolicy = field(default_factory=ReconnectPolicy)

    def __post_init__(self) -> None:
        if not 1 * KIB <= self.read_bytes_max <= 10 * MIB:
            raise InvalidArgumentError(f"reads of {self.read_bytes_max} bytes are outside 1 KiB to 10 MiB")
        if self.window_bytes_max < self.read_bytes_max:
            raise InvalidArgumentError("the window has to hold at least one read")
        if self.event_bytes_max < 1:
            raise InvalidArgumentError("a reader holds events of at least one byte")


def _authorities_of_environment() -> Path | None:
    file = os.environ.get(TLS_CA_VARIABLE)
    return Path(file) if file else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Everything a client needs to know besides the URI of the controller. No secret of it is printed."""

    credentials: Credentials | None = field(default_factory=Credentials.from_environment)
    """By default those of the environment: ``HEADRACE_USER`` and ``HEADRACE_PASSWORD``."""
    tls_authorities: Path | None = field(default_factory=_authorities_of_environment)
    """PEM file with the authorities to trust instead of the system's. By default ``HEADRACE_TLS_CA``."""
    tls_cert: Path | None = None
    """File with a certificate of the client and those that issued it, for servers that want one."""
    tls_key: Path | None = None
    """File with the key of ``tls_cert``, not encrypted; None: it is in the same file."""
    tls_check_host: bool = True
    """Whether segment stores have to carry the names they are connected by; controllers always have to."""
    connections_max: int = 2
    """Connections per segment store and direction."""
    connect_timeout_s: float = 5.0
    call_timeout_s: float = 150.0
    """Deadline of one control call; workflows such as sealing a stream are waited for by the controller."""
    control_attempts: int = 10
    close_timeout_s: float = 30.0
    """How long the end of a client waits until everything that its writers took is durable."""
    loop: Literal["auto", "uvloop", "asyncio"] = "auto"
    """Which event loop the synchronous client runs."""
    transaction_lease_ms: int = 60_000
    writer: WriterConfig = field(default_factory=WriterConfig)
    reader: ReaderConfig = field(default_factory=ReaderConfig)

    def __post_init__(self) -> None:
        if self.tls_key is not None and self.tls_cert is None:
            raise InvalidArgumentError("tls_key is the key of a certificate: give tls_cert as well")
        if not self.close_timeout_s >= 0:
            raise InvalidArgumentError(f"a client cannot wait {self.close_timeout_s} s for its end")


@dataclass(frozen=True, slots=True)
class ControllerAddress:
    """Where controllers are, out of a URI: ``tcp://host:9090``, ``tls://a:9090,b:9090``, ``tcp://[::1]``."""

    endpoints: tuple[Endpoint, ...]
    tls: bool
    discover: bool
    """Ask the given controllers for the full list first."""

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Take a URI apart; without a scheme it is plain TCP, without a port 9090.

        Raises:
            InvalidArgumentError: the scheme is unknown or an address makes no sense.
        """
        if not isinstance(uri, str):
            raise InvalidArgumentError(f"a URI is text such as 'tcp://localhost:9090', not {uri!r:.100}")
        scheme, mark, rest = uri.partition("://")
        if not mark:
            scheme, rest = "tcp", uri
        if scheme not in _PLAIN_SCHEMES | _TLS_SCHEMES:
            raise InvalidArgumentError(f"{uri!r}: unknown scheme {scheme!r}")
        try:
            endpoints = tuple(Endpoint.parse(part, DEFAULT_PORT) for part in rest.rstrip("/").split(","))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{uri!r}: {error}") from None
        return cls(endpoints, scheme in _TLS_SCHEMES, scheme in _DISCOVERY_SCHEMES)


assert APPEND_BLOCK_BYTES_MAX < APPEND_BYTES_MAX

"""The servers that a verb was pointed at, and what is asked of a person before it changes anything there."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from headrace.errors import InvalidArgumentError

if TYPE_CHECKING:  # the client is imported by the verb when it is executed: help is fast
    from headrace.client.blocking import BlockingClient
    from headrace.client.config import ClientConfig
    from headrace.client.control.controller import Controller

_CONTROL_ATTEMPTS: Final = 4
"""A person who mistyped an address should not wait for many attempts."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A controller, and the authorities that ``--tls-ca`` names."""

    uri: str
    tls_ca: str | None = None

    def __post_init__(self) -> None:
        # What gRPC itself has to say about a connection would stand beside the sentence of the error. It
        # looks when it is imported, which verbs may do as soon as they have a connection.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")

    def connect(self, **settings: Any) -> BlockingClient:
        """Return a client; ``settings`` are those of its configuration that differ.

        Raises:
            InvalidArgumentError: the URI makes no sense, or is without TLS though there are authorities.
        """
        from headrace.client.blocking import connect

        return connect(self.uri, self._configured(**settings))

    def controller(self) -> Controller:
        """Return what calls the controller, for a verb with calls that are none of the client's.

        Raises as :meth:`connect`.
        """
        from headrace.client.config import ControllerAddress
        from headrace.client.control.controller import Controller
        from headrace.runtime.entropy import SystemEntropy

        return Controller(ControllerAddress.parse(self.uri), self._configured(), SystemEntropy())

    def _configured(self, **settings: Any) -> ClientConfig:
        from headrace.client.config import ClientConfig, ControllerAddress

        if self.tls_ca and not ControllerAddress.parse(self.uri).tls:
            raise plain_with_authorities(self.uri, "tls")
        return ClientConfig(**{"control_attempts": _CONTROL_ATTEMPTS, **tls_options(self.tls_ca), **settings})


@dataclass(frozen=True, slots=True)
class RestServer:
    """The REST address of a server, and the authorities that ``--tls-ca`` names."""

    address: str
    tls_ca: str | None = None


def tls_options(authorities: str | None) -> dict[str, Any]:
    """Return what ``--tls-ca`` means for the settings of a client; the environment counts without it."""
    return {"tls_authorities": Path(authorities)} if authorities else {}


def plain_with_authorities(address: str, scheme: str) -> InvalidArgumentError:
    """Return what is wrong with ``--tls-ca`` and an address without TLS: secrets would be readable."""
    return InvalidArgumentError(f"{address} is without TLS, --tls-ca is for {scheme}:// only")


def scoped(name: str) -> tuple[str, str]:
    """Take ``scope/stream`` apart.

    Raises:
        InvalidArgumentError: it has not this form.
    """
    scope, slash, stream = name.partition("/")
    if not scope or not slash or not stream or "/" in stream:
        raise InvalidArgumentError(f"{name!r} is not SCOPE/STREAM")
    return scope, stream


def confirm(what: str, *, yes: bool) -> None:
    """Ask before something that cannot be undone.

    Raises:
        InvalidArgumentError: the answer is no, or there is no terminal to ask at.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidArgumentError(f"{what}: this cannot be undone; add --yes to do it without being asked")
    print(f"{what}? This cannot be undone. [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InvalidArgumentError("not confirmed, nothing was done")

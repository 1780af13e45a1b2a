"""What a person may choose about any process: where it is found, and who may ask it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, get_args

from headrace.errors import InvalidArgumentError
from headrace.model.endpoint import Endpoint, is_wildcard
from headrace.runtime.settings import tunable
from headrace.security.config import AuthConfig
from headrace.security.tls_config import TlsConfig

Part = Literal["controller", "segmentstore", "rest"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""What clients connect to, each on a port of its own."""

PORT_MAX: Final = 65535


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    """What the web port of a controller serves beside REST."""

    console: bool = tunable(default=True, help="Whether people find pages for browsers at /console.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig(ABC):
    """Ports of 0 mean: any free one; the ready file and the log say which."""

    parts: ClassVar[tuple[Part, ...]] = ("rest",)

    host: str = tunable("127.0.0.1", help="Address to listen on, and to tell clients.")
    advertise: str | None = tunable(
        None, help="Host to tell clients instead; required if `host` is a wildcard such as 0.0.0.0."
    )
    advertise_rest: str | None = tunable(None, help="HOST[:PORT] to tell clients for REST, if it differs.")
    rest_hosts: tuple[str, ...] = tunable(
        (),
        help="Further host names under which REST is asked, as that of a proxy. Addresses, localhost, the "
        "machine's name and advertised ones need not be listed; requests for other names are refused.",
    )
    rest_port: int = tunable(10080, low=0, high=PORT_MAX, help="Port of the REST interface.")
    ready_file: str | None = tunable(None, help="Written as JSON once clients may connect.")
    auth: AuthConfig = field(default_factory=AuthConfig)
    tls: TlsConfig = field(default_factory=TlsConfig)

    def check(self) -> None:
        """Check relations between settings, and that hosts are names that can be looked up.

        Raises InvalidArgumentError.
        """
        for part in self.parts:
            port: int = getattr(self, f"{part}_port")
            if not 0 <= port <= PORT_MAX:
                raise InvalidArgumentError(f"{port} is no port: 1 to {PORT_MAX}, or 0 for any free one")
        _check_host("host", self.host, "it names the address to listen on, and to tell clients")
        if self.advertise is not None:
            _check_host("advertise", self.advertise, "it names the address to tell clients")
        for name in self.rest_hosts:
            _check_host("rest_hosts", name, "it lists names by which REST is asked")
        self.tls.check()
        for part in self.parts:
            self._check_advertised(part)

    @abstractmethod
    def place(self) -> str:
        """Return in words where its data are, for the log."""

    def _check_advertised(self, part: Part) -> None:
        key, told = f"advertise_{part}", self.advertised(part, 0).host
        _check_host(key, told, "it names the address to tell clients")
        if not is_wildcard(told):
            return
        given = next((name for name in (key, "advertise") if getattr(self, name) is not None), "host")
        raise InvalidArgumentError(
            f"{given} = {told!r} is every address of this machine, which no client can connect to: "
            "name the address or host that clients use with --advertise HOST (HEADRACE_ADVERTISE)"
        )

    def advertised(self, part: Part, port: int) -> Endpoint:
        """Return where clients find a part that listens on ``port``.

        Raises:
            InvalidArgumentError: the setting has not the form HOST[:PORT].
        """
        given: str | None = getattr(self, f"advertise_{part}")
        if given is None:
            return Endpoint(self.advertise or self.host, port)
        try:
            return Endpoint.parse(given, port)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"advertise_{part} = {error}") from None

    def rest_names(self) -> tuple[str, ...]:
        """Return the names of hosts under which REST is asked, as far as settings say it."""
        return (self.host, *(self.advertised(part, 0).host for part in self.parts), *self.rest_hosts)


def _check_host(key: str, host: str, meaning: str) -> None:
    """Raises InvalidArgumentError unless ``host`` is a name that can be looked up, or an address."""
    if not host:  # the system would take it for every address there is
        raise InvalidArgumentError(f"{key} is empty: {meaning}")
    if "[" in host or "*" in host or (host.count(":") == 1):
        raise InvalidArgumentError(
            f"{key} = {host!r} is no host: a port, a star or brackets do not belong to it; an IPv6 address "
            "is ::1"
        )
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise InvalidArgumentError(f"{key} = {host!r} is no name of a host: {error}") from None

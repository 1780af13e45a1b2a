"""An endpoint: a host and a port, as URIs, messages and the ready file write them. Pure.

``host:port``; an IPv6 address stands in brackets, for it has colons of its own: ``[::1]:9090``.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final, NamedTuple

from headrace.errors import InvalidArgumentError

_PORT_MAX: Final = 65535
_FORM: Final = re.compile(r"(?:\[(?P<address>[^\[\]]+)\]|(?P<name>[^\[\]:]+))(?::(?P<port>[0-9]{1,5}))?")
_ILLEGAL: Final = re.compile(r"[\s/@?#,]")
_ZERO: Final = re.compile(r"(0x)?0+(\.(0x)?0+){0,3}", re.IGNORECASE)
"""0.0.0.0 in every form that systems read: "0" and "0x0.0" as well."""


class Endpoint(NamedTuple):
    """Where clients connect. An IPv6 address has no brackets here."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host_in_uri}:{self.port}"

    @property
    def host_in_uri(self) -> str:
        """The host as it stands in front of a port: an IPv6 address in brackets."""
        return f"[{self.host}]" if ":" in self.host else self.host

    @classmethod
    def parse(cls, text: str, default_port: int) -> Endpoint:
        """Take ``HOST``, ``HOST:PORT`` or ``[IPv6]:PORT`` apart.

        Raises:
            InvalidArgumentError: it has not this form, or the port is outside 1 to 65535.
        """
        if is_ipv6(text):
            raise InvalidArgumentError(f"{text!r}: an IPv6 address stands in brackets, as [::1]:9090")
        match = _FORM.fullmatch(text)
        if match is None or _ILLEGAL.search(text):
            raise InvalidArgumentError(f"{text!r} is not HOST:PORT")
        port = default_port if match["port"] is None else int(match["port"])
        if match["port"] is not None and not 1 <= port <= _PORT_MAX:
            raise InvalidArgumentError(f"{text!r}: a port is 1 to {_PORT_MAX}")
        host = match["name"] or match["address"]
        if match["address"] is not None and not is_ipv6(host):
            raise InvalidArgumentError(f"{text!r}: only an IPv6 address stands in brackets")
        return cls(host, port)


def is_ipv6(host: str) -> bool:
    """Whether a host is an IPv6 address, with or without a zone (``fe80::1%eth0``)."""
    try:
        return isinstance(ipaddress.ip_address(host), ipaddress.IPv6Address)
    except ValueError:
        return False


def is_address(host: str) -> bool:
    """Whether a host is an address of IPv4 or IPv6, and no name that is looked up."""
    return _find_address(host) is not None


def is_wildcard(host: str) -> bool:
    """Whether listening on a host means every address of the machine, to which no client can connect."""
    if _ZERO.fullmatch(host):
        return True
    address = _find_address(host)
    return address is not None and address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether what is sent to a host does not leave the machine."""
    if host.lower() in {"localhost", "localhost."}:
        return True
    address = _find_address(host)
    return address is not None and address.is_loopback


def _find_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address that ``host`` is, the IPv4 one if it stands for that; None: it is a name."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def hosts_to_bind(host: str) -> str | None:
    """Return what to bind for ``host``, as ``getaddrinfo`` takes it: None, which means the wildcards of both
    families, for that of IPv6. Otherwise it depends on the library whether clients of IPv4 are served.
    """
    return None if ":" in host and is_wildcard(host) else host

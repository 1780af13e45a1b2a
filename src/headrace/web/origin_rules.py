"""Which requests are answered at all, by verb, path and headers alone. Pure.

A web page of any origin can make the browser of a person send requests to this port, from inside the machine
or network that a firewall protects: a change without asking anybody (a form), or, once a name of the page's
own points here (DNS rebinding), requests whose answers it reads. Browsers say what they are made to do, in
``Host``, ``Sec-Fetch-Site`` and ``Origin``; programs send only the first of these.

Sources: the specification of Fetch Metadata; ``CrossOriginProtection`` of Go.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from typing import Final

from headrace.errors import AccessDeniedError, HeadraceError, InvalidArgumentError
from headrace.model.endpoint import is_address

Headers = Iterable[tuple[bytes, bytes]]
"""As ASGI has them: names are in lower case."""

NAMELESS_PATHS: Final = frozenset({"/ping", "/live", "/ready"})
"""Answered under every name: probes ask by the name of a service, and learn nothing but a state."""

CONSOLE_PATH: Final = "/console"
"""Pages for people. The forms of these send no JSON, and prove by a token whose they are."""

_VERBS_THAT_ONLY_ASK: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})
"""A page of ours, and the person: the address line, a bookmark."""

_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_HOST: Final = re.compile(r"(?:\[(?P<bracketed>[^\[\]]+)\]|(?P<plain>[^\[\]:]+))(?::[0-9]{1,5})?")
_ORIGIN_SCHEME: Final = re.compile(r"https?://")
_SHOWN_CHARS: Final = 60


class BodyNotJsonError(InvalidArgumentError):
    """The body of a request does not say that it is JSON; to the console, that it is of a form."""


class ForeignHostError(InvalidArgumentError):
    """A request is for a host whose name is none of this server's."""


class ForeignPageError(AccessDeniedError):
    """A web page of another origin asks for a change."""


class OriginRules:
    """The rules of one server."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        """Answer requests for addresses, for localhost and for ``names`` of hosts."""
        self._names = frozenset(map(_normalised, names))

    def find_refusal(self, verb: str, path: str, headers: Headers) -> HeadraceError | None:
        """Return why a request is refused; None if it is not."""
        given: dict[str, list[str]] = {}
        for name, value in headers:
            given.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1").strip())
        if path.rstrip("/") not in NAMELESS_PATHS:
            for host in given.get("host", ()):
                if host and not self._is_ours(host):
                    return ForeignHostError(_host_sentence(host))
        if verb in _VERBS_THAT_ONLY_ASK:
            return None
        kind = _FORM if path.startswith(f"{CONSOLE_PATH}/") else _JSON
        return _find_foreign_page(given) or _find_other_body(given, kind)

    def _is_ours(self, host: str) -> bool:
        match = _HOST.fullmatch(host)
        if match is None:
            return False
        name = (match["bracketed"] or match["plain"]).lower().rstrip(".")
        return is_address(name) or name == "localhost" or name.endswith(".localhost") or name in self._names


def _normalised(name: str) -> str:
    """Return a name as browsers send it."""
    with contextlib.suppress(UnicodeError):  # nobody can ask for a name that cannot be looked up
        name = name.encode("idna").decode()
    return name.lower().rstrip(".")


def _find_foreign_page(given: dict[str, list[str]]) -> HeadraceError | None:
    sites = given.get("sec-fetch-site")
    if sites:
        foreign = not _OWN_SITES.issuperset(sites)
    else:
        # A browser of before 2023, or one that was not sure enough of the connection to say it.
        hosts = {host.lower() for host in given.get("host", ())}
        foreign = any(
            {_ORIGIN_SCHEME.sub("", origin.lower(), count=1)} != hosts for origin in given.get("origin", ())
        )
    if not foreign:
        return None
    return ForeignPageError(
        "web pages of other origins may not change anything here; nothing was done. Send the request from a "
        "program, without the headers Origin and Sec-Fetch-Site"
    )


def _find_other_body(given: dict[str, list[str]], wanted: str) -> HeadraceError | None:
    lengths = given.get("content-length", ())
    if "transfer-encoding" not in given and not any(length.strip("0") for length in lengths):
        return None
    kinds = given.get("content-type", [])
    if kinds and all(kind.partition(";")[0].strip().lower() == wanted for kind in kinds):
        return None
    sent = f"not {kinds[0][:_SHOWN_CHARS]!r}" if kinds else "which it has not"
    what = "JSON" if wanted == _JSON else "that of a form"
    return BodyNotJsonError(
        f"a body is {what} and comes with the header Content-Type: {wanted}, {sent}; nothing was done"
    )


def _host_sentence(host: str) -> str:
    return (
        f"{host[:_SHOWN_CHARS]!r} is no name of this server: ask for an address, for localhost or for the "
        "name that it advertises, or list this name in its setting rest_hosts (HEADRACE_REST_HOSTS)"
    )

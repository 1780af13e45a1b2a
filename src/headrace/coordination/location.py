"""Where the coordinator of a cluster is, as one URI.

=================================  =====================================================================
``memory://``                      the memory of this process, which is the whole cluster
``zk://h1:2181,h2:2181/root``      Apache ZooKeeper: its servers, and the node below which the cluster is
=================================  =====================================================================

Options of ``zk`` overrule settings: ``zk://h1/root?session_s=4&margin_s=1``. A URI has no secret: it is
printed, logged and stored.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl

from headrace.coordination.node import check_path
from headrace.errors import InvalidArgumentError
from headrace.model.endpoint import Endpoint

PORT_DEFAULT: Final = 2181
SERVERS_MAX: Final = 32
OPTIONS: Final = ("margin_s", "session_s")
_FORM: Final = re.compile(r"zk://(?P<servers>[^/?#]*)(/(?P<root>[^?#]*))?(\?(?P<query>[^#]*))?")
_OWN_OF_ZOOKEEPER: Final = "zookeeper"


@dataclass(frozen=True, slots=True)
class CoordinatorLocation:
    """One place for the nodes of one cluster."""

    scheme: str
    """``memory`` or ``zk``."""
    servers: tuple[Endpoint, ...] = ()
    root: str = ""
    """Names joined by ``/``; every node of the cluster is below it."""
    options: tuple[tuple[str, float], ...] = ()
    """Sorted by name."""

    @classmethod
    def parse(cls, uri: str) -> CoordinatorLocation:
        """Read a URI; ``str()`` gives it again, with ports and with its options sorted.

        Raises:
            InvalidArgumentError: it is none of these forms, or has a user or password in it.
        """
        if uri == "memory://":
            return cls("memory")
        found = _FORM.fullmatch(uri)
        if found is None:
            raise InvalidArgumentError(
                f"{_public(uri)!r} is no URI of a coordinator: zk://HOST:PORT,HOST:PORT/ROOT or memory://"
            )
        if "@" in found["servers"]:
            raise InvalidArgumentError(
                "the URI of a coordinator has no user and no password: they are in the file that the setting "
                "digest_file names"
            )
        return cls("zk", _servers(found["servers"]), _root(found["root"] or ""), _options(found["query"]))

    @property
    def place(self) -> str:
        """The URI without options: what is the same for all who agree there."""
        return str(replace(self, options=()))

    def __str__(self) -> str:
        if self.scheme == "memory":
            return "memory://"
        query = "&".join(f"{name}={value:g}" for name, value in self.options)
        return f"zk://{','.join(map(str, self.servers))}/{self.root}{'?' if query else ''}{query}"


def _servers(text: str) -> tuple[Endpoint, ...]:
    if not text:
        raise InvalidArgumentError("zk:// names at least one server: zk://HOST:PORT/ROOT")
    servers = tuple(Endpoint.parse(each, PORT_DEFAULT) for each in text.split(","))
    if len(servers) > SERVERS_MAX:
        raise InvalidArgumentError(f"zk:// names at most {SERVERS_MAX} servers, not {len(servers)}")
    return servers


def _root(text: str) -> str:
    root = text.removesuffix("/")
    if not root:
        raise InvalidArgumentError(
            "zk:// names the node below which the cluster is, one for each cluster: zk://HOST:PORT/ROOT"
        )
    check_path(root)
    if "%" in root:
        raise InvalidArgumentError(f"the root {root!r} has a '%': write names as they are")
    if root.partition("/")[0] == _OWN_OF_ZOOKEEPER:
        raise InvalidArgumentError("/zookeeper belongs to ZooKeeper itself: choose another root")
    return root


def _options(query: str | None) -> tuple[tuple[str, float], ...]:
    try:
        pairs = (
            parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
        )
    except ValueError:
        raise InvalidArgumentError("options of a coordinator's URI are ?name=value&name=value") from None
    found: dict[str, float] = {}
    for name, value in pairs:
        if name not in OPTIONS:
            raise InvalidArgumentError(f"zk:// has no option {name!r}; it has {', '.join(OPTIONS)}")
        if name in found:
            raise InvalidArgumentError(f"option {name!r} is given twice")
        if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", value):
            raise InvalidArgumentError(f"option {name!r} is a number of seconds, such as 6 or 0.5")
        found[name] = float(value)
    return tuple(sorted(found.items()))


def _public(uri: str) -> str:
    """Return the part of a URI that an error may repeat: what is behind might be a secret."""
    return re.sub(r"//[^/?#]*@", "//", uri.partition("?")[0])[:200]

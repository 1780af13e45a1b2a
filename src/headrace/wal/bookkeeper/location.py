"""Where logs over BookKeeper are, as one URI:
``bookkeeper://zk1:2181,zk2:2181/ledgers?ensemble=3&write=3&ack=2``.

It names the servers of ZooKeeper and the root of the ledgers there, ``ledgers`` by default. Options:

============  =========================================================================================
``ensemble``  bookies of a ledger; 3
``write``     of these, how many get each entry; 3, or ``ensemble`` if that is less
``ack``       of these, how many have to confirm it; more than half of ``write``
``system``    name of a system, if several have their logs in one BookKeeper; ``default``
============  =========================================================================================
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import parse_qsl

from headrace.coordination.location import CoordinatorLocation
from headrace.errors import InvalidArgumentError
from headrace.wal.bookkeeper.quorums import Quorums

SYSTEM_DEFAULT: Final = "default"
_ROOT_DEFAULT: Final = "ledgers"
_NUMBERS: Final = ("ensemble", "write", "ack")
_OPTIONS: Final = (*_NUMBERS, "system")
_FORM: Final = re.compile(r"bookkeeper://(?P<servers>[^/?#]*)(/(?P<root>[^?#]*))?(\?(?P<query>[^#]*))?")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_NUMBER: Final = re.compile(r"[0-9]{1,2}")


@dataclass(frozen=True, slots=True)
class BookKeeperLocation:
    """One place for the logs of one system."""

    scheme: ClassVar[str] = "bookkeeper"

    nodes: CoordinatorLocation
    """Below which BookKeeper has its ledgers."""
    quorums: Quorums
    system: str = SYSTEM_DEFAULT

    @classmethod
    def parse(cls, uri: str) -> BookKeeperLocation:
        """Read a URI; ``str()`` gives it again, with ports and quorums.

        Raises:
            InvalidArgumentError: it is not of this form, or its quorums do not fit.
        """
        found = _FORM.fullmatch(uri)
        if found is None:
            raise InvalidArgumentError(
                f"{_public(uri)!r} is no URI of a BookKeeper: "
                "bookkeeper://HOST:PORT,HOST:PORT/ledgers?ensemble=3&write=3&ack=2"
            )
        root = (found["root"] or "").removesuffix("/") or _ROOT_DEFAULT
        try:
            nodes = CoordinatorLocation.parse(f"zk://{found['servers']}/{root}")
        except InvalidArgumentError as error:
            raise InvalidArgumentError(str(error).replace("zk://", "bookkeeper://")) from None
        options = _options(found["query"] or "")
        ensemble = int(options.get("ensemble", 3))
        write = int(options.get("write", min(3, ensemble)))
        quorums = Quorums(ensemble, write, int(options.get("ack", write // 2 + 1)))
        quorums.check()
        return cls(nodes, quorums, options.get("system", SYSTEM_DEFAULT))

    def is_beside(self, other: BookKeeperLocation) -> bool:
        """Whether it may be the same place, by other servers or with other quorums."""
        return (self.nodes.root, self.system) == (other.nodes.root, other.system)

    def __str__(self) -> str:
        quorums = self.quorums
        servers = ",".join(map(str, self.nodes.servers))
        uri = f"bookkeeper://{servers}/{self.nodes.root}"
        uri += f"?ensemble={quorums.ensemble}&write={quorums.write}&ack={quorums.ack}"
        return uri if self.system == SYSTEM_DEFAULT else f"{uri}&system={self.system}"


def _options(query: str) -> dict[str, str]:
    try:
        pairs = (
            parse_qsl(query, keep_blank_values=True, strict_parsing=True, max_num_fields=20) if query else []
        )
    except ValueError:
        raise InvalidArgumentError("options of a BookKeeper are ?name=value&name=value") from None
    found: dict[str, str] = {}
    for name, value in pairs:
        if name not in _OPTIONS:
            raise InvalidArgumentError(f"bookkeeper:// has no option {name!r}; it has {', '.join(_OPTIONS)}")
        if name in found:
            raise InvalidArgumentError(f"option {name!r} is given twice")
        if name in _NUMBERS and not _NUMBER.fullmatch(value):
            raise InvalidArgumentError(f"option {name!r} is a number of bookies, such as 3")
        if name == "system" and not _NAME.fullmatch(value):
            raise InvalidArgumentError("option 'system' is a name of letters, digits, '-' and '_'")
        found[name] = value
    return found


def _public(uri: str) -> str:
    """Return the part of a URI that an error may repeat: what is behind might be a secret."""
    return re.sub(r"//[^/?#]*@", "//", uri.partition("?")[0])[:200]

"""Where BookKeeper keeps its own nodes, below the root of its ledgers, and what small ones of them say.

Format page: ``docs/formats/bookkeeper.md``. The nodes of ledgers have the layout ``hierarchical``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import DecodeError

from headrace.errors import DataCorruptionError, InvalidArgumentError, UnsupportedError
from headrace.model.endpoint import Endpoint
from headrace.rpc.generated import bookkeeper_pb2 as messages

LAYOUT: Final = "LAYOUT"
"""The node that says how the nodes of ledgers are named."""
ID_SEED: Final = "idgen/ID-"
"""A sequential node made here has the next id of a ledger behind its name."""
WRITABLE: Final = "available"
"""Its children are the bookies that are alive and take adds, and the one below."""
READ_ONLY: Final = "available/readonly"
"""Its children are the bookies that are alive and take none."""

_READ_ONLY_NAME: Final = READ_ONLY.rpartition("/")[2]
_LAYOUT_NAME: Final = "org.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory"
_MADE_ID: Final = re.compile(rf".*{ID_SEED}([0-9]{{10}})")
_SHORT_IDS_END: Final = 2**31 - 1
_LEDGER_PORT: Final = 3181
_PROTOCOL: Final = "bookie-rpc"
_LABELS: Final = ("zone", "rack")


@dataclass(frozen=True, slots=True)
class Bookie:
    """A bookie that is alive."""

    id: str
    """What the metadata of ledgers name it."""
    endpoint: Endpoint
    zone: str = ""
    """Where it is, if its operator says so."""


def ledger_path(ledger: int) -> str:
    """Return the path of the node of a ledger, below the root."""
    assert ledger >= 0
    if ledger < _SHORT_IDS_END:
        digits = f"{ledger:010}"
        return f"{digits[:2]}/{digits[2:6]}/L{digits[6:]}"
    digits = f"{ledger:019}"
    return f"{digits[:3]}/{digits[3:7]}/{digits[7:11]}/{digits[11:15]}/L{digits[15:]}"


def decode_ledger_id(path: str) -> int:
    """Return the id of a ledger from the path of a sequential node made at ``ID_SEED``.

    Raises:
        UnsupportedError: two billion ids are used up.
    """
    found = _MADE_ID.fullmatch(path)
    if found is None:
        raise UnsupportedError(
            f"no id of a ledger can be had: {path!r} does not end with ten digits; all ids below "
            f"{_SHORT_IDS_END} may be used up"
        )
    return int(found[1])


def check_layout(data: bytes | None) -> None:
    """Check that the nodes of ledgers are where this client looks; None: there is no such node.

    Raises:
        InvalidArgumentError: there is no BookKeeper at this root.
        UnsupportedError: it names its nodes otherwise.
    """
    if data is None:
        raise InvalidArgumentError(
            "no BookKeeper has its ledgers there: the node LAYOUT is missing; name the root of its ledgers, "
            "such as /ledgers, and initialise it with `bookkeeper shell initnewcluster` if it is new"
        )
    lines = data.decode("utf-8", "replace").split("\n")
    found = lines[1].partition(":")[0] if len(lines) > 1 else ""
    if found != _LAYOUT_NAME:
        raise UnsupportedError(
            f"BookKeeper there has the layout {found or 'of an old release'!r}, and only the hierarchical "
            "one, its default, is known here"
        )


def bookie_names(children: list[str]) -> list[str]:
    """Return the ids of bookies among the children of ``WRITABLE``, or of ``READ_ONLY``."""
    return [name for name in children if name != _READ_ONLY_NAME]


def decode_bookie(name: str, data: bytes) -> Bookie:
    """Read the node of a bookie that is alive; older releases write no data.

    Raises:
        DataCorruptionError: it says nowhere how to connect.
    """
    try:
        info = messages.BookieInfo.FromString(data)
    except DecodeError:
        info = messages.BookieInfo()
    zone = next((info.properties[label] for label in _LABELS if info.properties.get(label)), "")
    for each in info.endpoint:
        if each.protocol == _PROTOCOL:
            return Bookie(name, Endpoint(each.host, each.port), zone)
    return Bookie(name, endpoint_of(name), zone)


def endpoint_of(bookie: str) -> Endpoint:
    """Return where a bookie listens whose id is its address.

    Raises:
        DataCorruptionError: the id is no address.
    """
    try:
        return Endpoint.parse(bookie, _LEDGER_PORT)
    except InvalidArgumentError:
        raise DataCorruptionError(
            f"bookie {bookie!r} says nowhere how to connect to it, and its id is no address"
        ) from None

"""The node of one log: its owner's container epoch, its ledgers, and where it begins.

Format page: ``docs/formats/bookkeeper.md``. It is changed under its version only: that is the fence of the
log. A fenced ledger by itself says nothing of owners, since BookKeeper's own repair fences, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.model.fields import FieldReader, FieldWriter
from headrace.wal.log_system import LogSystem

LOGS: Final = "logs"
"""The nodes of logs are the children of this one, below the root of the system that has them."""
SYSTEM: Final = "system"
"""The node that says which system that is."""
FIRST_ADDRESS: Final = 1
LEDGERS_MAX: Final = 10_000
"""Of one log, so that its node stays below 512 KiB."""

_KIND: Final = b"w"
_SYSTEM_KIND: Final = b"i"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One ledger of a log."""

    ledger: int
    first_address: int
    """Address of its entry 0; entry n has the n-th address after that."""
    container_epoch: int
    """Of the owner that made it."""


@dataclass(frozen=True, slots=True)
class LogNode:
    """What is agreed of one log. Only the last ledger may be open: the others ended before it was added."""

    container: int
    container_epoch: int = 0
    """Of the newest owner; below ``first_epoch``: nobody had it."""
    truncation_address: int = FIRST_ADDRESS
    ledgers: tuple[LedgerEntry, ...] = ()
    first_epoch: int = 1
    """Container epoch of the first owner."""

    @property
    def is_begun(self) -> bool:
        """Whether somebody had it."""
        return self.container_epoch >= self.first_epoch


def log_path(container: int) -> str:
    return f"{LOGS}/{container}"


def encode_log(node: LogNode) -> bytes:
    writer = FieldWriter(_KIND, _VERSION)
    writer.uint(node.container)
    writer.uint(node.container_epoch)
    writer.uint(node.first_epoch)
    writer.uint(node.truncation_address)
    writer.uint(len(node.ledgers))
    for each in node.ledgers:
        writer.uint(each.ledger)
        writer.uint(each.first_address)
        writer.uint(each.container_epoch)
    return writer.to_bytes()


def decode_log(data: bytes, container: int) -> LogNode:
    """Read the node of the log of ``container``.

    Raises:
        DataCorruptionError: it is another log, or contradicts itself.
    """
    reader = FieldReader(data, _KIND, (_VERSION,))
    number, container_epoch = reader.uint(), reader.uint()
    first_epoch, truncation_address = reader.uint(), reader.uint()
    ledgers = tuple(
        LedgerEntry(reader.uint(), reader.uint(), reader.uint())
        for _ in range(reader.count(bytes_each_min=3))
    )
    reader.end()
    node = LogNode(number, container_epoch, truncation_address, ledgers, first_epoch)
    if number != container:
        raise DataCorruptionError(f"the node of the log of container {container} is that of {number}")
    _check(node)
    return node


def encode_system(system: LogSystem) -> bytes:
    writer = FieldWriter(_SYSTEM_KIND, _VERSION)
    writer.blob(bytes.fromhex(system.system))
    writer.uint(system.containers)
    return writer.to_bytes()


def decode_system(data: bytes) -> LogSystem:
    """Read the node that says whose logs these are.

    Raises:
        DataCorruptionError: it is damaged.
    """
    reader = FieldReader(data, _SYSTEM_KIND, (_VERSION,))
    system = LogSystem(reader.blob().hex(), reader.uint())
    reader.end()
    if not system.system or not system.containers:
        raise DataCorruptionError("the node of the system that has these logs names none")
    return system


def _check(node: LogNode) -> None:
    firsts = [each.first_address for each in node.ledgers]
    epochs = [each.container_epoch for each in node.ledgers]
    if (
        firsts != sorted(firsts)
        or epochs != sorted(epochs)
        or len({each.ledger for each in node.ledgers}) != len(node.ledgers)
        or min([*firsts, node.truncation_address]) < FIRST_ADDRESS
        or max(epochs, default=0) > node.container_epoch
        or node.first_epoch < 1
        or len(node.ledgers) > LEDGERS_MAX
    ):
        raise DataCorruptionError(f"the node of the log of container {node.container} contradicts itself")

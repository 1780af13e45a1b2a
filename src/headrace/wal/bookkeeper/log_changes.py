"""The changes of the node of a log: taking it, adding a ledger, truncating it, forgetting what was deleted.

Each returns the node as it should be next; it is written under the version of the one that it came from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import pairwise

from headrace.errors import DataCorruptionError, FencedOutError, PreconditionError
from headrace.wal.bookkeeper.log_node import FIRST_ADDRESS, LEDGERS_MAX, LedgerEntry, LogNode


def take_log(node: LogNode) -> LogNode:
    """Return the node of the next owner: from then on no earlier one can change it."""
    return replace(node, container_epoch=node.container_epoch + 1)


def check_owner(node: LogNode | None, container_epoch: int) -> LogNode:
    """Return the node, which still belongs to the owner of ``container_epoch``.

    Raises:
        FencedOutError: a newer owner has taken the log, or it was deleted.
    """
    if node is None:
        raise FencedOutError("the log was deleted")
    if node.container_epoch != container_epoch:
        raise FencedOutError(
            f"the owner of container epoch {node.container_epoch} has taken the log from that of "
            f"{container_epoch}"
        )
    return node


def next_address(node: LogNode, last_entry: int | None) -> int:
    """Return the address of the next record, where the last ledger of the log was closed at ``last_entry``.

    Raises:
        DataCorruptionError: the log was truncated behind its end.
    """
    if not node.ledgers or last_entry is None:
        return max(FIRST_ADDRESS, node.truncation_address)
    end = node.ledgers[-1].first_address + last_entry + 1
    if end < node.truncation_address:
        raise DataCorruptionError(
            f"the log of container {node.container} ends before {end}, and was truncated at "
            f"{node.truncation_address}: a ledger of it has lost its end"
        )
    return end


def check_row(node: LogNode, ends: Mapping[int, int]) -> None:
    """Check that each ledger begins where the one before it ended. ``ends``: last entries by ledger.

    Raises:
        DataCorruptionError: it does not.
    """
    for one, other in pairwise(node.ledgers):
        end = one.first_address + ends[one.ledger] + 1
        if end != other.first_address:
            raise DataCorruptionError(
                f"ledger {one.ledger} of the log of container {node.container} ends before address {end}, "
                f"and the next one, {other.ledger}, begins with {other.first_address}"
            )


def add_ledger(node: LogNode, ledger: int, first_address: int) -> LogNode:
    """Return the node with one more ledger; the one before it is closed, and ends before ``first_address``.

    Raises:
        PreconditionError: the log has as many ledgers as a node holds.
    """
    if any(each.ledger == ledger for each in node.ledgers):
        return node  # an addition without an answer was made
    if len(node.ledgers) >= LEDGERS_MAX:
        raise PreconditionError(
            f"the log of container {node.container} has {LEDGERS_MAX} ledgers, as many as its node holds: it "
            "goes on when the log has been truncated"
        )
    added = LedgerEntry(ledger, first_address, node.container_epoch)
    return replace(node, ledgers=(*node.ledgers, added))


def truncate_log(node: LogNode, address: int, end_address: int) -> LogNode:
    """Return the node of a log that begins at ``address``: not behind its end, nor lower than before."""
    return replace(node, truncation_address=max(node.truncation_address, min(address, end_address)))


def find_freed(node: LogNode) -> list[int]:
    """Return the ledgers that hold nothing but truncated records, in order. The last one stays."""
    ends = [each.first_address for each in node.ledgers[1:]]
    return [
        each.ledger for each, end in zip(node.ledgers, ends, strict=False) if end <= node.truncation_address
    ]


def forget_ledgers(node: LogNode, deleted: Collection[int]) -> LogNode:
    """Return the node without ledgers that do not exist any more."""
    return replace(node, ledgers=tuple(each for each in node.ledgers if each.ledger not in deleted))

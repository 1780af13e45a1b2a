"""Looks at a log whose owner may go on: fences nothing, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.errors import DataCorruptionError
from headrace.model.endpoint import Endpoint
from headrace.wal.bookkeeper.bookie_calls import BookieCalls
from headrace.wal.bookkeeper.entry_format import Entry
from headrace.wal.bookkeeper.ledger_io import READ_AHEAD, bookies_of, find_last_entry, read_entries
from headrace.wal.bookkeeper.ledger_metadata import LedgerMetadata, LedgerState, as_closed, decode_ledger
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.log_changes import check_row, find_freed, forget_ledgers
from headrace.wal.bookkeeper.log_node import LogNode, decode_log


@dataclass(frozen=True, slots=True)
class SeenLog:
    """A log as it was at one moment."""

    node: LogNode
    ledgers: Mapping[int, LedgerMetadata]
    """Its ledgers in front of the first one with a problem, as closed: where they ended then."""
    endpoints: Mapping[str, Endpoint]
    problem: str = ""

    @property
    def next_address(self) -> int:
        if not self.node.ledgers:
            return self.node.truncation_address
        last = self.node.ledgers[-1]
        return last.first_address + self.ledgers[last.ledger].last_entry + 1


async def find_log(store: LedgerStore, path: str, container: int) -> LogNode | None:
    """Return the node of a log; None: there is none.

    Raises:
        DataCorruptionError: it is damaged.
    """
    found = await store.nodes.read(path)
    return None if found is None else decode_log(found.data, container)


async def look_at_log(store: LedgerStore, path: str, container: int) -> SeenLog | None:
    """Return a log as it is now; None: there is none.

    Raises:
        WalWriteError: bookies of the ledger that is written do not answer.
    """
    try:
        node = await find_log(store, path, container)
    except DataCorruptionError as error:
        return SeenLog(LogNode(container), {}, {}, str(error))
    if node is None:
        return None
    node = forget_ledgers(node, find_freed(node))  # they may be deleted already
    ledgers: dict[int, LedgerMetadata] = {}
    endpoints: dict[str, Endpoint] = {}
    problem = ""
    try:
        for each in node.ledgers:
            ledger = decode_ledger((await store.read(each.ledger))[0])
            endpoints |= await store.find_endpoints(bookies_of(ledger) - endpoints.keys())
            if ledger.state is not LedgerState.CLOSED:
                async with BookieCalls(endpoints, store.connect) as calls:
                    ledger = as_closed(ledger, await find_last_entry(calls, each.ledger, ledger))
            ledgers[each.ledger] = ledger
        check_row(node, {number: ledger.last_entry for number, ledger in ledgers.items()})
    except DataCorruptionError as error:
        problem = str(error)
    return SeenLog(node, ledgers, endpoints, problem)


async def read_some(seen: SeenLog, store: LedgerStore, ledger: int, entries: range) -> list[Entry]:
    """Return some entries of a ledger. Raises as ``read_ledger``."""
    async with BookieCalls(seen.endpoints, store.connect) as calls:
        found: list[Entry] = []
        for start in range(entries.start, entries.stop, READ_AHEAD):
            some = range(start, min(start + READ_AHEAD, entries.stop))
            found += await read_entries(calls, ledger, seen.ledgers[ledger], some)
        return found

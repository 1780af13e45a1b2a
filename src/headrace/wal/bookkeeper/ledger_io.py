"""A ledger as a whole: recover it, read it. What is decided is in ``ledger_recovery``."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from headrace.errors import DataCorruptionError, WalWriteError
from headrace.wal.bookkeeper.bookie_calls import BookieCalls
from headrace.wal.bookkeeper.entry_format import Entry
from headrace.wal.bookkeeper.ledger_metadata import (
    LedgerMetadata,
    LedgerState,
    begin_recovery,
    close_ledger,
    decode_ledger,
)
from headrace.wal.bookkeeper.ledger_recovery import LedgerRecovery
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.quorums import is_covered, write_set
from headrace.wal.bookkeeper.wire_format import LAST_ENTRY, Verdict, master_key

PATIENCE_S: Final = 5.0
"""So long a recovery waits for every bookie that is alive, before it trusts a quorum."""
ATTEMPTS_WITHIN_S: Final = 30.0
_BETWEEN_ATTEMPTS_S: Final = 0.2
READ_AHEAD: Final = 4
"""Entries that are read at once, each up to 5 MiB."""


async def recover_ledger(store: LedgerStore, number: int) -> LedgerMetadata:
    """Fence a ledger and close it, if it is not closed; return its metadata.

    Raises:
        WalWriteError: too few of its bookies answer; nothing is lost, repeat it later.
        DataCorruptionError: there is no such ledger, or what was acknowledged is gone.
    """
    clock = asyncio.get_running_loop().time
    began_at = clock()
    while True:
        data, version = await store.read(number)
        ledger = decode_ledger(data)
        if ledger.state is LedgerState.CLOSED:
            return ledger
        if ledger.state is LedgerState.OPEN:
            await store.write(number, begin_recovery(data), version)
            continue
        try:
            closed = await _find_end(store, number, ledger, data, is_patient=clock() - began_at < PATIENCE_S)
        except WalWriteError:
            if clock() - began_at > ATTEMPTS_WITHIN_S:
                raise
            await asyncio.sleep(_BETWEEN_ATTEMPTS_S)
            continue
        await store.write(number, closed, version)


async def _find_end(
    store: LedgerStore, number: int, ledger: LedgerMetadata, data: bytes, *, is_patient: bool
) -> bytes:
    """Return the metadata of the ledger with its end."""
    writable, read_only = await store.read_bookies()
    alive = [bookie.id for bookie in (*writable, *read_only)]
    others = [] if is_patient else [bookie.id for bookie in writable]
    recovery = LedgerRecovery(number, ledger, must_answer=alive if is_patient else (), replacements=others)
    key = master_key(ledger.password)
    endpoints = await store.find_endpoints(bookies_of(ledger).union(others))
    async with BookieCalls(endpoints, store.connect) as calls:
        while recovery.end is None:
            recovery.proceed(await calls.ask_all(number, key, recovery.ask))
    return close_ledger(data, *recovery.end)


async def end_ledger(
    store: LedgerStore, number: int, last_entry: int, length: int, check_owner: Callable[[], Awaitable[None]]
) -> LedgerMetadata:
    """Close a ledger that was written here; return its metadata: somebody may have closed it elsewhere.

    Raises what ``check_owner`` does, which is asked if somebody recovers it, and as :func:`recover_ledger`.
    """
    while True:
        data, version = await store.read(number)
        if decode_ledger(data).state is not LedgerState.OPEN:
            await check_owner()
            return await recover_ledger(store, number)
        await store.write(number, close_ledger(data, last_entry, length), version)


async def read_ledger(
    store: LedgerStore, number: int, ledger: LedgerMetadata, first_entry: int = 0
) -> AsyncGenerator[list[Entry], None]:
    """Iterate the entries of a closed ledger, a few at a time.

    Raises:
        WalWriteError: none of the bookies of an entry answers.
        DataCorruptionError: all of them say that they do not have it.
    """
    assert ledger.state is LedgerState.CLOSED
    async with BookieCalls(await store.find_endpoints(bookies_of(ledger)), store.connect) as calls:
        for start in range(first_entry, ledger.last_entry + 1, READ_AHEAD):
            entries = range(start, min(start + READ_AHEAD, ledger.last_entry + 1))
            yield await read_entries(calls, number, ledger, entries)


async def read_entries(
    calls: BookieCalls, number: int, ledger: LedgerMetadata, entries: range
) -> list[Entry]:
    """Return entries that were acknowledged; all are asked for at once. Raises as :func:`read_ledger`."""
    return await asyncio.gather(*(_read(calls, number, ledger, each) for each in entries))


async def find_last_entry(calls: BookieCalls, number: int, ledger: LedgerMetadata) -> int:
    """Return what a recovery would find as the last entry of a ledger that is not closed. It fences nothing,
    so its writer may go on.

    Raises:
        WalWriteError: too few bookies answer.
    """
    bookies = ledger.bookies
    replies = await asyncio.gather(*(calls.read(bookie, number, LAST_ENTRY) for bookie in bookies))
    answered = {
        bookie
        for bookie, reply in zip(bookies, replies, strict=True)
        if reply.verdict in {Verdict.OK, Verdict.ABSENT}
    }
    proof = ledger.write_quorum - ledger.ack_quorum + 1
    if not is_covered(bookies, ledger.write_quorum, proof, answered):
        raise WalWriteError(
            f"ledger {number} cannot be read now: too few of its bookies {', '.join(bookies)} answer"
        )
    confirmed = [reply.entry.last_confirmed for reply in replies if reply.entry is not None]
    last = max([ledger.ensembles[-1].first_entry - 1, *confirmed])
    with contextlib.suppress(DataCorruptionError, WalWriteError):
        while True:
            await _read(calls, number, ledger, last + 1)
            last += 1
    return last


def bookies_of(ledger: LedgerMetadata) -> set[str]:
    """Return all that have something of a ledger."""
    return {bookie for ensemble in ledger.ensembles for bookie in ensemble.bookies}


async def _read(calls: BookieCalls, number: int, ledger: LedgerMetadata, entry: int) -> Entry:
    bookies = write_set(ledger.ensemble_of(entry), ledger.write_quorum, entry)
    is_absent = True
    for bookie in bookies:
        reply = await calls.read(bookie, number, entry)
        if reply.entry is not None:
            return reply.entry
        is_absent &= reply.verdict is Verdict.ABSENT
    if is_absent:
        raise DataCorruptionError(f"no bookie of {', '.join(bookies)} has entry {entry} of ledger {number}")
    raise WalWriteError(
        f"entry {entry} of ledger {number} cannot be read now from any of {', '.join(bookies)}; try again"
    )

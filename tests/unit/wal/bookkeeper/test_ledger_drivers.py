"""Ledgers over sockets: written, fenced, recovered, read and deleted, with a bookie that is away."""

import asyncio

import pytest

from headrace.errors import DataCorruptionError, InvalidArgumentError, WalWriteError
from headrace.wal.bookkeeper.ensemble import choose_ensemble
from headrace.wal.bookkeeper.ledger_io import read_ledger, recover_ledger
from headrace.wal.bookkeeper.ledger_metadata import Ensemble, LedgerMetadata, LedgerState
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter, Stop
from headrace.wal.bookkeeper.open_ledger import OpenLedger, connect_bookies
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.wire_format import master_key
from tests.unit.wal.bookkeeper.bookie_server import BookieCluster


class Writing:
    """A ledger that is written, and what was acknowledged of it."""

    async def begin(self, store, timeout_s=30.0):
        writable, _ = await store.read_bookies()
        choice = choose_ensemble(writable, Quorums(), (), 0)
        connections = await connect_bookies(choice.bookies, store.connect)
        ensemble = Ensemble(0, tuple(bookie.id for bookie in choice.bookies))
        ledger = LedgerMetadata(write_quorum=3, ack_quorum=2, ensembles=(ensemble,), password=b"pw")
        self.number = await store.create(ledger)
        self.writer = LedgerWriter(self.number, ensemble.bookies, choice.quorums, behind_bytes_max=1 << 20)
        self.acknowledged = []
        self.changed = asyncio.Event()
        self.open = OpenLedger(
            self.writer, connections, master_key(b"pw"), self.on_progress, timeout_s=timeout_s
        )
        return self

    def on_progress(self, _, progress):
        self.acknowledged += progress.confirmed
        self.changed.set()

    def send(self, content):
        self.open.send(self.writer.add(len(content)), content)

    async def wait(self, condition):
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def append(self, *contents):
        for content in contents:
            self.send(content)
        await self.wait(lambda: self.writer.confirmed == self.writer.next_entry - 1)


async def contents_of(store, number):
    ledger = await recover_ledger(store, number)
    assert ledger.state is LedgerState.CLOSED
    return [bytes(entry.payload) async for some in read_ledger(store, number, ledger) for entry in some]


NUMBERED = [b"entry %d" % number for number in range(11)]


async def test_a_ledger_is_written_recovered_and_read_and_its_writer_fenced():
    async with BookieCluster() as cluster:
        await cluster.store.check()
        writing = await Writing().begin(cluster.store)
        await writing.append(*NUMBERED, b"", b"x" * (1 << 20))
        assert await contents_of(cluster.store, writing.number) == [*NUMBERED, b"", b"x" * (1 << 20)]
        writing.send(b"late")
        await writing.wait(lambda: writing.writer.stop_cause is Stop.FENCED)
        assert writing.acknowledged == list(range(13))
        writing.open.close()
        await cluster.store.delete(writing.number)
        await cluster.store.delete(writing.number)
        with pytest.raises(DataCorruptionError):
            await recover_ledger(cluster.store, writing.number)


async def test_a_ledger_goes_on_without_a_bookie_that_died_and_is_recovered_without_it():
    async with BookieCluster() as cluster:
        writing = await Writing().begin(cluster.store)
        await writing.append(*NUMBERED[:5])
        cluster.servers[1].stop()
        await cluster.session.delete(f"available/{cluster.servers[1].name}", 0)
        await writing.append(*NUMBERED[5:])
        assert writing.writer.lost == {cluster.servers[1].name}
        assert await contents_of(cluster.store, writing.number) == NUMBERED
        writing.open.close()


async def test_bookies_that_do_not_answer_are_given_up():
    async with BookieCluster() as cluster:
        writing = await Writing().begin(cluster.store, timeout_s=0.01)
        for server in cluster.servers[:2]:
            server.bookie.is_paused = True
        writing.send(b"first")
        await writing.wait(lambda: writing.writer.stop_cause is Stop.TOO_FEW)
        assert writing.acknowledged == []
        assert writing.open.is_drained
        writing.open.close()


async def test_what_no_bookie_answers_is_unknown_and_what_none_has_is_gone():
    async with BookieCluster() as cluster:
        writing = await Writing().begin(cluster.store)
        await writing.append(b"first")
        ledger = await recover_ledger(cluster.store, writing.number)
        writing.open.close()
        for server in cluster.servers:
            server.bookie.entries.clear()
        with pytest.raises(DataCorruptionError):
            [entry async for entry in read_ledger(cluster.store, writing.number, ledger)]
        for server in cluster.servers:
            server.stop()
        with pytest.raises(WalWriteError):
            [entry async for entry in read_ledger(cluster.store, writing.number, ledger)]


async def test_a_root_without_bookkeeper_is_refused():
    async with BookieCluster() as cluster:
        await cluster.session.delete("LAYOUT", 0)
        with pytest.raises(InvalidArgumentError):
            await cluster.store.check()

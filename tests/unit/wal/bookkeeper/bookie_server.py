"""Simulated bookies behind real sockets, and their nodes in memory: what the drivers connect to."""

import asyncio
from random import Random

from headrace.coordination.memory import MemoryCoordinator
from headrace.wal.bookkeeper.ledger_nodes import LAYOUT, READ_ONLY, WRITABLE
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.wire_format import encode_answer
from tests.simulation.worlds.ledger_bookies import SimulatedBookie


class BookieServer:
    def __init__(self):
        self.bookie = SimulatedBookie("", Random(0))
        self.writers = set()

    async def start(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.name = f"127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def _serve(self, reader, writer):
        self.writers.add(writer)
        try:
            while True:
                length = await reader.readexactly(4)
                request = length + await reader.readexactly(int.from_bytes(length, "big"))
                if not self.bookie.is_paused:
                    writer.write(encode_answer(self.bookie.handle(request)))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def stop(self):
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()


class BookieCluster:
    def __init__(self, count=3):
        self.servers = [BookieServer() for _ in range(count)]

    async def __aenter__(self):
        self.session = await MemoryCoordinator().open()
        await self.session.create(LAYOUT, b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
        await self.session.create(READ_ONLY, b"")
        for server in self.servers:
            await server.start()
            await self.session.create(f"{WRITABLE}/{server.name}", b"")
        self.store = LedgerStore(self.session)
        return self

    async def __aexit__(self, *_):
        for server in self.servers:
            server.stop()

"""Bookies and their nodes in the memory of one process, without sockets: any loop may use them."""

import asyncio
import struct
from random import Random

from headrace.coordination.memory import MemoryCoordinator
from headrace.errors import UnreachableError
from headrace.runtime.context import system_runtime
from headrace.wal.bookkeeper.cluster import LedgerCluster
from headrace.wal.bookkeeper.ledger_nodes import LAYOUT, READ_ONLY, WRITABLE
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.next_ledger import LedgerMaker
from headrace.wal.bookkeeper.quorums import Quorums
from headrace.wal.bookkeeper.renewed_session import RenewedSession
from headrace.wal.bookkeeper.wire_format import MASTER_KEY_BYTES, Answer, Code, Operation
from tests.simulation.worlds.ledger_bookies import SimulatedBookie


class MemoryConnection:
    """Handles a request when the loop comes to it, as late as bytes that were under way."""

    def __init__(self, bookies, bookie, on_answer, on_lost):
        self.bookies, self.bookie = bookies, bookie
        self._on_answer, self._on_lost = on_answer, on_lost
        self._loop = asyncio.get_running_loop()
        self.is_open = True
        self.waiting = []

    def send(self, head, payload=b""):
        if self.bookie.name in self.bookies.held:
            self.waiting.append((head, payload))
        elif self.is_open:
            self._loop.call_soon(self._deliver, head + bytes(payload))

    def abort(self):
        self.is_open = False

    def cut(self):
        if self.is_open:
            self.is_open = False
            self._loop.call_soon(self._on_lost)

    def _deliver(self, request):
        if self.bookie.answers:
            answer = self.bookies.handle(self.bookie, request)
            self._loop.call_soon(self._tell, answer)

    def _tell(self, answer):
        if self.is_open:
            self._on_answer(answer)


class MemoryBookies:
    """A cluster of bookies: kill, pause, restart, fill them."""

    def __init__(self, count=3):
        self.coordinator = MemoryCoordinator()
        self.sessions = []
        self.bookies = {f"b{n}:1": SimulatedBookie(f"b{n}:1", Random(n)) for n in range(count)}
        self.connections = []
        self.is_full = False
        self.held = set()
        self.session = run_now(self.coordinator.open())
        layout = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
        run_now(self.session.create(LAYOUT, layout))
        run_now(self.session.create(READ_ONLY, b""))
        for name in self.bookies:
            run_now(self.session.create(f"{WRITABLE}/{name}", b""))

    def maker(self):
        store = LedgerStore(RenewedSession(self), self.connect)
        return LedgerMaker(store, Quorums(), system_runtime())

    def cluster(self, system="default"):
        return LedgerCluster(
            place="bookkeeper://memory/ledgers",
            make_coordinator=lambda: self,
            system=system,
            connect=self.connect,
        )

    async def open(self):
        """Begin a session."""
        self.sessions.append(await self.coordinator.open())
        return self.sessions[-1]

    async def connect(self, endpoint, on_answer, on_lost):
        bookie = self.bookies[str(endpoint)]
        if not bookie.is_up:
            raise UnreachableError(f"bookie {endpoint} is down")
        connection = MemoryConnection(self, bookie, on_answer, on_lost)
        self.connections = [each for each in self.connections if each.is_open]
        self.connections.append(connection)
        return connection

    def handle(self, bookie, request):
        if self.is_full and request[5] == Operation.ADD:
            place = struct.unpack_from(">qq", request, 8 + MASTER_KEY_BYTES)
            return Answer(Operation.ADD, Code.READ_ONLY, *place, b"")
        return bookie.handle(request)

    def hold(self, name):
        """Leave what is sent to a bookie under way: in the memory of whoever sends it."""
        self.held.add(name)
        return Held(self, name)

    def kill(self, name, *, is_listed=False):
        self.bookies[name].is_up = False
        for connection in self.connections:
            if connection.bookie.name == name:
                connection.cut()
        if not is_listed:
            run_now(self.session.delete(f"{WRITABLE}/{name}", 0))

    def restart(self, name):
        self.bookies[name].restart()
        run_now(self.session.create(f"{WRITABLE}/{name}", b""))

    def fill(self):
        """Take no entries any more, and say so."""
        self.is_full = True
        for name in self.bookies:
            run_now(self.session.delete(f"{WRITABLE}/{name}", 0))
            run_now(self.session.create(f"{READ_ONLY}/{name}", b""))

    def free(self):
        self.is_full = False
        for name in self.bookies:
            run_now(self.session.delete(f"{READ_ONLY}/{name}", 0))
            run_now(self.session.create(f"{WRITABLE}/{name}", b""))


class Held:
    """What is under way to one bookie."""

    def __init__(self, bookies, name):
        self._bookies, self._name = bookies, name

    def release(self):
        """Let it arrive."""
        self._bookies.held.discard(self._name)
        for connection in self._bookies.connections:
            waiting, connection.waiting = connection.waiting, []
            for head, payload in waiting:
                connection.send(head, payload)


def run_now(coroutine):
    """Return the result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waited")

"""Programs drawn from a seed: writers, transactions and clients are used, interrupted and ended in any order,
while connections break, stores stop and streams end, on virtual time.

Whatever a program does: every event it gave is stored, once, in order, and acknowledged; or it was refused
with an error that the program saw: of the acknowledgement, of a call of its writer, or of the end of the
client. What was not said is a loss in silence. And every wait ends: one that does not is a deadlock of the
simulation.
"""

import asyncio
import random
import re
from collections import Counter
from contextlib import suppress

import pytest
from fake_server import FakeController, FakeStore

from headrace.client import ClientConfig, WriterConfig, connect
from headrace.client.face import core
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.reconnect_policy import ReconnectPolicy
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    HeadraceError,
    NoSuchStreamError,
    NotDurableError,
)
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.rpc.refusals import refusal_of
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate
from tests.effort import seeds

EVENTS, BYTES, TRANSACTIONS = "events", "bytes", "transactions"


class Context:
    """Of a call of the controller."""

    async def abort(self, code, text):
        raise NoSuchStreamError(text)


class MemoryControl:
    """A client's way to the controller, without a network: it takes its time, and may lose an answer."""

    controller = None
    draws = None

    def __init__(self, address, config, entropy):
        self._closed = False

    async def call(self, method, request, *, timeout_s=None, attempts=None):
        if self._closed:
            raise ClosedError("the client is closed")
        await asyncio.sleep(self.draws.random() * 0.01)
        reply = await getattr(self.controller, method)(request, Context())
        if method in ("commitTransaction", "abortTransaction") and self.draws.random() < 0.1:
            raise ConnectionLostError(f"{method}: no answer")
        await asyncio.sleep(self.draws.random() * 0.01)
        refusal = refusal_of(method, reply, ())
        if refusal is not None:
            raise refusal
        return reply

    async def close(self):
        self._closed = True


class Given:
    """A writer with what it was given, and what the program was told about it."""

    def __init__(self, kind, place, writer):
        self.kind, self.place, self.writer = kind, place, writer
        self.taken = []
        """Pairs of what was written as a unit, and the ack."""
        self.looked_at = set()
        self.was_told = False
        self.outcome = "open"

    def write(self, draws, names):
        count = 1 if self.kind == BYTES else draws.choice([1, 1, 1, 5, 50])
        events = [b"%06d" % next(names) for _ in range(count)]
        if count == 1:
            ack = self.writer.write(events[0]) if self.kind == BYTES else self.writer.write(events[0], "key")
        elif draws.random() < 0.5:
            ack = self.writer.write_many(events, "key")
        else:
            ack = self.writer.write_atomic(events, "key")
        self.taken.append((events, ack))

    def lost(self):
        """How many events, or bytes, failed without a word."""
        # The model looks at the acks of which the program did not: that must not count as a look.
        failed = [events for events, ack in self.taken if "failed" in repr(ack) and ack not in self.looked_at]
        return sum(len(event) if self.kind == BYTES else 1 for events in failed for event in events)


class Program:
    """A program and its world."""

    def __init__(self, seed, simulation, log):
        self.log = log
        self.draws = random.Random(f"program {seed}")
        self.store = FakeStore()
        self.store.faults.random = random.Random(f"faults {seed}")
        self.controller = FakeController(self.store)
        MemoryControl.controller, MemoryControl.draws = self.controller, random.Random(f"control {seed}")
        self.network = simulation.network
        self.names = iter(range(10**6))
        self.given = []
        self.tasks = {}
        self.said = Counter()
        self.client = None
        self.is_away = False
        self.is_calm = True
        """Nothing has happened by which an event may be lost."""

    async def run(self):
        await self.store.start()
        if self.draws.random() < 0.5:
            self.store.faults.drop_before_append = self.store.faults.drop_after_append = 0.1
        for stream, segments in (("t", 1), ("u", 3)):
            self.controller.create("s", stream, segments)
        self.controller.create("s", "bytes")
        give_up_s, close_timeout_s = self.draws.choice([0.0, 1.0, 60.0]), self.draws.choice([0.0, 0.01, 60.0])
        self.is_calm = give_up_s == close_timeout_s == 60.0
        reconnect = ReconnectPolicy(initial_s=0.01, give_up_s=give_up_s)
        writer = WriterConfig(reconnect=reconnect, window_bytes_max=8192, block_bytes_max=1024)
        config = ClientConfig(writer=writer, close_timeout_s=close_timeout_s, credentials=None)
        self.client = connect("tcp://memory", config, entropy=SeededEntropy(self.draws.random()))
        for _ in range(self.draws.randrange(3, 25)):
            await self.step()
        await self.end()
        await self.settle()
        self.judge()
        await self.store.stop()

    # ---- steps

    async def step(self):
        choices = {
            self.open: 3,
            self.write: 12,
            self.call: 6,
            self.cancel: 3,
            self.wait: 5,
            self.look: 2,
            self.drop: 2,
            self.stop: 0.5,
            self.scale: 1,
            self.seal: 0.3,
            self.close: 0.7,
            self.cancel_the_clients: 0.7,
        }
        (step,) = self.draws.choices(list(choices), list(choices.values()))
        with suppress(ClosedError):
            await step()

    async def open(self):
        kind = self.draws.choice([EVENTS, EVENTS, BYTES, TRANSACTIONS])
        # The controller here does not roll transactions into a stream that was scaled.
        stream = {EVENTS: self.draws.choice(["t", "u"]), BYTES: "bytes", TRANSACTIONS: "t"}[kind]
        try:
            if kind == EVENTS:
                opened = await self.client.event_writer("s", stream)
            elif kind == BYTES:
                opened = await self.client.byte_writer("s", stream)
            else:
                opened = await self.client.txn_writer("s", stream).begin()
        except HeadraceError:
            return  # it says so
        self.given.append(Given(kind, f"s/{stream}", opened))

    def one(self):
        if not self.given:
            raise ClosedError("there is none yet")
        return self.draws.choice(self.given)

    async def write(self):
        given = self.one()
        for _ in range(self.draws.choice([1, 1, 10])):
            try:
                given.write(self.draws, self.names)
            except HeadraceError:
                given.was_told = True
                return

    async def call(self):
        given = self.one()
        verbs = ["flush", "drain", "close"] if given.kind != TRANSACTIONS else ["flush", "commit", "abort"]
        verb = self.draws.choice(verbs)
        task = asyncio.ensure_future(self._call(given, verb))
        self.tasks[task] = verb
        if self.draws.random() < 0.3:
            await asyncio.wait([task])

    async def _call(self, given, verb):
        if verb == "commit" and given.outcome == "open":
            given.outcome = "unknown"  # until it has ended, or if it is cancelled
        try:
            await getattr(given.writer, verb)()
        except HeadraceError:
            given.was_told = True
        else:
            if verb in ("commit", "abort") and given.outcome in ("open", "unknown"):
                given.outcome = {"commit": "committed", "abort": "aborted"}[verb]

    async def cancel(self):
        """At whatever it awaits just now."""
        for _ in range(self.draws.randrange(4)):
            await asyncio.sleep(0)
        left = [task for task in self.tasks if not task.done()]
        if left:
            self.draws.choice(left).cancel()

    async def cancel_the_clients(self):
        """As a program may do that cancels all tasks of its loop, and goes on."""
        for task in asyncio.all_tasks():
            if task.get_name().startswith("client/"):
                task.cancel()

    async def wait(self):
        await asyncio.sleep(self.draws.choice([0, 0, 0.001, 0.01, 0.1, 2.0]))

    async def look(self):
        given = self.one()
        if given.taken:
            task = asyncio.ensure_future(self._look(given, self.draws.choice(given.taken)[1]))
            self.tasks[task] = "ack"

    async def _look(self, given, ack):
        try:
            await ack
        except HeadraceError:
            given.looked_at.add(ack)

    async def drop(self):
        self.store.drop_connections()

    async def stop(self):
        """The store is away for a while, or for ever."""
        if not self.is_away:
            self.is_away, self.is_calm = True, False
            await self.store.stop()
            if self.draws.random() < 0.7:
                self.tasks[asyncio.ensure_future(self._start_again())] = "store"

    async def _start_again(self):
        await asyncio.sleep(self.draws.random() * 3)
        await self.store.start(self.store.port)
        self.is_away = False

    async def scale(self):
        if ("s", "u") not in self.controller.sealed_streams:
            current = list(self.controller.epochs["s", "u"][-1])
            self.controller.scale_now("s", "u", current, split_evenly(FULL_RANGE, self.draws.randrange(1, 4)))

    async def seal(self):
        self.is_calm = False
        self.controller.seal_now("s", self.draws.choice(["t", "u", "bytes"]))

    async def close(self):
        task = asyncio.ensure_future(self._close())
        self.tasks[task] = "client"

    async def _close(self):
        try:
            await self.client.close()
        except NotDurableError as error:
            for each in error.lost:
                self.said[each.place] += each.count

    # ---- the end

    async def end(self):
        """The client is closed in the end; or its loop ends as that of ``asyncio.run`` does."""
        if self.draws.random() < 0.7:
            await self._close()
            return
        me = asyncio.current_task()
        tasks = [task for task in self.client_tasks() if task is not me]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.get_running_loop().shutdown_asyncgens()

    def client_tasks(self):
        return [
            task
            for task in asyncio.all_tasks()
            if (task in self.tasks and self.tasks[task] != "store")
            or task.get_name().startswith(("client/", "transactions of"))
        ]

    async def settle(self):
        """Every wait ends, and every ack is settled."""
        await asyncio.gather(
            *(task for task in self.tasks if self.tasks[task] != "store"), return_exceptions=True
        )
        for given in self.given:
            assert all(ack.done() for _, ack in given.taken)
            for verb in ("flush", "close"):
                with suppress(HeadraceError):
                    await getattr(given.writer, verb)()

    def judge(self):
        stored = {
            "s/t": self.events("t"),
            "s/u": self.events("u"),
            "s/bytes": [
                b"%06d" % int(data[at : at + 6])
                for data in [self.controller.data_of("s", "bytes")[0]]
                for at in range(0, len(data), 6)
            ],
        }
        unsaid = Counter()
        for given in self.given:
            self.judge_one(given, stored[given.place])
            if not given.was_told and given.kind != TRANSACTIONS:
                unsaid[given.place] += given.unsaid
        for record in self.log.records:
            for count, place in re.findall(r"(\d+) (?:events|bytes) of (s/\w+)", record.getMessage()):
                self.said[place] += int(count)
        for place, count in unsaid.items():
            assert self.said[place] >= count, (
                f"{count} of {place} are lost in silence, and {self.said[place]} said"
            )

    def judge_one(self, given, stored):
        mine = [event for events, _ in given.taken for event in events]
        found = [event for event in stored if event in set(mine)]
        assert len(found) == len(set(found)), "doubled"
        assert found == sorted(found), "out of order"
        good = [event for events, ack in given.taken if "failed" not in repr(ack) for event in events]
        if given.kind != TRANSACTIONS:
            assert set(good) <= set(found), "acknowledged and not stored"
            assert good == mine or not self.is_calm, "lost without a reason"
        elif given.outcome == "committed":
            assert found == mine, "committed and not stored"
        elif given.outcome in ("open", "aborted"):
            assert not found, "not committed and stored"
        given.unsaid = given.lost()

    def events(self, stream):
        found = []
        for _, data in sorted(self.controller.data_of("s", stream).items()):
            found += payloads(data, find_frames(data))
        return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(200))
def test_every_event_is_stored_or_refused_with_an_error_that_the_program_saw(seed, monkeypatch, caplog):
    monkeypatch.setattr(core, "Controller", MemoryControl)

    async def scenario(simulation):
        await Program(seed, simulation, caplog).run()

    simulate(seed, scenario, network=NetworkConfig(), limit_s=3600.0)

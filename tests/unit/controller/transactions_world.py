"""A sink that writes numbered batches through controllers that die, repeat, hurry and lag: the whole of
its luck.

Several controllers share one store. Between any two of their steps others run, any of them may die;
drivers repeat requests whose answers were lost, send them twice at once, or very late; two drivers may
work on the same batch with different splits; leases run out while a driver sleeps.
"""

import asyncio
import re
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.rpc.generated import batch_commit_pb2 as bb
from headrace.rpc.generated import controller_pb2 as pb
from headrace.testing.coordination_faults import CoordinationFaults, FaultyCoordinator
from tests.unit.controller.calls import ask, shadow
from tests.unit.controller.conftest import World, stream_config
from tests.unit.controller.mortality import Life, idle, mortal_controller
from tests.unit.controller.segment_stores import FakeSegmentStores

SINK, QUERY = "sink", "query"
INFO = pb.StreamInfo(scope="s", stream="t")
_EVENT = re.compile(rb"\[(\d+):(\d+):(\d+)\]")
Commit = bb.CommitTransactionBatchResponse


class SlowLife(Life):
    """Every call takes some time, so that others get between any two of them."""

    def __init__(self, entropy, effects=None):
        super().__init__(effects)
        self._entropy = entropy

    async def lead(self, call, is_effect):
        await asyncio.sleep(self._entropy.randbelow(20) / 1000)
        return await super().lead(call, is_effect)


class SimulatedWallClock:
    def __init__(self, loop):
        self._loop = loop

    def now_ms(self):
        return 1_700_000_000_000 + int(self._loop.time() * 1000)


@dataclass
class Attempt:
    """One try at one batch: its transactions and what was written to them."""

    number: int
    batch: int
    txns: list = field(default_factory=list)
    events: list = field(default_factory=list)
    complete: bool = False
    """Whether its driver may commit it, now or much later."""


class SinkWorld:
    """One run. ``entropy`` decides everything."""

    def __init__(self, entropy, *, controllers=2, batches=4, segments=2, aborts=5):
        self.entropy = entropy
        self.aborts = aborts
        self.batches = batches
        self.segments = segments
        self.world = World(segments=FakeSegmentStores(), clock=SimulatedWallClock(asyncio.get_running_loop()))
        self.settings = {
            "lease_ms_min": 1,
            "lease_grace_ms_min": 0,
            "prepared_ms_max": 5_000,
            "commit_batch_max": 1 + entropy.randbelow(3),
        }
        self.count = controllers
        self.controllers = []
        self.lives = []
        self.attempts = []
        self.acknowledged = set()
        self.deaths_left = entropy.randbelow(5)

    def chance(self, percent):
        return self.entropy.randbelow(100) < percent

    # ---- controllers

    async def start(self):
        async with self.world.running(**self.settings) as controller:
            await controller.handlers["create_scope"](pb.ScopeInfo(scope="s"))
            await controller.handlers["create_stream"](stream_config(segments=self.segments))
        for _ in range(self.count):
            await self.add_controller()

    async def add_controller(self):
        effects = None
        if self.deaths_left > 0 and self.chance(60):
            self.deaths_left -= 1
            effects = 1 + self.entropy.randbelow(40)
        life = SlowLife(self.entropy, effects)
        controller = mortal_controller(self.world, life, **self.settings)
        starting = asyncio.ensure_future(controller.start())
        self.controllers.append(controller)
        self.lives.append(life)
        await self.unless_dead(life, starting)

    async def unless_dead(self, life, task):
        """Return the result of a task of a controller; None if the controller dies first."""
        over = asyncio.ensure_future(life.over.wait())
        await asyncio.wait([task, over], return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not task.done():
            task.cancel()
            return None
        try:
            return task.result()
        except HeadraceError:
            return None

    async def call(self, name, request):
        """Ask some controller; None stands for every answer a client does not get."""
        index = self.entropy.randbelow(len(self.controllers))
        controller, life = self.controllers[index], self.lives[index]
        if life.over.is_set():
            await controller.stop()
            if controller in self.controllers:  # another caller may have found it dead as well
                index = self.controllers.index(controller)
                del self.controllers[index], self.lives[index]
                await self.add_controller()
            return None
        answer = await self.unless_dead(life, asyncio.ensure_future(ask(controller, name, request)))
        return None if self.chance(10) else answer  # lost on its way back

    # ---- drivers

    async def write_attempt(self, batch):
        """Open tagged transactions and write to them; None: the batch is in already."""
        attempt = Attempt(len(self.attempts), batch)
        self.attempts.append(attempt)
        for partition in range(1 + self.entropy.randbelow(3)):
            request = bb.CreateTaggedTransactionRequest(
                streamInfo=INFO,
                leaseMs=40 + self.entropy.randbelow(400),
                tag=bb.TransactionTag(sink=SINK, query=QUERY, batch=batch, partition=partition),
            )
            answer = await self.call("create_tagged_transaction", request)
            if answer is None:
                break  # the task dies; its transaction, if there is one, is an orphan
            if answer.status == answer.ALREADY:
                assert answer.watermark.batch >= batch
                return None
            self.write(attempt, answer.transaction, partition)
            await asyncio.sleep(self.entropy.randbelow(30) / 1000)
        attempt.complete = True
        return attempt

    def write(self, attempt, txn, partition):
        written = []
        for index in range(self.segments):
            event = b"[%d:%d:%d]" % (attempt.batch, attempt.number, partition * self.segments + index)
            try:
                self.world.segments.write(shadow(txn, index), event)
            except HeadraceError:
                return  # expired already: the task fails, its message never reaches the driver
            written.append(event)
        attempt.txns.append(txn.txnId)
        attempt.events += written

    def commit_request(self, attempt):
        return bb.CommitTransactionBatchRequest(
            streamInfo=INFO, sink=SINK, query=QUERY, batch=attempt.batch, txnIds=attempt.txns
        )

    async def drive(self):
        """Bring in one batch after the other, as a query does."""
        for batch in range(self.batches):
            while True:
                attempt = await self.write_attempt(batch)
                if attempt is None:
                    break
                if self.chance(15):
                    await asyncio.sleep(self.entropy.randbelow(2000) / 1000)  # leases may run out
                if self.chance(self.aborts):
                    request = bb.AbortTransactionBatchRequest(
                        streamInfo=INFO, sink=SINK, query=QUERY, batch=batch
                    )
                    await self.call("abort_transaction_batch", request)
                if await self.commit(attempt):
                    break

    async def commit(self, attempt):
        """Ask until there is an answer; return whether the batch is in."""
        request = self.commit_request(attempt)
        for _ in range(30):
            twins = 2 if self.chance(25) else 1
            answers = await asyncio.gather(
                *(self.call("commit_transaction_batch", request) for _ in range(twins))
            )
            for answer in answers:
                if answer is not None and answer.status in {Commit.COMMITTED, Commit.ALREADY}:
                    self.acknowledged.add(attempt.batch)
                    return True
            if any(answer is not None and answer.status == Commit.MISSING for answer in answers):
                return False
        return False

    async def disturb(self):
        """Requests of dead drivers arrive, late; readers look."""
        for _ in range(6):
            await asyncio.sleep(self.entropy.randbelow(400) / 1000)
            self.look()
            complete = [attempt for attempt in self.attempts if attempt.complete]
            if not complete:
                continue
            attempt = complete[self.entropy.randbelow(len(complete))]
            if self.chance(50 - self.aborts // 2):
                await self.call("commit_transaction_batch", self.commit_request(attempt))
            elif self.chance(50 + self.aborts // 2):
                request = bb.AbortTransactionBatchRequest(
                    streamInfo=INFO, sink=SINK, query=QUERY, batch=attempt.batch
                )
                await self.call("abort_transaction_batch", request)
            else:
                await self.write_attempt(attempt.batch)

    # ---- judgement

    def visible(self):
        """Return the events that readers see."""
        found = []
        for name, segment in self.world.segments.segments.items():
            if name.startswith("s/t/") and "#transaction" not in name:
                found += [match.group(0) for match in _EVENT.finditer(bytes(segment.data))]
        return found

    def look(self):
        """Assert what must hold at every moment: nothing twice, of a batch one attempt only."""
        events = self.visible()
        assert len(events) == len(set(events)), "an event is visible twice"
        seen = {}
        for event in events:
            batch, attempt, _ = _EVENT.match(event).groups()
            assert seen.setdefault(batch, attempt) == attempt, "two attempts of a batch are visible"

    async def finish(self):
        """Let a last controller finish everything, and judge."""
        for life in self.lives:
            life.over.set()
        for controller in self.controllers:
            await controller.stop()
        async with self.world.running(**self.settings) as controller:
            await idle(controller)
            await asyncio.sleep(20)  # what nobody decided is given up
            await idle(controller)
            self.look()
            request = bb.GetSinkWatermarkRequest(streamInfo=INFO, sink=SINK)
            mark = (await controller.handlers["get_sink_watermark"](request)).watermark
            last = mark.batch if mark.sink else -1
            assert not mark.txnIds
            assert controller.transactions.statistics()["PREPARED"] == 0
            assert controller.transactions.statistics()["OPEN"] == 0
        self.judge(last)

    def judge(self, last):
        """Assert that what is visible is a whole prefix of batches."""
        events = set(self.visible())
        for batch in self.acknowledged:
            assert batch <= last, f"batch {batch} was acknowledged, the watermark is {last}"
        for batch in range(self.batches):
            of_batch = {event for event in events if int(_EVENT.match(event).group(1)) == batch}
            whole = [set(attempt.events) for attempt in self.attempts if attempt.batch == batch]
            if batch > last:
                assert not of_batch, f"batch {batch} is visible, the watermark is {last}"
            else:
                assert of_batch in whole, f"batch {batch} is in, but not as a whole: {sorted(of_batch)}"
        assert not [name for name in self.world.segments.segments if "#transaction" in name]


class FaultySinkWorld(SinkWorld):
    """The same with a coordinator whose sessions expire and are suspended, so that buckets change owners."""

    def __init__(self, entropy, **shape):
        super().__init__(entropy, **shape)
        faults = CoordinationFaults(
            delay_s_max=0.05,
            watch_delay_s_max=0.3,
            lost_replies_percent=10,
            session_timeout_s=0.6,
            margin_s=0.1,
        )
        self.world.coordinator = FaultyCoordinator(entropy, faults)
        self.ended = 0
        """Sessions that were ended or suspended."""

    async def start(self):
        await super().start()
        self._chaos = asyncio.ensure_future(self._disturb_sessions())

    async def _disturb_sessions(self):
        while True:
            await asyncio.sleep(self.entropy.randbelow(400) / 1000)
            sessions = self.world.coordinator.sessions
            if not sessions:
                continue
            session = sessions[self.entropy.randbelow(len(sessions))]
            self.ended += 1
            if self.chance(50):
                session.expire()
            else:
                session.suspend()
                asyncio.get_running_loop().call_later(self.entropy.randbelow(1000) / 1000, session.resume)

    async def finish(self):
        self._chaos.cancel()
        await asyncio.sleep(2)  # all that is suspended goes on
        await super().finish()


async def run_sink(sim, *, drivers=None, make=SinkWorld, **shape):
    """Run one schedule to its end, and return its world."""
    entropy = sim.entropy
    shape.setdefault("controllers", 1 + entropy.randbelow(3))
    shape.setdefault("batches", 1 + entropy.randbelow(4))
    shape.setdefault("segments", 1 + entropy.randbelow(2))
    world = make(entropy, **shape)
    await world.start()
    drivers = drivers or 1 + entropy.randbelow(2)
    await asyncio.gather(*(world.drive() for _ in range(drivers)), world.disturb())
    await world.finish()
    return world

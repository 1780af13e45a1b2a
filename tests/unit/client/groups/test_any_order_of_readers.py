"""Processes read a stream as a group while it scales, and they are killed, paused, cut off, and leave.

An event is handled, and once, unless whoever had it was killed or paused for so long that it was taken for
dead. What is handled of a key is in order, a checkpoint is a cut with nothing in front of it that was not
handled, and the group ends where the stream is sealed.
"""

import asyncio
import struct
from collections import defaultdict
from dataclasses import replace

import pytest
from simulated_clients import SimulatedClients

from headrace.client.groups import group_state, proposals
from headrace.client.groups.group_reader import GroupReader
from headrace.client.groups.updates import AcquireSegment, SegmentCompleted
from headrace.errors import ReaderOfflineError, ThrottledError
from headrace.model.key_space import KeyRange, split_evenly
from headrace.model.names import segment_name
from headrace.testing.network_config import NetworkConfig
from headrace.testing.simulation import simulate
from tests.effort import seeds, soak

pytestmark = pytest.mark.slow
KEYS = 8
EVENTS = 60
SHORT_S, LONG_S = (0.1, 3.0, 12.0), (45.0, 200.0)
"""Pauses after which a reader is still one of its group, and those after which it is not."""


class Readers:
    """Processes with a reader each, and what they have handled."""

    def __init__(self, seed, simulation, monkeypatch):
        self.world = SimulatedClients(seed, simulation, monkeypatch)
        self.draws = self.world.draws
        self.written = defaultdict(list)
        """By key: segment and end of each event."""
        self.handled = []
        """Reader, key and number of each event."""
        self.doomed = set()
        """Readers that may have handled what is handled again."""
        self.current = {}
        """The reader of each process, by its host."""
        self.names = iter(range(1000))
        self.is_violent = self.draws.random() < 0.5
        self.cuts = 0

    async def run(self):
        await self.world.start()
        self.world.controller.create("s", "t", self.draws.randrange(1, 4))
        async with self.world.connect() as client:
            group = await client.reader_group(
                "s/t", group="g", checkpoint_interval_s=self.draws.choice([1, 10])
            )
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.write())
                checking = tasks.create_task(self.check(group))
                async with asyncio.TaskGroup() as readers:
                    for _ in range(self.draws.randrange(2, 5)):
                        readers.create_task(self.live())
                checking.cancel()
            assert {each.name for each in await group.readers()} <= self.doomed
            assert (await group.lag()).bytes == 0
        self.judge()
        await self.world.store.stop()

    # ---- the stream

    async def write(self):
        controller, store = self.world.controller, self.world.store
        for _ in range(EVENTS):
            await asyncio.sleep(self.draws.choice([0.0, 0.01, 1.0]))
            key = self.draws.randrange(KEYS)
            current = controller.epochs["s", "t"][-1]
            (at,) = [each for each, owned in current.items() if owned.contains((key + 0.5) / KEYS)]
            segment = store.segments[segment_name("s", "t", at)]
            event = b"%d:%d" % (key, len(self.written[key]))
            segment.data += struct.pack(">ii", 0, len(event)) + event
            segment.wake()
            self.written[key].append((at, len(segment.data)))
            if self.draws.random() < 0.08:
                self.scale()
        await asyncio.sleep(self.draws.choice([0.0, 5.0]))
        controller.seal_now("s", "t")

    def scale(self):
        """Merge segments that lie beside each other, or split or replace one."""
        present = sorted(self.world.controller.epochs["s", "t"][-1].items(), key=lambda each: each[1])
        first = self.draws.randrange(len(present))
        last = self.draws.randrange(first, min(len(present), first + 3))
        whole = KeyRange(present[first][1].low, present[last][1].high)
        ids = [each for each, _ in present[first : last + 1]]
        parts = self.draws.choice([1, 2, 3]) if len(ids) == 1 else 1
        self.world.controller.scale_now("s", "t", ids, split_evenly(whole, parts))

    # ---- the processes

    async def live(self):
        """A process after another: each but the last one is killed."""
        for _ in range(self.draws.choice([1, 2]) if self.is_violent else 0):
            host = self.world.new_host()
            reading = host.spawn("read", self.read(host.name))
            await self.trouble(host, reading)
            if reading.done():
                reading.result()
                return
            self.doom(host)
            host.kill()
        host = self.world.new_host()
        reading = host.spawn("read", self.read(host.name))
        while not reading.done():
            await self.trouble(host, reading)
        reading.result()

    async def trouble(self, host, reading):
        """Let some time pass; break connections and pause the process meanwhile."""
        for _ in range(self.draws.randrange(4)):
            await asyncio.wait([reading], timeout=self.draws.choice([0.5, 5.0, 20.0]) * self.draws.random())
            if reading.done():
                return
            if self.draws.random() < 0.3:
                self.world.simulation.network.drop_connections(host.name)
            if self.draws.random() < 0.2:
                is_long = self.is_violent and self.draws.random() < 0.3
                if is_long:
                    self.doom(host)
                host.pause()
                await asyncio.sleep(self.draws.choice(LONG_S if is_long else SHORT_S))
                host.resume()

    def doom(self, host):
        self.doomed.add(self.current.get(host.name))

    async def read(self, host_name):
        """Of one process: read until the end, with one reader after another."""
        async with self.world.connect() as client:
            group = await client.reader_group("s/t", group="g")
            while True:
                name = f"reader{next(self.names)}.py"
                self.current[host_name] = name
                try:
                    async with group.reader(name) as reader:
                        if await self.consume(name, reader):
                            return
                except ReaderOfflineError:
                    assert name in self.doomed, f"{name} was put offline and is well"

    async def consume(self, name, reader):
        """Handle events; return whether it was all of them."""
        leaves_at = self.draws.choice([5, 20, 10**6, 10**6])
        slowness_s = self.draws.choice([0.0, 0.1, 2.0])
        async for event in reader:
            await asyncio.sleep(slowness_s * self.draws.random())
            key, number = map(int, event.data.split(b":"))
            self.judge_once(name, key, number)
            self.handled.append((name, key, number))
            leaves_at -= 1
            if leaves_at == 0:
                reader.handled()
                return False
        return True

    # ---- what is right

    async def check(self, group):
        for number in range(1000):
            await asyncio.sleep(self.draws.random() * 10)
            try:
                (cut,) = (await group.checkpoint(f"check{number}", timeout_s=300)).values()
            except (ThrottledError, TimeoutError):
                continue
            self.judge_cut(cut.offsets)

    def judge_once(self, name, key, number):
        others = {each[0] for each in self.handled if each[1:] == (key, number)} - self.doomed
        assert not others or name in self.doomed, f"{key}:{number} is handled twice, by {name} and {others}"

    def judge_cut(self, offsets):
        """It has each key once, or at most once behind a seal, and what is in front of it is handled."""
        self.cuts += 1
        is_at_end = ("s", "t") in self.world.controller.sealed_streams
        owners = {
            at: owned for epoch in self.world.controller.epochs["s", "t"] for at, owned in epoch.items()
        }
        handled = {(key, number) for _, key, number in self.handled}
        for key in range(KEYS):
            mine = [each for each in offsets if owners[each].contains((key + 0.5) / KEYS)]
            assert len(mine) == 1 or (is_at_end and not mine), f"no cut: key {key} is in {mine}"
            for number, (segment, end) in enumerate(self.written[key]):
                is_in_front = (
                    not mine or segment < mine[0] or (segment == mine[0] and end <= offsets[segment])
                )
                assert (key, number) in handled or not is_in_front, f"event {key}:{number} is not handled"

    def judge(self):
        everything = {(key, number) for key, ends in self.written.items() for number in range(len(ends))}
        assert {(key, number) for _, key, number in self.handled} == everything, "not all is handled"
        self.judge_order()

    def judge_order(self):
        seen, first = defaultdict(list), defaultdict(list)
        for name, key, number in self.handled:
            seen[name, key].append(number)
            if number not in first[key]:
                first[key].append(number)
        for key, numbers in first.items():
            assert numbers == sorted(numbers), f"key {key} is out of order: {numbers}"
        for (name, key), numbers in seen.items():
            assert numbers == sorted(set(numbers)), f"key {key} is out of order for {name}: {numbers}"


def run(seed, monkeypatch):
    async def scenario(simulation):
        await Readers(seed, simulation, monkeypatch).run()

    simulate(seed, scenario, network=NetworkConfig(), limit_s=36_000.0)


@pytest.mark.parametrize("seed", seeds(8))
def test_readers_of_a_group_handle_every_event_in_order(seed, monkeypatch):
    run(seed, monkeypatch)


@soak
def test_readers_of_two_hundred_groups_handle_every_event_in_order(monkeypatch):
    for seed in range(1000, 1200):
        run(seed, monkeypatch)


def convict(monkeypatch, seed, match):
    """What is wrong is told by one of the tasks that judge."""
    told = pytest.RaisesExc(AssertionError, match=match)
    with pytest.RaisesGroup(told, flatten_subgroups=True):
        run(seed, monkeypatch)


@pytest.mark.parametrize(("seed", "told"), [(9, "no cut"), (16, "is not handled")])
def test_successors_before_the_checkpoint_are_convicted(seed, told, monkeypatch):
    """A segment is reported where its end is read, though a checkpoint is to be passed."""
    passing = GroupReader._pass_checkpoints

    async def report_first(reader, now):
        await reader._report_completed()
        await passing(reader, now)

    def complete(state, reader, segment, successors):
        named, ranges = {}, {}
        for each in successors:
            address = replace(segment, segment_id=each.segment_id)
            if address not in state.offsets():
                named[address], ranges[address] = each.predecessors, each.key_range
        return [SegmentCompleted(reader, segment, named, ranges)]

    monkeypatch.setattr(GroupReader, "_pass_checkpoints", report_first)
    monkeypatch.setattr(proposals, "complete", complete)
    convict(monkeypatch, seed, told)


def test_a_segment_that_is_acquired_twice_is_convicted(monkeypatch):
    """A reader takes what is not free as well, and the state lets it."""
    acquiring = proposals.acquire

    def acquire_one_more(state, reader, distance, last_read):
        updates = acquiring(state, reader, distance, last_read)
        others = [each for owner, owned in state.assigned.items() if owner != reader for each in owned]
        return [*updates, *(AcquireSegment(reader, each) for each in others[:1])] if updates else []

    def acquire(state, update):
        owned = state.owned_by(update.reader)
        offset = state.offsets()[update.segment]
        assigned = {**state.assigned, update.reader: {**owned, update.segment: offset}}
        unassigned = {each: at for each, at in state.unassigned.items() if each != update.segment}
        return replace(state, assigned=assigned, unassigned=unassigned)

    monkeypatch.setattr(proposals, "acquire", acquire_one_more)
    monkeypatch.setitem(group_state._EFFECTS, AcquireSegment, acquire)
    convict(monkeypatch, 5, "handled twice")

"""Readers of a group in a world of plain values: a stream that scales, a log, a random order of steps.

Each reader makes its updates with the proposals of the client, of a state that may be old. Replies are lost,
readers die, others put them offline. What is wrong then is told by the judge. A ``Plan`` has the bugs that
may be planted.
"""

import random
from collections import Counter
from dataclasses import dataclass

from headrace.client.groups import proposals
from headrace.client.groups.group_codec import GroupCodec
from headrace.client.groups.group_state import GroupState, apply
from headrace.client.groups.updates import AcquireSegment, RemoveOutstandingCheckpoints, StateInit
from headrace.client.revisions.entries import encode_state, encode_updates
from headrace.client.revisions.replay import Replay
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import Successor
from headrace.errors import DataCorruptionError, PreconditionError
from headrace.model.key_space import KeyRange, any_overlap, covers_key_space
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED

RANGES = {0: (0.0, 0.5), 1: (0.5, 1.0), 2: (0.0, 0.25), 3: (0.25, 0.5), 4: (0.25, 1.0), 5: (0.0, 1.0)}
PARENTS = {2: (0,), 3: (0,), 4: (1, 3), 5: (2, 4)}
EVENTS = 4
CODEC = GroupCodec()


def address(number):
    return SegmentAddress("s", "t", number)


def successors(number):
    return [Successor(each, KeyRange(*RANGES[each]), of) for each, of in PARENTS.items() if number in of]


@dataclass
class Plan:
    """What goes wrong, and which bugs are planted."""

    kills: bool = False
    complete_at_once: bool = False
    acquire_anything: bool = False
    new_number_when_unsure: bool = False


class World:
    def __init__(self, seed, plan, readers=3):
        self.random, self.plan = random.Random(seed), plan
        config = ReaderGroupConfig(starts={"s/t": UNBOUNDED}, checkpoints_max=2)
        init = StateInit(config, {address(0): 0, address(1): 0})
        self.log = [encode_state(CODEC.encode(GroupState.begin(init)))]
        self.told = []
        self.handled = Counter()
        self.readers = [Reader(self, f"r{number}.py") for number in range(readers)]
        self.checkpoints = 0

    def tell(self, what):
        self.told.append(what)

    def run(self, steps=300):
        """Take random steps until all is read, or so many were taken; return what is wrong."""
        try:
            for _ in range(steps):
                self.step()
            self.finish()
        except DataCorruptionError as error:
            self.tell(f"poisoned: {error}")
        self.judge()
        return self.told

    def step(self):
        alive = [each for each in self.readers if each.work is not None]
        if self.plan.kills and len(alive) > 1 and self.random.random() < 0.01:
            killed = self.random.choice(alive)
            killed.work = None
            newcomer = Reader(self, f"n{len(self.readers)}.py")
            self.readers.append(newcomer)
            newcomer.update(lambda state: proposals.leave(state, killed.name, {}))
            return
        if alive:
            self.random.choice(alive).advance()

    def finish(self):
        for _ in range(400):
            for each in self.readers:
                each.advance()
            if self.readers[-1].replay.state.is_at_end:
                return

    def judge(self):
        state = self.readers[-1].fetch()
        if state.segment_count or state.future:
            self.tell("not all is read")
        for number in RANGES:
            for event in range(EVENTS):
                count = self.handled[number, event]
                if count == 0 or (count > 1 and not self.plan.kills):
                    self.tell(f"event {event} of segment {number} was handled {count} times")

    def check_cut(self, name, offsets):
        """A cut covers the key space once, with what was completed and waits for others to be followed."""
        here = {each.segment_id for each in offsets}
        reached, waiting = set(here), list(here)
        while waiting:
            following = {each.segment_id for each in successors(waiting.pop())} - reached
            reached |= following
            waiting += following
        completed = {of for number in reached - here for of in PARENTS[number]} - reached
        ranges = [KeyRange(*RANGES[number]) for number in here | completed]
        if offsets and (any_overlap(ranges) or not covers_key_space(ranges)):
            self.tell(f"checkpoint {name} is no cut: {offsets}")
        ends = {each.segment_id: EVENTS if at < 0 else at for each, at in offsets.items()}
        ends |= dict.fromkeys(completed, EVENTS)
        for number, end in ends.items():
            if not all(self.handled[number, event] for event in range(end)):
                self.tell(f"checkpoint {name} is behind what nobody has handled: {offsets}")


class Reader:
    def __init__(self, world, name):
        self.world, self.name = world, name
        self.replay = Replay(CODEC.decode_state, CODEC.decode_update, apply)
        self.read = 0
        self.inputs, self.completed = {}, {}
        self.in_hand = None
        self.work = self.live()

    def fetch(self):
        while self.read < len(self.world.log):
            self.replay.read(self.world.log[self.read], self.read + 1)
            self.read += 1
        return self.replay.state

    def update(self, make):
        """As a synchronizer does it: of what is known here, then of the newest state if that was old."""
        self.replay.needs_state and self.fetch()
        while True:
            updates = make(self.replay.state)
            if not updates:
                return self.replay.state
            state = self.replay.state
            for each in updates:
                state = apply(state, each)
            if self.read < len(self.world.log):
                self.fetch()
                continue
            self.world.log.append(encode_updates([CODEC.encode(each) for each in updates]))
            is_lost = self.world.random.random() < 0.1
            if is_lost and self.world.plan.new_number_when_unsure:
                self.fetch()
                continue
            return self.fetch()

    def advance(self):
        if self.work is None:
            return
        try:
            next(self.work)
        except StopIteration:
            self.work = None
        except PreconditionError as error:
            self.work = None
            if self.name in self.world.readers[0].fetch().assigned or not self.world.plan.kills:
                self.world.tell(f"{self.name} has stopped: {error}")

    def live(self):
        self.update(lambda state: proposals.join(state, self.name))
        yield
        while True:
            self.take()
            yield
            self.check()
            chance = self.world.random.random()
            if chance < 0.2:
                self.fetch()
            elif chance < 0.3:
                self.world.checkpoints += 1
                name = f"c{self.world.checkpoints}"
                self.update(lambda state, name=name: proposals.automatic_checkpoint(state, name))
            elif chance < 0.32:
                self.update(lambda _: [RemoveOutstandingCheckpoints()])
            elif chance < 0.5:
                self.acquire()
            yield
            if self.world.plan.complete_at_once:
                yield from self.report_completed()
            yield from self.pass_checkpoint()

    def take(self):
        """The application handles what it has, and asks for the next event."""
        if self.in_hand is not None:
            self.world.handled[self.in_hand] += 1
            self.in_hand = None
        ready = sorted(self.inputs)
        if ready and self.world.random.random() < 0.8:
            number = self.world.random.choice(ready)
            if self.inputs[number] == EVENTS:
                del self.inputs[number]
                self.completed[number] = -1
                return
            self.in_hand = number, self.inputs[number]
            self.inputs[number] += 1

    def positions(self):
        return {address(number): at for number, at in {**self.inputs, **self.completed}.items()}

    def check(self):
        owned = {address(number) for number in {*self.inputs, *self.completed}}
        proposals.check_owned(self.replay.state, self.name, owned)

    def acquire(self):
        taken = []

        def make(state):
            updates = proposals.acquire(state, self.name, 0, {})
            if self.world.plan.acquire_anything and not updates:
                updates = [AcquireSegment(self.name, each) for each in list(state.offsets())[:1]]
            taken[:] = [each.segment for each in updates if isinstance(each, AcquireSegment)]
            return updates

        state = self.update(make)
        for each in taken:
            at = state.assigned[self.name][each]
            (self.completed if at < 0 else self.inputs)[each.segment_id] = at

    def pass_checkpoint(self):
        state = self.replay.state
        name = state.checkpoints.next_for(self.name)
        if name is None:
            return
        if self.in_hand is not None:
            self.world.handled[self.in_hand] += 1
            self.in_hand = None
        positions = self.positions()
        state = self.update(lambda state: proposals.pass_checkpoint(state, self.name, name, positions))
        done = state.checkpoints.completed(name)
        if done is not None:
            self.world.check_cut(name, done)
        yield
        yield from self.report_completed()
        mine = sorted(self.inputs)
        if mine:
            yield from self.release(self.world.random.choice(mine))

    def report_completed(self):
        for number in sorted(self.completed):
            segment = address(number)
            make = self.reckless if self.world.plan.complete_at_once else proposals.complete
            state = self.update(
                lambda state, segment=segment, make=make: make(
                    state, self.name, segment, successors(segment.segment_id)
                )
            )
            if segment in state.owned_by(self.name):
                return
            del self.completed[number]
            yield

    @staticmethod
    def reckless(state, reader, segment, following):
        """Planted: it is reported though a checkpoint is to be passed before."""
        quiet = GroupState(**{**_fields(state), "checkpoints": type(state.checkpoints)()})
        return proposals.complete(quiet, reader, segment, following)

    def release(self, number):
        segment, at = address(number), self.inputs[number]
        state = self.update(lambda state: proposals.release(state, self.name, segment, at, 0, {}))
        if segment not in state.owned_by(self.name):
            del self.inputs[number]
        yield


def _fields(state):
    return {name: getattr(state, name) for name in state.__slots__}

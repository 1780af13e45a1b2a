"""Owners of one log in a bucket, as a random model of the plans and of the window, without a loop.

The store carries a call out at any time, its answer comes at any later time or never; a create whose answer
was lost may be carried out long after its owner has looked, has died or was fenced. A listing has two pages,
read at two times. Owners append, truncate, die and are followed by others, also while they live.

``Owner`` has the parts that a plant replaces.
"""

from __future__ import annotations

import random
from collections import deque

from headrace.errors import DataCorruptionError, FencedOutError, WalWriteError
from headrace.wal.objects import opening_plan, truncation_plan
from headrace.wal.objects.append_window import AppendWindow
from headrace.wal.objects.creation import Creation, Put, Step
from headrace.wal.objects.living_log import RecordChain
from headrace.wal.objects.object_format import Kind, LogObject, ObjectHeader, object_bytes
from headrace.wal.objects.object_names import Position, record_name
from headrace.wal.objects.requests import Create, Delete, Read

CONTAINER = 0
WINDOW = 2


class Bucket:
    """Calls in any order; see the module."""

    def __init__(self, rng):
        self.rng = rng
        self.objects = {}
        self.calls = []
        self.late = []
        self.loses_answers = True

    def call(self, owner, effect, answer, lost=None):
        """``lost``: what a caller gets whose answer is lost; None: it never is."""
        self.calls.append([owner, effect, answer, lost])

    def step(self):
        if self.late and (not self.calls or self.rng.random() < 0.05):
            self.late.pop(self.rng.randrange(len(self.late)))()
            return True
        if not self.calls:
            return False
        call = self.calls.pop(self.rng.randrange(len(self.calls)))
        owner, effect, answer, lost = call
        if effect is None:
            owner.take(answer)
        elif lost is not None and self.loses_answers and self.rng.random() < 0.2:
            if self.rng.random() < 0.6:
                self.late.append(effect)
            elif self.rng.random() < 0.5:
                effect()
            owner.take(lambda: answer(lost))
        else:
            result = effect()
            self.calls.append([owner, None, lambda: answer(result), None])
        return True

    # ---- effects

    def create(self, name, found):
        if name in self.objects:
            return Put.EXISTS
        self.objects[name] = found
        return Put.CREATED

    def page(self, prefix, pivot, *, first):
        return {
            name: object_bytes(found)
            for name, found in self.objects.items()
            if name.startswith(prefix) and (name < pivot) == first
        }


class Owner:
    """Opens a log, reads it, then uses it."""

    Window = AppendWindow
    Creation = Creation
    first_sequence = 0

    def __init__(self, world, number):
        self.world = world
        self.bucket = world.bucket
        self.write_id = bytes([number]) * 16
        self.state = "opening"
        self.taken = None
        self.recovered = []
        self.appended = 0
        self.is_truncating = False
        self.run(self.plan_open(), self.on_taken)

    def take(self, answer):
        if self.state != "dead":
            answer()

    # ---- plans

    def plan_open(self):
        return opening_plan.open_log(CONTAINER, self.write_id, WINDOW)

    def plan_truncate(self, address):
        taken = self.taken
        return truncation_plan.truncate_log(taken.living, taken.garbage, taken.container_epoch, address)

    def plan_read(self):
        """Read all; a record that is missing may have been truncated by a former owner."""
        chain = RecordChain(self.taken.living.head)
        for record in list(self.taken.living.records):
            name = record_name(CONTAINER, record.position)
            [found] = yield [Read(name, record.length)]
            if found is None:
                listing = yield from opening_plan.list_names("0/h")
                if opening_plan.parse_listing(listing, CONTAINER).head != self.taken.living.head:
                    raise WalWriteError("truncated meanwhile")
                raise DataCorruptionError("missing", path=name)
            record.address = found.header.address
            self.recovered += [(address, bytes(frame)) for address, frame in chain.frames_of(found, name)]

    def run(self, plan, on_result, answers=None):
        try:
            requests = plan.send(answers)
        except StopIteration as end:
            on_result(end.value)
            return
        except (FencedOutError, WalWriteError):
            self.state = "ended"
            return
        except DataCorruptionError as error:
            self.state = "ended"
            self.world.bad.append(f"corruption: {error}")
            return
        found = [None] * len(requests)
        left = [len(requests)]

        def answer_of(index):
            def answer(result):
                found[index] = result
                left[0] -= 1
                if not left[0]:
                    self.run(plan, on_result, found)

            return answer

        for index, request in enumerate(requests):
            self.make(request, answer_of(index))

    def make(self, request, answer):
        bucket, objects = self.bucket, self.bucket.objects
        match request:
            case Create(name, header):
                self.create(name, LogObject(header, []), lambda creation: answer(creation.found))
            case Read(name):
                bucket.call(self, lambda: objects.get(name), answer)
            case Delete(name):
                bucket.call(self, lambda: (objects.pop(name, None), True)[1], answer, lost=False)
            case _:
                self.list(request.prefix, answer)

    def list(self, prefix, answer):
        names = sorted(self.bucket.objects)
        pivot = self.bucket.rng.choice(names) if names else ""
        pages = [{}]

        def second(page):
            pages.append(page)
            answer(pages[0] | pages[1])

        def first(page):
            pages[0] = page
            self.bucket.call(self, lambda: self.bucket.page(prefix, pivot, first=False), second)

        self.bucket.call(self, lambda: self.bucket.page(prefix, pivot, first=True), first)

    def create(self, name, found, on_end):
        creation = self.Creation(found.header)

        def go():
            match creation.step:
                case Step.PUT:
                    self.bucket.call(self, lambda: self.bucket.create(name, found), on_put, lost=Put.UNKNOWN)
                case Step.LOOK:
                    self.bucket.call(self, lambda: self.bucket.objects.get(name), on_look)
                case Step.GIVE_UP:
                    self.state = "ended"
                case _:
                    on_end(creation)

        def on_put(outcome):
            creation.on_put(outcome)
            go()

        def on_look(there):
            creation.on_look(there)
            go()

        go()

    # ---- life

    def on_taken(self, taken):
        self.taken = taken
        self.run(self.plan_read(), self.on_read)

    def on_read(self, _):
        self.window = self.Window(
            next_address=self.taken.living.next_address, window=WINDOW, record_bytes_max=20
        )
        self.state = "open"
        self.world.on_open(self)

    @property
    def epoch(self):
        return self.taken.container_epoch

    def append(self):
        if self.state != "open" or self.window.failure is not None or self.window.frames_pending > 6:
            return
        self.appended += 1
        content = b"%d-%d" % (self.epoch, self.appended)
        address = self.window.add((self.window.next_address, content), len(content))
        self.world.contents.setdefault(content, address)
        self.create_next()

    def create_next(self):
        while (record := self.window.next_record()) is not None:
            self.create_record(record)

    def create_record(self, record):
        position = Position(self.epoch, record.sequence + self.first_sequence)
        header = ObjectHeader(
            Kind.RECORD, CONTAINER, *position, record.address, record.acknowledged, self.write_id
        )
        frames = [memoryview(content) for _, content in record.frames]

        def on_end(creation):
            if creation.step is Step.OURS:
                self.window.on_created(record)
            else:
                self.window.on_failed(record, FencedOutError("fenced"))
            self.answer()
            self.create_next()

        self.create(record_name(CONTAINER, position), LogObject(header, frames), on_end)

    def answer(self):
        while True:
            frames, record = self.window.next_answered()
            if not frames:
                return
            if record is not None:
                header = ObjectHeader(Kind.RECORD, CONTAINER, self.epoch)
                length = object_bytes(LogObject(header, [memoryview(content) for _, content in frames]))
                self.taken.living.add(length, len(frames))
                for address, content in frames:
                    self.world.on_ack(self, address, content)

    def truncate(self):
        if self.state != "open" or self.is_truncating:
            return
        low, high = self.taken.living.head.address, self.taken.living.next_address
        address = self.bucket.rng.randint(low, high)
        self.world.truncated = max(self.world.truncated, address)
        self.is_truncating = True

        def on_end(_):
            self.is_truncating = False

        self.run(self.plan_truncate(address), on_end)


class World:
    """One run; ``bad`` are the violations."""

    def __init__(self, seed, make_owner=Owner):
        self.rng = random.Random(seed)
        self.bucket = Bucket(self.rng)
        self.make_owner = make_owner
        self.bad = []
        self.owners = deque()
        self.acks = []
        self.contents = {}
        self.truncated = 0
        self.newest = None

    def on_ack(self, owner, address, content):
        self.acks.append((address, content))
        if self.newest is None or owner.epoch >= self.newest.epoch or address < self.truncated:
            return
        if (address, content) not in self.newest.recovered:
            self.bad.append(f"{content} is acknowledged, and {self.newest.epoch} has not recovered it")

    def on_open(self, owner):
        recovered = owner.recovered
        if self.newest is None or owner.epoch > self.newest.epoch:
            self.newest = owner
        addresses = [address for address, _ in recovered]
        if addresses != sorted(set(addresses)):
            self.bad.append(f"doubled or out of order: {recovered}")
        for address, content in self.acks:
            of_former = int(content.split(b"-")[0]) < owner.epoch
            if of_former and address >= self.truncated and (address, content) not in recovered:
                self.bad.append(f"lost by {owner.epoch}: {content} at {address}")
        if any(content not in self.contents for _, content in recovered):
            self.bad.append(f"nobody wrote {recovered}")

    def act(self):
        chance = self.rng.random()
        alive = [owner for owner in self.owners if owner.state != "dead"]
        if chance < 0.015 and len(self.owners) < 5:
            self.owners.append(self.make_owner(self, len(self.owners) + 1))
        elif chance < 0.025 and len(alive) > 1:
            self.rng.choice(alive).state = "dead"
        elif chance < 0.05 and alive:
            self.rng.choice(alive).truncate()
        elif chance < 0.35 and alive:
            self.rng.choice(alive).append()
        else:
            self.bucket.step()

    def run(self, steps=500):
        for _ in range(steps):
            self.act()
            if self.bad:
                return self.bad
        for owner in self.owners:
            owner.state = "dead"
        self.bucket.loses_answers = False
        for number in range(90, 93):
            last = self.make_owner(self, number)
            self.settle()
            if last.state == "open":
                break
        before = len(self.acks)
        last.append()
        self.settle()
        if not self.bad and len(self.acks) == before:
            self.bad.append(f"the last owner is {last.state} and does not append")
        return self.bad

    def settle(self):
        for _ in range(5_000):
            if not self.bucket.step():
                break

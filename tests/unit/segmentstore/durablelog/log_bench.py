"""One container's durable log with everything a test wants to see."""

import asyncio

from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.runtime.clock import SystemClock
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from tests.unit.segmentstore.durablelog.memory_wal import ScriptedWal


class BytesIndex:
    """A read index that only remembers: segment id -> bytes from the first offset it was given."""

    def __init__(self):
        self.data = {}
        self.unstored = 0
        self.set_aside_bytes = 0
        self.roomy = True
        self.pressure = 0.0
        self.changed = []

    def append(self, segment, offset, data):
        base, known = self.data.setdefault(segment.segment_id, (offset, bytearray()))
        assert base + len(known) == offset, "appends are contiguous"
        assert offset + len(data) <= segment.durable_length, "who waits is woken below the durable length"
        known += data

    def begin_merge(self, target, offset, source, length):
        _, known = self.data.setdefault(target.segment_id, (offset, bytearray()))
        known += self.data.get(source.segment_id, (0, b""))[1]

    def set_aside(self, change_bytes):
        self.set_aside_bytes += change_bytes
        assert self.set_aside_bytes >= 0

    def has_free_capacity(self):
        return self.roomy

    def on_changed(self, segment):
        self.changed.append((segment.name, segment.sealed, segment.merged, segment.deleted))

    def free_unneeded(self, segment):
        """It remembers everything: tests compare that."""

    def unstored_bytes(self):
        return self.unstored

    def cache_pressure(self):
        return self.pressure

    def content(self, segment):
        return bytes(self.data.get(segment.segment_id, (0, b""))[1])


class Owner:
    def __init__(self, number):
        self.writer_id = number.to_bytes(16, "big")
        self.acks = []
        self.failures = []

    def on_durable(self, last_event_number, request_id, segment_length):
        self.acks.append((last_event_number, request_id, segment_length))

    def on_failed(self, error):
        self.failures.append(error)


class Bench:
    """One container's durable log with everything a test wants to see."""

    def __init__(self, records=None, auto=False, limits=None, memory_log_max=1000, policy=None, **wal):
        self.wal = ScriptedWal(records=records, auto=auto, **wal)
        self.state = ContainerState(3)
        self.index = BytesIndex()
        self.failed = []
        self.log = DurableLog(
            self.state,
            self.wal,
            self.index,
            SystemClock(),
            Supervisor("test"),
            memory_log_max=memory_log_max,
            limits=limits or ProcessorLimits(),
            policy=policy or CheckpointPolicy(10**9, 10**9),
            checkpoint_part_bytes=100,
            on_failed=self.failed.append,
        )

    async def start(self):
        starting = asyncio.ensure_future(self.log.start(lambda rows: None))
        while not starting.done():
            await self.settle()
        await starting
        return self

    async def settle(self):
        for _ in range(3):
            await asyncio.sleep(0)
        while self.wal.waiting and not self.wal.auto:
            self.wal.step()
            await asyncio.sleep(0)

    @property
    def is_idle(self):
        """Whether everything accepted is durable, and nothing waits."""
        found = self.log.processor.statistics()
        waiting = found.requests_queued + found.connections_waiting
        return not waiting and self.wal.frames_free == self.wal.frames_total

    async def map(self, name):
        future = self.log.submit(lambda seq: transitions.propose_map(self.state, seq, name, {}))
        await self.settle()
        await future
        return self.state.get(name)

    def append(self, segment, owner, data, *, previous=None, last, count=1, expected=-1, request=0):
        if previous is None:
            previous = segment.attributes.accepted.get(owner.writer_id, ATTRIBUTE_NULL)
        self.log.processor.append_block(
            segment, owner, [memoryview(data)], len(data), previous, last, count, request, expected
        )

    async def recover(self):
        return await Bench(records=list(self.wal.stored), frame_bytes=self.wal.frame_bytes_max).start()

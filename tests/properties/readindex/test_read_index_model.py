"""The read index against a bytearray per segment, in a cache of a few blocks, everything going on at once."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import (
    ContainerOfflineError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadError,
)
from headrace.limits import KIB
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.state.segment_state import SegmentState
from tests.effort import examples
from tests.simulation.replaced_constants import replaced
from tests.simulation.worlds.read_index_world import BLOCK, SMALL_SIZES, World, settle, small_cache

SIZES = st.sampled_from([1, 100, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 20_000, 40_000])
SHARES = st.sampled_from([0, 0.1, 0.3, 0.5, 0.8, 0.99, 1])
PICK = st.integers(0, 1 << 16)


@dataclass(slots=True)
class Reading:
    """A read under way."""

    segment: SegmentState
    offset: int
    task: asyncio.Task[ReadResult]


class ReadIndexModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.random = random.Random(4711)
        self.small = contextlib.ExitStack()
        self.small.enter_context(replaced(SMALL_SIZES))
        self.readings: list[Reading] = []
        self.held: list[tuple[ReadResult, bytes]] = []
        self.pending: dict[SegmentState, list[tuple[int, SegmentState]]] = {}
        self.names = 0

    @initialize(blocks=st.sampled_from([4, 8, 24, 70]), fetches=st.sampled_from([1, 2, 8]))
    def open(self, blocks: int, fetches: int) -> None:
        async def make() -> World:
            return World(small_cache(blocks), fetches_max=fetches)

        self.fetches = fetches
        self.world = self.run(make())
        self.segments: list[SegmentState] = []
        self.create()
        self.create()

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    def pick(self, choice: int) -> SegmentState:
        return self.segments[choice % len(self.segments)]

    # ------------------------------------------------------------------------------ changes

    @rule()
    @precondition(lambda self: len(self.segments) < 6)
    def create(self) -> None:
        self.names += 1
        self.segments.append(self.world.create(f"s{self.names}"))

    @rule(size=SIZES)
    @precondition(lambda self: len(self.segments) < 6)
    def create_stored(self, size: int) -> None:
        self.names += 1
        self.segments.append(self.world.create_stored(f"s{self.names}", 3 * size))

    @rule(choice=PICK, size=SIZES, stalled=st.sampled_from([False, False, False, True]))
    def append(self, choice: int, size: int, stalled: bool) -> None:
        segment = self.pick(choice)
        if segment.sealed or segment.durable_length > 300_000:
            return
        if not stalled:
            self._make_room()
        data = self.random.randbytes(size)
        self.loop.call_soon(lambda: None)
        self.run(self._append(segment, data))

    async def _append(self, segment: SegmentState, data: bytes) -> None:
        self.world.append(segment, data)

    def _make_room(self) -> None:
        """Store what there is, as a server does, if the cache holds much that it must not let go."""
        if self.world.cache.shared_pressure() > 0.4:
            for number in range(2 * len(self.segments)):
                self.storage_writer(number, 1.0)

    @rule(choice=PICK, share=SHARES)
    def storage_writer(self, choice: int, share: float) -> None:
        """Write some bytes, or complete the next merge once its turn has come."""
        segment = self.pick(choice)
        merges = self.pending.get(segment, [])
        limit = merges[0][0] if merges else segment.durable_length
        if merges and segment.stored_length == limit:
            self.run(self._complete_merge(segment, merges))
        else:
            length = segment.stored_length + round((limit - segment.stored_length) * share)
            self.run(self._store(segment, length))

    async def _store(self, segment: SegmentState, length: int) -> None:
        self.world.store(segment, length)

    async def _complete_merge(self, target: SegmentState, merges: list[tuple[int, SegmentState]]) -> None:
        _, source = merges.pop(0)
        self.world.join_in_storage(target, source)
        await settle()
        self.world.complete_merge(target, source)
        del self.world.bytes[source]

    @rule(choice=PICK, share=st.sampled_from([0, 0, 0, 0.1, 0.5, 1]))
    def truncate(self, choice: int, share: float) -> None:
        segment = self.pick(choice)
        span = segment.durable_length - segment.start_offset
        self.run(self._truncate(segment, segment.start_offset + round(span * share)))

    async def _truncate(self, segment: SegmentState, offset: int) -> None:
        self.world.truncate(segment, offset)

    @rule(choice=PICK, share=SHARES, size=SIZES, stalled=st.booleans())
    def truncate_and_append_in_one_frame(self, choice: int, share: float, size: int, stalled: bool) -> None:
        """The state has the truncation at once, the index hears of it at the end of the frame."""
        segment = self.pick(choice)
        offset = segment.start_offset + round((segment.stored_length - segment.start_offset) * share)
        segment.accepted_start_offset = segment.start_offset = max(offset, segment.start_offset)
        self.append(choice, size, stalled)
        self.run(self._truncate(segment, segment.start_offset))

    @rule(choice=PICK)
    def seal(self, choice: int) -> None:
        segment = self.pick(choice)
        if len([other for other in self.segments if not other.sealed]) > 2:
            self.run(self._seal(segment))

    async def _seal(self, segment: SegmentState) -> None:
        self.world.seal(segment)

    @rule(first=PICK, second=PICK)
    def begin_merge(self, first: int, second: int) -> None:
        target, source = self.pick(first), self.pick(second)
        if (
            target is source
            or target.sealed
            or self.pending.get(source)
            or source.start_offset
            or not source.durable_length
        ):
            return
        self.segments.remove(source)
        self.pending.setdefault(target, []).append((target.durable_length, source))
        self.run(self._begin_merge(target, source))
        if len(self.segments) < 2:
            self.create()

    async def _begin_merge(self, target: SegmentState, source: SegmentState) -> None:
        self.world.begin_merge(target, source)

    @rule(choice=PICK)
    @precondition(lambda self: len(self.segments) > 4)
    def delete(self, choice: int) -> None:
        segment = self.segments.pop(choice % len(self.segments))
        self.run(self._delete(segment))

    async def _delete(self, segment: SegmentState) -> None:
        self.world.delete(segment)
        for _, source in self.pending.pop(segment, []):
            self.world.delete(source)
            del self.world.bytes[source]

    @rule(cut=SHARES)
    @precondition(lambda self: self.names % 3 == 0)
    def recover(self, cut: float) -> None:
        """The container ends and is recovered: what the log still holds comes again, from somewhere at or
        below what is stored.
        """
        self._make_room()
        self.run(self._recover(cut))

    async def _recover(self, cut: float) -> None:
        world = self.world
        self.release_views()  # they would share the small cache with what is replayed
        world.index.close()
        await self._finish_readings()
        world.index = ContainerReadIndex(world.cache, world.storage, world.supervisor, world.index._config)
        for segment in self.segments:
            for _, source in self.pending.get(segment, []):
                self._replay(source, cut)
            self._replay(segment, cut)

    def _replay(self, segment: SegmentState, cut: float) -> None:
        world = self.world
        content = memoryview(bytes(world.bytes[segment]))
        begin = round(segment.stored_length * cut)
        merges = self.pending.get(segment, [])
        for offset, source in [*merges, (segment.durable_length, None)]:
            if begin < offset:
                world.index.append(segment, begin, content[begin:offset])
            if source is not None:
                world.index.begin_merge(segment, offset, source, source.durable_length)
                begin = offset + source.durable_length
        world.index.on_changed(segment)

    # ------------------------------------------------------------------------------ storage behaves badly

    @rule()
    def storage_hangs(self) -> None:
        self.world.storage.stall()

    @rule()
    def storage_answers(self) -> None:
        self.world.storage.resume()
        self.run(settle())
        self.run(self._finish_readings(wait=False))

    @rule(warm=st.sampled_from([0, 5000, 50_000, 1 << 30]), block=st.sampled_from([64, 1000, 16 * KIB]))
    def storage_gets_warm(self, warm: int, block: int) -> None:
        self.world.storage.warm_bytes = warm
        self.world.storage.block_bytes = block

    @rule(count=st.integers(1, 3))
    def storage_fails(self, count: int) -> None:
        self.world.storage.failures = count

    # ------------------------------------------------------------------------------ reads

    @rule(choice=PICK, share=SHARES, size=SIZES, wait=st.booleans())
    def start_read(self, choice: int, share: float, size: int, wait: bool) -> None:
        if len(self.readings) < 8:
            self.run(self._start_read(self.pick(choice), share, size, wait))

    async def _start_read(self, segment: SegmentState, share: float, size: int, wait: bool) -> None:
        offset = segment.start_offset + round((segment.durable_length - segment.start_offset) * share)
        task = asyncio.ensure_future(self.world.index.read(segment, offset, size, wait=wait))
        self.readings.append(Reading(segment, offset, task))
        await settle()

    @rule(choice=PICK)
    @precondition(lambda self: self.readings)
    def cancel_read(self, choice: int) -> None:
        reading = self.readings.pop(choice % len(self.readings))
        reading.task.cancel()
        self.run(settle())
        if not reading.task.cancelled() and reading.task.exception() is None:
            reading.task.result().release()

    @rule(choice=PICK, step=st.sampled_from([BLOCK, 10_000]))
    def read_through(self, choice: int, step: int) -> None:
        """Read a segment from start to end, as a batch reader does."""
        segment = self.pick(choice)
        world = self.world
        world.storage.resume()
        world.storage.failures = 0
        if self.pending.get(segment) and any(
            source.storage_name not in world.storage.segments for _, source in self.pending[segment]
        ):
            return
        position = segment.start_offset
        while position < segment.durable_length:
            data = self.run(world.read(segment, position, step))
            assert data
            assert data == world.bytes[segment][position : position + len(data)]
            position += len(data)

    @rule(choice=PICK, size=SIZES)
    def tail_is_in_memory(self, choice: int, size: int) -> None:
        """Bytes that storage does not hold are answered at once, unless they come from a merge."""
        segment = self.pick(choice)
        offset = segment.durable_length - min(size, segment.durable_length - segment.stored_length)
        offset = max(offset, segment.start_offset)
        if offset == segment.durable_length or self.pending.get(segment):
            return
        result = self.run(self._read_now(segment, offset, size))
        assert result is not None
        assert result.length == segment.durable_length - offset
        assert result.to_bytes() == self.world.bytes[segment][offset:]

    @rule(choice=PICK, share=SHARES, size=SIZES)
    def hold_views(self, choice: int, share: float, size: int) -> None:
        segment = self.pick(choice)
        offset = segment.start_offset + int((segment.durable_length - segment.start_offset) * share)
        result = self.run(self._read_now(segment, offset, size))
        if result is not None:
            expected = bytes(self.world.bytes[segment][offset : offset + result.length])
            if len(self.held) >= 4:
                result.release()
            else:
                self.held.append((result, expected))

    async def _read_now(self, segment: SegmentState, offset: int, size: int) -> ReadResult | None:
        """Read what is in memory; on the loop, for it may begin to read ahead."""
        return self.world.index.read_nowait(segment, offset, size)

    @rule()
    def release_views(self) -> None:
        for result, expected in self.held:
            assert result.to_bytes() == expected
        self.held.clear()

    async def _finish_readings(self, *, wait: bool = True) -> None:
        """Check the reads that have ended; with ``wait`` all have to end."""
        if wait and self.readings:
            await asyncio.wait([reading.task for reading in self.readings], timeout=5)
        left = []
        for reading in self.readings:
            if reading.task.done():
                self._check_reading(reading)
            else:
                left.append(reading)
        assert not (wait and left)
        self.readings = left

    def _check_reading(self, reading: Reading) -> None:
        segment, offset = reading.segment, reading.offset
        gone = segment.deleted or segment.merged
        error = reading.task.exception()
        match error:
            case None:
                result = reading.task.result()
                data = result.to_bytes()
                if not gone:
                    assert data == self.world.bytes[segment][offset : offset + len(data)]
                    if result.end_of_segment:
                        assert segment.sealed
                        assert offset + len(data) == segment.durable_length
            case NoSuchSegmentError():
                assert gone
            case SegmentTruncatedError():
                assert offset < segment.start_offset
            case SegmentSealedError():
                assert segment.sealed
                assert offset == segment.durable_length
            case StorageReadError() | ContainerOfflineError() | InvalidArgumentError():
                pass
            case _:
                raise error

    # ------------------------------------------------------------------------------ always

    @invariant()
    def everything_adds_up(self) -> None:
        if hasattr(self, "world"):
            self.world.check()
            unstored = self.world.index.statistics().unstored_bytes
            assert unstored <= self.world.cache.statistics().bytes_max + 2 * BLOCK * 20

    def teardown(self) -> None:
        try:
            if hasattr(self, "world"):
                self.release_views()
                self.world.index.close()
                self.run(self._finish_readings())
                self.run(self.world.close())
                assert self.world.cache.statistics().used_bytes == 0
                assert self.world.cache.statistics().pinned_bytes == 0
        finally:
            self.small.close()
            self.loop.close()


TestReadIndexModel = ReadIndexModel.TestCase
TestReadIndexModel.settings = settings(
    max_examples=examples(60),
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

"""Read indexes of two containers on one small cache, called directly: whatever changes what is cached, and
readers of every kind in between.

Storage is the stand-in of ``read_index_world``: it stalls, fails, is slow, damaged, or has bytes
at hand. Every byte that is answered is compared with what was appended, at once or after it was lent for a
while; every refusal must follow from the segment; in the end no read waits without reason, and all memory of
the cache is free.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from headrace.errors import (
    ContainerOfflineError,
    DataCorruptionError,
    NoSuchSegmentError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadError,
)
from headrace.limits import KIB
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.testing.simulation import Simulation
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.replaced_constants import replaced
from tests.simulation.workloads.draws import choose, weigh
from tests.simulation.worlds.read_index_world import BLOCK, SMALL_SIZES, World, small_cache

CONTAINERS: Final = 2
STEPS: Final = 300

#: What may be left out of a run.
FAULTS: Final = ("cancel", "damage", "evict", "fail", "hang", "slow", "warm")

_NAMES: Final = tuple(f"s{number}" for number in range(8))
_SEGMENTS_MAX: Final = 6
_SEGMENT_BYTES_MAX: Final = 400_000
_READINGS_MAX: Final = 12
_UNRELEASED_MAX: Final = 6
_STORAGE_TIMEOUT_S: Final = 5.0

#: So long that everything has happened that can.
_MOMENT_S: Final = 0.001

#: What happens how often: in every run, and most of the time in those where readers are what matters.
_MIXED: Final = weigh(
    create=5, append=14, store=10, truncate=6, seal=2, merge=5, delete=2, evict=3, hang=2, answer=6, warm=4,
    fail=1, damage=1, slow=1, time=1, cancel=4, fall_behind=1, read_on=17, read_somewhere=15, release=5,
)  # fmt: skip
_READERS: Final = weigh(warm=1, fall_behind=1, read_on=10, read_somewhere=1, answer=1, release=1)


@dataclass(slots=True, eq=False)
class Reading:
    """A read in flight, with all bytes that its segment ever had."""

    home: _Container
    segment: SegmentState
    content: bytearray
    offset: int
    length_max: int
    wait: bool
    has_bytes: bool
    """Whether there was something to answer when it began."""
    task: asyncio.Task[ReadResult]


class _Container:
    """One container: its world, and its segments by role."""

    def __init__(self, cache: BlockCache, entropy: SeededEntropy) -> None:
        self.world = World(
            cache, fetches_max=choose(entropy, (1, 2, 8)), storage_timeout_s=_STORAGE_TIMEOUT_S
        )
        self.segments: list[SegmentState] = []
        self.merges: dict[SegmentState, list[tuple[int, SegmentState]]] = {}
        """Sources that storage has still to join into a target, with the offsets where they begin there."""
        self.cursors: dict[SegmentState, int] = {}
        self.is_troubled = False
        """Whether storage has been slow, damaged or failing at some time."""
        self.is_closed = False

    def limit_of(self, segment: SegmentState) -> int:
        """Return how far storage can get before a merge has to be completed."""
        merges = self.merges.get(segment)
        return merges[0][0] if merges else segment.durable_length

    def store(self, segment: SegmentState, length: int) -> None:
        if length > segment.stored_length:
            self.world.store(segment, length)

    def store_all(self) -> None:
        """Store what can be stored without completing a merge; of sources as well."""
        sources = [source for merges in self.merges.values() for _, source in merges]
        for segment in self.segments + sources:
            self.store(segment, self.limit_of(segment))


class Turmoil:
    """Containers on one cache, and what a seed does to them."""

    def __init__(self, entropy: SeededEntropy, containers: int, without: frozenset[str]) -> None:
        self.entropy = entropy
        self._readers_matter = entropy.randbelow(5) < 3
        if self._readers_matter:
            # What they fetch fills the cache, and hardly more of it is there than they are about to need.
            blocks, history_share = choose(entropy, (20, 24, 24, 32)), choose(entropy, (1, 1, 1, 0.5))
        else:
            blocks, history_share = choose(entropy, (24, 70, 200, 600)), choose(entropy, (0.1, 0.25, 0.5))
        self.cache = small_cache(
            blocks,
            history_share_max=history_share,
            pinned_share_max=choose(entropy, (0.25, 0.25, 1) if self._readers_matter else (0.1, 0.25, 1)),
        )
        self.homes = [_Container(self.cache, entropy) for _ in range(containers)]
        self.readings: list[Reading] = []
        self.unreleased: list[tuple[ReadResult, bytes]] = []
        """Answers that a slow reader has not released, with the bytes they must contain."""
        self.judged = 0
        self.iterations = (0, 1, 3, 10) if self._readers_matter else (0, 0, 1, 2, 3, 10)
        """Iterations of the loop between two steps."""
        self.sizes = (
            (BLOCK, 8 * KIB, 8 * KIB) if self._readers_matter else (500, 2_000, BLOCK, 16 * KIB, 40_000)
        )
        """Sizes of sequential reads."""
        self._without = without

    async def step(self) -> None:
        home = choose(self.entropy, self.homes)
        readers = self._readers_matter and self.entropy.randbelow(20) > 0
        action = choose(self.entropy, _READERS if readers else _MIXED)
        if len(home.segments) < 2:
            action = "create"
        if action not in self._without:
            await getattr(self, f"_{action}")(home)

    # ---- what is done to segments

    async def _create(self, home: _Container) -> None:
        if len(home.segments) == _SEGMENTS_MAX:
            return
        taken = {segment.name for segment in home.segments}
        name = choose(self.entropy, [name for name in _NAMES if name not in taken])
        if self._readers_matter:
            home.segments.append(home.world.create_stored(name, choose(self.entropy, (100_000, 400_000))))
        elif self.entropy.randbelow(2):
            home.segments.append(home.world.create(name))
        else:
            length = choose(self.entropy, (3_000, 30_000, 100_000, 200_000, 1_500_000))
            home.segments.append(home.world.create_stored(name, length))

    async def _append(self, home: _Container) -> None:
        segment = choose(self.entropy, home.segments)
        if segment.sealed or segment.durable_length > _SEGMENT_BYTES_MAX:
            return
        if self.cache.shared_pressure() > 0.3:
            home.store_all()
        size = choose(self.entropy, (1, 100, 1_000, BLOCK - 1, BLOCK, 3 * BLOCK, 20_000))
        if self.cache.spare_bytes >= size + 32 * BLOCK:  # else a container would let it wait
            home.world.append(segment, self.entropy.token(size))

    async def _store(self, home: _Container) -> None:
        """Write some bytes, or complete the next merge if it is next."""
        segment = choose(self.entropy, home.segments)
        limit = home.limit_of(segment)
        if home.merges.get(segment) and segment.stored_length == limit:
            await self._complete_merge(home, segment)
        else:
            share = choose(self.entropy, (0.0, 0.3, 0.9, 1.0))
            home.store(segment, segment.stored_length + round((limit - segment.stored_length) * share))

    async def _complete_merge(self, home: _Container, target: SegmentState) -> None:
        _, source = home.merges[target].pop(0)
        home.world.join_in_storage(target, source)
        await self.pause(self.entropy.randbelow(6))
        home.world.complete_merge(target, source)
        del home.world.bytes[source]

    async def _truncate(self, home: _Container) -> None:
        segment = choose(self.entropy, home.segments)
        share = choose(self.entropy, (0.0, 0.0, 0.1, 0.5, 1.0))
        offset = segment.start_offset + round((segment.durable_length - segment.start_offset) * share)
        home.world.truncate(segment, offset)
        if self.entropy.randbelow(3) and not home.merges.get(segment):
            home.world.truncate_in_storage(segment, min(offset, segment.stored_length))

    async def _seal(self, home: _Container) -> None:
        if sum(not segment.sealed for segment in home.segments) > 2:
            home.world.seal(choose(self.entropy, home.segments))

    async def _merge(self, home: _Container) -> None:
        target, source = choose(self.entropy, home.segments), choose(self.entropy, home.segments)
        if target is source or target.sealed or home.merges.get(source):
            return
        if source.start_offset or not source.durable_length:
            return
        home.segments.remove(source)
        home.merges.setdefault(target, []).append((target.durable_length, source))
        home.world.begin_merge(target, source)

    async def _delete(self, home: _Container) -> None:
        if len(home.segments) < 4:
            return
        segment = choose(self.entropy, home.segments)
        home.segments.remove(segment)
        for gone in (segment, *(source for _, source in home.merges.pop(segment, []))):
            home.world.delete(gone)
            del home.world.bytes[gone]

    async def _evict(self, home: _Container) -> None:
        """Evict an idle segment, and activate it. Answers with its bytes stay lent."""
        segment = choose(self.entropy, home.segments)
        used = any(reading.segment is segment for reading in self.readings)
        if not used and segment.is_settled and not home.merges.get(segment):
            home.segments[home.segments.index(segment)] = home.world.evict(segment)

    # ---- what storage does

    async def _hang(self, home: _Container) -> None:
        home.world.storage.stall()

    async def _answer(self, home: _Container) -> None:
        home.world.storage.resume()

    async def _warm(self, home: _Container) -> None:
        storage = home.world.storage
        storage.warm_bytes = choose(self.entropy, (0, 0, 3_000, 8_000, 50_000, 1 << 30))
        storage.warm_period = choose(self.entropy, (0, 16_384, 24_000, 50_000))
        storage.block_bytes = choose(self.entropy, (64, 1_000, 2_000))

    async def _fail(self, home: _Container) -> None:
        home.world.storage.failures = self.entropy.randbelow(3)
        home.is_troubled = True

    async def _damage(self, home: _Container) -> None:
        home.world.storage.short_answers = self.entropy.randbelow(2)
        home.is_troubled = True

    async def _slow(self, home: _Container) -> None:
        home.world.storage.bytes_per_s = choose(self.entropy, (0, 5_000, 100_000))
        home.is_troubled = True

    async def _time(self, _: _Container) -> None:
        """Let so much time pass that stalled reads exceed their timeout."""
        for other in self.homes:
            other.is_troubled |= other.world.storage.is_stalled
        await asyncio.sleep(choose(self.entropy, (0.5, 2 * _STORAGE_TIMEOUT_S)))

    # ---- what readers do

    async def _read_on(self, home: _Container) -> None:
        """Read where the last such read has ended, as a sequential reader does."""
        self._go_on(home, choose(self.entropy, home.segments))

    async def _fall_behind(self, home: _Container) -> None:
        """Read sequentially, let other readers work for a while, and go on when storage has changed."""
        segment = choose(self.entropy, home.segments)
        self._go_on(home, segment)
        rest = [(home, other) for home in self.homes for other in home.segments if other is not segment]
        for _ in range(self.entropy.randbelow(20)):
            self._go_on(*choose(self.entropy, rest))
            await asyncio.sleep(_MOMENT_S)
            self.judge()
        if "warm" not in self._without:
            home.world.storage.warm_bytes = choose(self.entropy, (0, 1 << 30))
        self._go_on(home, segment)

    def _go_on(self, home: _Container, segment: SegmentState) -> None:
        offset = home.cursors.get(segment, 0)
        if not segment.start_offset <= offset < segment.durable_length:
            offset = segment.start_offset
        size = choose(self.entropy, self.sizes)
        result = home.world.index.read_nowait(segment, offset, size)
        if result is None:
            self._start(home, segment, offset, size, wait=False)
            home.cursors[segment] = offset + size
        else:
            home.cursors[segment] = offset + result.length
            self._compare(result, home.world.bytes[segment], offset, size)

    async def _read_somewhere(self, home: _Container) -> None:
        segment = choose(self.entropy, home.segments)
        span = segment.durable_length - segment.start_offset
        offset = segment.start_offset + round(span * self.entropy.random())
        if self.entropy.randbelow(4) == 0:
            offset = segment.durable_length
        size = choose(self.entropy, (1, 500, BLOCK, 20_000, 60_000))
        self._start(home, segment, offset, size, wait=self.entropy.randbelow(3) == 0)

    def _start(self, home: _Container, segment: SegmentState, offset: int, size: int, *, wait: bool) -> None:
        if len(self.readings) < _READINGS_MAX:
            has_bytes = offset < segment.durable_length
            task = asyncio.ensure_future(home.world.index.read(segment, offset, size, wait=wait))
            content = home.world.bytes[segment]
            self.readings.append(Reading(home, segment, content, offset, size, wait, has_bytes, task))

    async def _cancel(self, _: _Container) -> None:
        if self.readings:
            choose(self.entropy, self.readings).task.cancel()

    async def _release(self, _: _Container) -> None:
        self.release_answers()

    def release_answers(self) -> None:
        """Release the answers, whose bytes must not have changed."""
        for result, expected in self.unreleased:
            assert result.to_bytes() == expected, f"what was read at {result.offset} has changed since"
        self.unreleased.clear()

    # ---- what must be true

    def _compare(self, result: ReadResult, content: bytearray, offset: int, size: int) -> None:
        """Compare an answer, now or when it is released."""
        self.judged += 1
        assert result.offset == offset
        assert result.length <= size
        expected = bytes(content[offset : offset + result.length])
        if self.entropy.randbelow(3) == 0 and len(self.unreleased) < _UNRELEASED_MAX:
            self.unreleased.append((result, expected))
        else:
            assert result.to_bytes() == expected, f"wrong bytes at {offset}"

    def judge(self) -> None:
        """Judge every read that has ended."""
        for reading in [reading for reading in self.readings if reading.task.done()]:
            self.readings.remove(reading)
            if reading.task.cancelled():
                continue
            error = reading.task.exception()
            if error is None:
                self._judge_answer(reading, reading.task.result())
            else:
                self.judged += 1
                if not _may_be_refused(reading, error):
                    place = f"{reading.segment.name} at {reading.offset}"
                    raise AssertionError(f"{place} was refused: {error!r}") from error

    def _judge_answer(self, reading: Reading, result: ReadResult) -> None:
        segment, size = reading.segment, result.length
        end = reading.offset + size
        if not size:
            assert not reading.has_bytes
            assert result.end_of_segment or (result.at_tail and not reading.wait)
        if result.end_of_segment:
            assert segment.sealed
            assert end == segment.durable_length
        self._compare(result, reading.content, reading.offset, reading.length_max)

    def check(self) -> None:
        """Assert what holds between any two steps."""
        for home in self.homes:
            home.world.check()
        if not self.unreleased:
            statistics = self.cache.statistics()
            assert statistics.pinned_bytes == statistics.lent_bytes == 0, "memory is lent without a reader"

    # ---- the end

    async def finish(self) -> None:
        """Let storage do all it has to; then reads wait only for bytes that may still be appended."""
        for home in self.homes:
            storage = home.world.storage
            storage.failures = storage.short_answers = storage.bytes_per_s = 0
            storage.resume()
        await asyncio.sleep(10 * _STORAGE_TIMEOUT_S)
        for home in self.homes:
            for target in list(home.merges):
                while home.merges[target]:
                    home.store(target, home.limit_of(target))
                    await self._complete_merge(home, target)
            home.store_all()
        await asyncio.sleep(10 * _STORAGE_TIMEOUT_S)
        self.judge()
        self.check()
        for reading in self.readings:
            segment = reading.segment
            waits = reading.wait and segment.is_live and not segment.sealed
            reason = (
                f"a read of {segment.name} at {reading.offset} of {segment.durable_length} waits "
                "without reason"
            )
            assert waits, reason
            assert reading.offset >= segment.durable_length, reason

    async def close(self) -> None:
        """End the containers, one after the other. Answers stay lent to their readers."""
        for home in self.homes:
            home.is_closed = True
            await home.world.close()
            await asyncio.sleep(1)
            self.judge()
            assert not any(reading.home is home for reading in self.readings)
        self.release_answers()
        statistics = self.cache.statistics()
        assert statistics.used_bytes == statistics.pinned_bytes == statistics.lent_bytes == 0
        assert statistics.owners == statistics.tails == 0
        assert self.cache.free_bytes == self.cache.policy.blocks_max * BLOCK
        assert self.cache.set_aside_bytes == self.cache.containers == 0
        self.cache.check()

    async def pause(self, iterations: int) -> None:
        for _ in range(iterations):
            await asyncio.sleep(0)


def _may_be_refused(reading: Reading, error: BaseException) -> bool:
    """Say whether the segment, as it is now, explains why a read has failed."""
    segment = reading.segment
    match error:
        case NoSuchSegmentError():
            return not segment.is_live
        case SegmentTruncatedError():
            return reading.offset < segment.start_offset
        case SegmentSealedError():
            return reading.wait and segment.sealed and reading.offset >= segment.durable_length
        case StorageReadError() | DataCorruptionError():
            return reading.home.is_troubled
        case ContainerOfflineError():
            return reading.home.is_closed
        case _:
            return False


async def turmoil(sim: Simulation, reduction: Reduction = ALL) -> Turmoil:
    """Do everything to read indexes, step by step; then store, close, and look what is left."""
    entropy = SeededEntropy(f"read index-{sim.seed}")
    with replaced(SMALL_SIZES):
        world = Turmoil(entropy, min(CONTAINERS, reduction.clients), reduction.without)
        for _ in range(min(choose(entropy, (STEPS // 5, STEPS // 2, STEPS)), reduction.steps)):
            await world.step()
            await world.pause(choose(entropy, world.iterations))
            world.judge()
            world.check()
        await world.finish()
        await world.close()
    return world

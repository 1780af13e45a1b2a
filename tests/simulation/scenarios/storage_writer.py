"""Storage and its writer below a container without a log: random work, faults, deaths and readers in between.

In the end everything is stored once and exactly, the log was truncated, and there is no garbage.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from headrace.errors import NoSuchSegmentError, SegmentTruncatedError, StorageReadError
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.failures import ProcessGoneError
from headrace.testing.simulation import Simulation
from headrace.testing.storage_faults import Fault, ModifyingCall, no_faults
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.worlds.writer_world import WriterWorld

#: What may happen to one call of storage. All may be left out of a run.
FAILURES: Final = (Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY, Fault.TEAR, Fault.HANG)
DEATHS: Final = (Fault.DIE_BEFORE, Fault.DIE_TORN, Fault.DIE_AFTER)

LIVES: Final = 5
STEPS: Final = 120


class RandomWorker:
    """Does to segments what clients may do, by chance."""

    def __init__(self, world: WriterWorld, entropy: SeededEntropy) -> None:
        self.world = world
        self.entropy = entropy
        self.transactions = 0

    def step(self) -> None:
        world, entropy = self.world, self.entropy
        streams = [name for name in world.segments if "#" not in name and not world.segments[name].sealed]
        transactions = [name for name in world.segments if "#" in name]
        match entropy.randbelow(20):
            case 0 | 1 | 2 | 3 | 4 | 5 | 6:
                name = f"s{entropy.randbelow(4)}"
                if name not in world.segments or not world.segments[name].sealed:
                    world.append(name, self.bytes(60))
            case 7 | 8 | 9 | 10:
                self.transactions += 1
                world.append(f"s#{self.transactions}", self.bytes(90))
            case 11 | 12:
                open_ones = [name for name in transactions if not world.segments[name].sealed]
                if open_ones:
                    world.append(open_ones[entropy.randbelow(len(open_ones))], self.bytes(40))
            case 13 | 14 | 15:
                if transactions and streams:
                    source = transactions[entropy.randbelow(len(transactions))]
                    target = streams[entropy.randbelow(len(streams))]
                    world.seal(source)
                    world.merge(target, source)
            case 16:
                if streams:
                    name = streams[entropy.randbelow(len(streams))]
                    world.truncate(name, entropy.randbelow(world.segments[name].durable_length + 1))
            case 17:
                if len(world.segments) > 3 and entropy.randbelow(3) == 0:
                    world.delete(list(world.segments)[entropy.randbelow(len(world.segments))])
            case 18:
                if streams and entropy.randbelow(4) == 0:
                    world.seal(streams[entropy.randbelow(len(streams))])
            case _:
                world.checkpoint()

    def bytes(self, count_max: int) -> bytes:
        return self.entropy.token(1 + self.entropy.randbelow(count_max))


async def read_at_random(world: WriterWorld, entropy: SeededEntropy) -> None:
    """Read stored ranges for ever and compare them."""
    while True:
        await asyncio.sleep(0.01)
        candidates = [name for name in world.segments if world.segments[name].stored_length]
        if not candidates:
            continue
        name = candidates[entropy.randbelow(len(candidates))]
        segment = world.segments[name]
        offset = entropy.randbelow(segment.stored_length)
        length = entropy.randbelow(segment.stored_length - offset + 1)
        expected = bytes(world.content[name][offset : offset + length])
        try:
            data = await world.storage.read_stored(segment.storage_name, offset, length)
        except SegmentTruncatedError:
            assert segment.start_offset > offset
        except NoSuchSegmentError:
            assert segment.deleted or segment.merged
        except StorageReadError:
            pass
        else:
            assert data == expected


def leave_zombie_bytes(world: WriterWorld, entropy: SeededEntropy) -> None:
    """The former owner, still alive, goes on writing behind what was committed of its chunks."""
    for name in list(world.objects.objects):
        if entropy.randbelow(4) == 0:
            world.objects.objects[name] += entropy.token(1 + entropy.randbelow(30))


async def live(world: WriterWorld, worker: RandomWorker, entropy: SeededEntropy, steps: int) -> None:
    """One epoch: work, with a writer and a reader, until it dies or is killed."""
    run = asyncio.ensure_future(world.writer.run())
    reader = asyncio.ensure_future(read_at_random(world, entropy.fork("reader")))
    try:
        for _ in range(steps):
            worker.step()
            if entropy.randbelow(3) == 0:
                await asyncio.sleep(entropy.random() * 0.05)
            if run.done() or reader.done():
                break
    finally:
        for task in (run, reader):
            task.cancel()
        with contextlib.suppress(ProcessGoneError, asyncio.CancelledError):
            await run
        with contextlib.suppress(ProcessGoneError, asyncio.CancelledError):
            await reader


class _Trouble:
    """Decides what happens to each call of storage: one outage, single faults, deaths."""

    def __init__(self, sim: Simulation, entropy: SeededEntropy, without: frozenset[str]) -> None:
        self.dead = False
        self._now = sim.loop.time
        self._entropy = entropy
        self._without = without
        self._began = self._now()
        self._faults_per_thousand = entropy.randbelow(100)
        self._deaths_per_thousand = entropy.randbelow(20)
        self._outage = (Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY)[entropy.randbelow(3)]
        self._outage_begins, self._outage_lasts = entropy.random() * 4.0, entropy.random() * 2.0

    def inject(self, call: ModifyingCall) -> Fault | None:
        """Decide about a call of the chunk provider."""
        fault = self._draw(call)
        return None if fault is not None and fault.name.lower() in self._without else fault

    def inject_commit(self, call: ModifyingCall) -> Fault | None:
        """Decide about a commit of rows: it is never refused for space and never stalls."""
        fault = self.inject(call)
        return None if fault in {Fault.FULL, Fault.HANG} else fault

    def _draw(self, call: ModifyingCall) -> Fault | None:
        if self.dead:
            return Fault.DIE_BEFORE
        since = self._now() - self._began - self._outage_begins
        if call.kind != "commit" and 0.0 <= since < self._outage_lasts:
            return self._outage
        draw = self._entropy.randbelow(1000)
        if draw < self._deaths_per_thousand:
            death = DEATHS[self._entropy.randbelow(3)]
            self.dead = death.name.lower() not in self._without
            return death
        if draw < self._deaths_per_thousand + self._faults_per_thousand:
            return FAILURES[self._entropy.randbelow(len(FAILURES))]
        return None


async def histories(sim: Simulation, reduction: Reduction = ALL) -> WriterWorld:
    """Work, die and start again a few times; then store everything, and look."""
    entropy = SeededEntropy(f"history-{sim.seed}")
    writer_config = _draw_writer(entropy)
    storage_config = _draw_storage(entropy)
    trouble = _Trouble(sim, entropy, reduction.without)
    world = WriterWorld(
        inject=trouble.inject,
        supports_append=entropy.randbelow(4) > 0,
        entropy=entropy.fork("names"),
        writer_config=writer_config,
        storage_config=storage_config,
    )
    world.rows.inject = trouble.inject_commit
    world.provider.delay_s = lambda _: entropy.random() * 0.02
    worker = RandomWorker(world, entropy.fork("worker"))
    for _ in range(min(LIVES, reduction.lives)):
        await live(world, worker, entropy, min(entropy.randbelow(STEPS), reduction.steps))
        world.writer.check()
        trouble.dead = False
        world.restart()
        leave_zombie_bytes(world, entropy)
    world.provider.inject = world.rows.inject = no_faults
    world.checkpoint()
    await world.run_until_stored(timeout_s=600)
    await world.check_stored()
    assert world.acknowledged == world.sequence
    await world.check_no_garbage()
    return world


def _draw_writer(entropy: SeededEntropy) -> StorageWriterConfig:
    return StorageWriterConfig(
        flush_bytes=1 + entropy.randbelow(200),
        write_bytes_max=200 + entropy.randbelow(200),
        flush_age_s=entropy.random() * (0.2 if entropy.randbelow(2) else 5.0),
        change_age_s=entropy.random() * 0.3,
        checkpoint_age_s=entropy.random() * 0.3,
        slow_flush_s=entropy.random() * 0.05,
        pressure_bytes=100 + entropy.randbelow(2000),
        flushes_max=1 + entropy.randbelow(6),
        take_operations_max=1 + entropy.randbelow(20),
        take_interval_s=0.01 * entropy.fork("take").randbelow(2),
        take_timeout_s=0.01,
        retry_initial_s=0.01,
        retry_max_s=0.2,
        acknowledge_interval_s=entropy.random() * 0.05,
        garbage_interval_s=0.05,
        pending_operations_max=5 + entropy.randbelow(200),
    )


def _draw_storage(entropy: SeededEntropy) -> SegmentStorageConfig:
    block_bytes = 1 + entropy.randbelow(16)
    return SegmentStorageConfig(
        rollover_bytes=block_bytes + entropy.randbelow(120),
        block_bytes=block_bytes,
        concat_copy_bytes_max=entropy.randbelow(60),
        provider_timeout_s=1.0,
        garbage_delay_s=0.0,
        garbage_retry_s=0.05,
        layouts_max=1 + entropy.randbelow(10),
        walk_rows_max=1 + entropy.fork("walk").randbelow(4),
    )

"""CPU per append block of the durable log, from the connection's call to the acknowledgement.

    python benchmarks/micro/durable_log.py [--smoke]

The write-ahead log is in memory and the read index only notes lengths, so that what remains is checking,
numbering, packing, applying and answering. The floor copies the same bytes into memory. Nanoseconds of CPU,
medians of rounds that alternate with their floor.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from functools import partial

from headrace.errors import HeadraceError
from headrace.limits import KIB
from headrace.runtime.clock import SystemClock
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.durablelog.checkpoint_policy import CheckpointPolicy
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import ProcessorLimits
from headrace.segmentstore.operations.catalogue import MapSegment
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.wal.memory import MemoryLogStore, MemoryWal

SIZES = (100, 1 * KIB, 10 * KIB, 100 * KIB)
BLOCKS_PER_READ = 4
EVENTS = 8


class LengthIndex:
    """The part of a read index that appends meet, without its memory."""

    def append(self, segment: SegmentState, offset: int, data: memoryview) -> None:
        pass

    def on_changed(self, segment: SegmentState) -> None:
        pass

    def set_aside(self, change_bytes: int) -> None:
        pass

    def has_free_capacity(self) -> bool:
        return True

    def unstored_bytes(self) -> int:
        return 0

    def shared_pressure(self) -> float:
        return 0.0

    def cache_pressure(self) -> float:
        return 0.0


class Owner:
    """One writer that counts its answers."""

    def __init__(self, number: int, segment: SegmentState) -> None:
        self.writer_id = number.to_bytes(16, "big")
        self.segment = segment
        self.sent = -(1 << 63)
        self.acked = 0

    def on_durable(self, last_event_number: int, _request_id: int, _segment_length: int, /) -> None:
        self.acked = last_event_number

    def on_failed(self, error: HeadraceError) -> None:
        raise error


class Bench:
    async def start(self, writers: int) -> None:
        self.state = ContainerState(0)
        self.log = DurableLog(
            self.state,
            MemoryWal(MemoryLogStore(), "0"),
            LengthIndex(),  # type: ignore[arg-type]  # appends meet no other part
            SystemClock(),
            Supervisor("bench"),
            memory_log_max=1 << 60,
            limits=ProcessorLimits(),
            policy=CheckpointPolicy(1 << 60, 1 << 60),
            on_failed=print,
        )
        await self.log.start(lambda _: None)
        self.owners = []
        for number in range(writers):
            name = f"s{number}"
            await self.log.submit(partial(self._propose, name), 100)
            self.owners.append(Owner(number, self.state.get(name)))

    def _propose(self, name: str, sequence: int) -> MapSegment:
        return transitions.propose_map(self.state, sequence, name, {})

    async def append(self, data: memoryview, count: int) -> None:
        pieces = [data]
        size = len(data)
        done = 0
        log = self.log.processor
        while done < count:
            for owner in self.owners:
                for _ in range(BLOCKS_PER_READ):
                    while not log.can_accept(size):  # noqa: ASYNC110 - a turn is what frees a frame
                        await asyncio.sleep(0)
                    last = max(owner.sent, 0) + EVENTS
                    log.append_block(owner.segment, owner, pieces, size, owner.sent, last, EVENTS, last, -1)
                    owner.sent = last
                log.end_of_read()
                done += BLOCKS_PER_READ
            await asyncio.sleep(0)
        await self.log.flush()
        self.log.memory_log._queue.clear()
        assert all(owner.acked == owner.sent for owner in self.owners)


def floor(data: memoryview, count: int) -> None:
    memory = memoryview(bytearray(1024 * KIB))
    size, at = len(data), 0
    for _ in range(count):
        if at + size > len(memory):
            at = 0
        memory[at : at + size] = data
        at += size


def cpu(work: Callable[[], object], count: int) -> float:
    begin = time.process_time()
    work()
    return (time.process_time() - begin) * 1e9 / count


async def measure(smoke: bool) -> None:
    rounds = 1 if smoke else 7
    print(f"{'block':>8} {'ns/block':>9} {'least':>9} {'floor ns':>9}")
    for size in SIZES:
        count = 800 if smoke else max(2000, min(40_000, (256 << 20) // size // 4))
        data = memoryview(bytes(size))
        blocks, floors = [], []
        for _ in range(rounds):
            bench = Bench()
            await bench.start(writers=4)
            begin = time.process_time()
            await bench.append(data, count)
            blocks.append((time.process_time() - begin) * 1e9 / count)
            floors.append(cpu(partial(floor, data, count), count))
        middle, least = statistics.median(blocks), min(blocks)
        print(f"{size:>8} {middle:>9.0f} {least:>9.0f} {statistics.median(floors):>9.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    asyncio.run(measure(parser.parse_args().smoke))

"""CPU per append and per cached read of the read index, next to its floor: copying the same bytes.

    python benchmarks/micro/read_index.py [--smoke]

An append copies one run into the cache and tells the index that it is durable; its floor copies the same
bytes into memory of the same size, round and round. A read takes views, pins them and lets them go; its floor
is the slice of a memoryview. Nanoseconds of CPU, medians of rounds that alternate with their floors; the
cache is full, so eviction is part of the price. What was appended is read back and compared.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.limits import KIB, MIB
from headrace.segmentstore.readindex.cache.cache import BlockCache
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.readindex.read_index import ContainerReadIndex
from headrace.segmentstore.state.segment_state import SegmentState

SIZES = (100, 10 * KIB, 1 * MIB)
UNSTORED_BYTES = 8 * MIB


class NoStorage:
    """Nothing here may come from storage."""

    async def read_some(self, segment: str, offset: int, length: int) -> bytes:
        raise AssertionError((segment, offset, length))

    def read_at_once(
        self, segment: str, offset: int, length: int, buffer: memoryview
    ) -> tuple[int, int, None]:
        raise AssertionError((segment, offset, length, len(buffer)))

    def spawn(self, name: str, coroutine: Coroutine[Any, Any, None], /) -> None:
        coroutine.close()
        raise AssertionError(name)


class Bench:
    def __init__(self, cache_bytes: int, segments: int) -> None:
        self.cache = BlockCache(CacheConfig(bytes_max=cache_bytes))
        self.index = ContainerReadIndex(self.cache, NoStorage(), NoStorage())
        self.segments = [SegmentState(number, f"s{number}") for number in range(segments)]
        self.floor_memory = memoryview(bytearray(cache_bytes))
        self.floor_at = 0

    def append(self, data: memoryview, count: int) -> None:
        size = len(data)
        append, on_changed = self.index.append, self.index.on_changed
        lag = UNSTORED_BYTES // len(self.segments)
        for _ in range(count // len(self.segments)):
            for segment in self.segments:
                offset = segment.durable_length
                segment.accepted_length = segment.durable_length = offset + size
                if offset - segment.stored_length > 2 * lag:
                    segment.stored_length = offset - lag
                append(segment, offset, data)
                on_changed(segment)

    def append_floor(self, data: memoryview, count: int) -> None:
        size, memory, at = len(data), self.floor_memory, self.floor_at
        for _ in range(count):
            if at + size > len(memory):
                at = 0
            memory[at : at + size] = data
            at += size
        self.floor_at = at

    def read(self, size: int, back: int, count: int) -> None:
        read = self.index.read_nowait
        segment = self.segments[0]
        offset = segment.durable_length - back
        for _ in range(count):
            result = read(segment, offset, size)
            assert result is not None
            result.release()

    def read_floor(self, size: int, count: int) -> None:
        memory = self.floor_memory
        for _ in range(count):
            memory[1 : 1 + size]

    def verify(self, data: memoryview) -> None:
        for segment in self.segments:
            result = self.index.read_nowait(segment, segment.durable_length - len(data), len(data))
            assert result is not None
            assert result.to_bytes() == data
        self.index.check()
        self.cache.check()


def cpu_ns(work: Callable[[], None], count: int) -> float:
    begin = time.process_time_ns()
    work()
    return (time.process_time_ns() - begin) / count


def measure(
    work: Callable[[], None], floor: Callable[[], None], count: int, rounds: int
) -> tuple[float, float]:
    times, floors = [], []
    for _ in range(rounds):
        floors.append(cpu_ns(floor, count))
        times.append(cpu_ns(work, count))
    return statistics.median(times), statistics.median(floors)


def report(name: str, figures: tuple[float, float]) -> None:
    taken, floor = figures
    print(f"{name:44} {taken:12,.0f} ns   floor {floor:12,.0f} ns   {taken - floor:+10,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a second at most: shows that it runs")
    arguments = parser.parse_args()
    cache_bytes = (32 if arguments.smoke else 256) * MIB
    rounds = 1 if arguments.smoke else 5
    volume = cache_bytes // (4 if arguments.smoke else 1)
    for segments in (1, 16):
        for size in SIZES:
            bench = Bench(cache_bytes, segments)
            data = memoryview(bytes(range(256)) * (size // 256 + 1))[:size]
            count = max(segments, min(200_000, volume // size) // segments * segments)
            if not arguments.smoke:  # fill: first touches of memory cost page faults
                for _ in range(2 * cache_bytes // (count * size) + 1 if size > 100 else 1):
                    bench.append(data, count)
                bench.append_floor(data, cache_bytes // size)
            figures = measure(
                lambda bench=bench, data=data, count=count: bench.append(data, count),
                lambda bench=bench, data=data, count=count: bench.append_floor(data, count),
                count,
                rounds,
            )
            report(f"append {size:>9,} B, {segments:2} segments", figures)
            bench.verify(data)
            if size != 10 * KIB:
                continue
            for read_size in SIZES:
                for place, back in (("tail", read_size), ("behind", 3 * MIB)):
                    if back > min(bench.segments[0].durable_length, UNSTORED_BYTES // segments):
                        continue
                    reads = 200 if arguments.smoke else 20_000
                    figures = measure(
                        lambda bench=bench, read_size=read_size, back=back, reads=reads: bench.read(
                            read_size, back, reads
                        ),
                        lambda bench=bench, read_size=read_size, reads=reads: bench.read_floor(
                            read_size, reads
                        ),
                        reads,
                        rounds,
                    )
                    report(f"  read {read_size:>9,} B, {place}", figures)


if __name__ == "__main__":
    main()

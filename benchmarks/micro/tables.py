"""CPU per put and per get of the tables of a container, beside the same appends and reads without tables.

    python -m benchmarks.micro.tables [--count 20000] [--smoke]

Segments are in memory and durable at once, so what remains is our own price: conditions, encoding, index,
cache, and one turn of the loop per append. The floor makes the same appends and reads through the same
access.
Figures are microseconds of CPU per operation and operations per second, medians of rounds that alternate with
their floors. What was put is read back and compared, also after the index was rebuilt from the log.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from headrace.model.tables import NOT_EXISTS, TableEntry
from headrace.segmentstore.tables.entry_format import encode_entries
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on

VALUE = b"v" * 100
Step = Callable[[int, int], Awaitable[object]]


def key_of(number: int) -> bytes:
    return b"key-%012d" % number


async def run(step: Step, count: int, at_once: int) -> float:
    """Perform ``count`` steps, ``at_once`` of them in flight; return microseconds of CPU per step."""
    per_caller = count // at_once

    async def caller(which: int) -> None:
        for number in range(per_caller):
            await step(which, which * per_caller + number)

    began = time.process_time()
    await asyncio.gather(*[caller(which) for which in range(at_once)])
    return (time.process_time() - began) / (per_caller * at_once) * 1e6


async def bench(count: int, at_once: int, rounds: int) -> None:
    access = MemorySegments()
    figures: dict[str, list[float]] = {}
    for number in range(rounds):
        tables, cold = tables_on(access), tables_on(access)
        name, floor_name = f"t{number}", f"f{number}"
        await tables.create(name)
        floor = await access.create(floor_name, {})

        async def floor_append(_: int, n: int, segment=floor) -> None:
            await access.append(segment, encode_entries([TableEntry(key_of(n), VALUE)])[0])

        async def put(_: int, n: int, tables=tables, name=name) -> None:
            await tables.update(name, [TableEntry(key_of(n), VALUE)])

        async def replace(_: int, n: int, tables=tables, name=name) -> None:
            await tables.update(name, [TableEntry(key_of(n), VALUE[::-1])])

        async def create(_: int, n: int, tables=tables, name=name) -> None:
            await tables.update(name, [TableEntry(key_of(n + count), VALUE, NOT_EXISTS)])

        async def get(_: int, n: int, tables=tables, name=name) -> None:
            [found] = await tables.get(name, [key_of(n)])
            assert found is not None
            assert found.value == VALUE[::-1]

        async def cold_get(_: int, n: int, tables=cold, name=name) -> None:
            [found] = await tables.get(name, [key_of(n)])
            assert found is not None
            assert found.value == VALUE[::-1]

        async def floor_read(_: int, n: int, segment=floor) -> None:
            (await access.read(segment, n * 133, 133, wait=False)).to_bytes()

        async def measure(title: str, step: Step) -> None:
            figures.setdefault(title, []).append(await run(step, count, at_once))

        await measure("append (floor of puts)", floor_append)
        await measure("put, new key", put)
        await measure("put, existing key", replace)
        await measure("put if absent", create)
        await measure("get, newly written", get)
        await measure("read (floor of cold gets)", floor_read)
        began = time.process_time()
        info = await cold.info(name)
        seconds = time.process_time() - began
        assert info.entry_count == 2 * (count // at_once * at_once)
        figures.setdefault("rebuild, per entry", []).append(seconds / (info.entry_count * 3 // 2) * 1e6)
        await measure("get, index rebuilt", cold_get)
        began = time.process_time()
        seen, token = 0, b""
        while True:
            page, token = await cold.keys(name, token, 1000)
            if not page:
                break
            seen += len(page)
        assert seen == info.entry_count
        figures.setdefault("iterate, per key", []).append((time.process_time() - began) / seen * 1e6)
        tables.check()
        await tables.close()
        await cold.close()
        access.disks.clear()
    print(f"{count} keys of 16 bytes, values of {len(VALUE)}, {at_once} callers at once")
    for title, values in figures.items():
        middle = statistics.median(values)
        spread = f"[{min(values):.2f}, {max(values):.2f}]"
        print(f"  {title:28} {middle:8.2f} us {1e6 / middle:12,.0f} /s  {spread}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--smoke", action="store_true", help="a second's worth, to see that it works")
    arguments = parser.parse_args()
    count, rounds = (640, 1) if arguments.smoke else (arguments.count, arguments.rounds)
    for at_once in (1, 64):
        asyncio.run(bench(count, at_once, rounds))


if __name__ == "__main__":
    main()

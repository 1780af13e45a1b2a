"""The log over BookKeeper beside a bare loop of the same client: ``benchmarks.bookkeeper_wal``.

Three bookies with their directories in memory, so that the client shows; as many frames in flight on both
sides, in alternating rounds. The floor adds entries to one ledger by the same connections, in the same bytes,
and waits for two of three answers; the log has its plan, copies, statistics and nodes besides. Client and
bookies share the machine. Without the jars (``make bookies`` fetches them) nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.floor import MIB, now
from benchmarks.object_store import memory_directory
from headrace.data_directory.log_place import place_of
from headrace.runtime import loops
from headrace.runtime.context import system_runtime
from headrace.wal.bookkeeper.entry_format import encode_entry_head
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.next_ledger import LedgerMaker
from headrace.wal.bookkeeper.renewed_session import RenewedSession
from headrace.wal.bookkeeper.wire_format import Answer, encode_add, master_key
from headrace.wal.config import WalConfig
from headrace.wal.stores import LogBookies, make_logs
from tests.bookies.servers import JARS, BookKeeper

KIB = 1 << 10
_ACK = 2


class Waits:
    """What is in flight, and how long each took."""

    def __init__(self, count: int, depth: int) -> None:
        self.left = count
        self.free = depth
        self.seconds: list[float] = []
        self.changed = asyncio.Event()
        self.began = now()
        self.took = 0.0

    def answered(self, began: float) -> None:
        self.seconds.append(now() - began)
        self.free += 1
        self.changed.set()

    async def slot(self) -> None:
        while not self.free:
            self.changed.clear()
            await self.changed.wait()
        self.free -= 1

    async def end(self, count: int) -> None:
        while len(self.seconds) < count:
            self.changed.clear()
            await self.changed.wait()
        self.took = now() - self.began


async def bare(maker: LedgerMaker, size: int, depth: int, count: int) -> Waits:
    """Add entries to one ledger."""
    made = await maker.make("benchmark")
    assert made is not None
    key, payload = master_key(b""), bytes(size)
    waits = Waits(count, depth)
    acks: dict[int, int] = {}
    began: dict[int, float] = {}

    def on_answer(answer: Answer) -> None:
        assert answer.code == 0
        acks[answer.entry] = acks.get(answer.entry, 0) + 1
        if acks[answer.entry] == _ACK:
            waits.answered(began.pop(answer.entry))

    for connection in made.connections.values():
        connection.serve(on_answer, lambda: None)
    for entry in range(count):
        await waits.slot()
        began[entry] = now()
        head = encode_entry_head(
            made.number, entry, entry - depth if entry >= depth else -1, size * (entry + 1), payload
        )
        packet = encode_add(key, head, size)
        for connection in made.connections.values():
            connection.send(packet, payload)
    await waits.end(count)
    await maker.discard(made)
    return waits


async def log(wal: Any, size: int, depth: int, count: int) -> Waits:
    """Append frames."""
    waits = Waits(count, depth)

    def done(frame: Any, error: Exception | None) -> None:
        assert error is None
        waits.answered(began.pop(frame.address))
        wal.release_frame(frame)

    began: dict[int, float] = {}
    for _ in range(count):
        await waits.slot()
        frame = wal.acquire_frame()
        assert frame is not None
        frame.length = size
        at = now()
        wal.append(frame, done)
        began[frame.address] = at
    await waits.end(count)
    await wal.truncate(frame.address)
    return waits


async def measure(place: LogBookies, size: int, depth: int, count: int, rounds: int) -> None:
    nodes = RenewedSession(place.cluster.make_coordinator())
    maker = LedgerMaker(LedgerStore(nodes), place.cluster.quorums, system_runtime())
    logs = make_logs("", system_runtime(), WalConfig(frame_bytes_max=MIB, frames_max=8), place=place)
    wal = logs.make_wal(0)
    await wal.open()
    rates: dict[str, list[float]] = {"bare": [], "log": []}
    p50: dict[str, list[float]] = {"bare": [], "log": []}
    for number in range(rounds + 1):
        for name in ("bare", "log"):
            await asyncio.sleep(0.2)  # the third bookie has what it gets
            if name == "bare":
                waits = await bare(maker, size, depth, count)
            else:
                waits = await log(wal, size, depth, count)
            if number:  # the first is to warm up
                rates[name].append(size * count / waits.took / MIB)
                p50[name].append(statistics.median(waits.seconds) * 1e3)
    await wal.close()
    await logs.close()
    await nodes.close()
    rate = {name: statistics.median(found) for name, found in rates.items()}
    ack = {name: statistics.median(found) for name, found in p50.items()}
    print(
        f"{size // KIB:5} KiB  {depth} in flight  bare {rate['bare']:6.1f} MiB/s {ack['bare']:6.2f} ms  "
        f"log {rate['log']:6.1f} MiB/s {ack['log']:6.2f} ms  "
        f"ratios {rate['log'] / rate['bare']:.2f} {ack['log'] / ack['bare']:.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    if not any(JARS.glob("*.jar")):
        print(f"no jars in {JARS}: make bookies")
        return
    with (
        tempfile.TemporaryDirectory(dir=memory_directory()) as directory,
        BookKeeper(Path(directory) / "run") as servers,
    ):
        place = place_of(servers.uri(), system_runtime())
        assert isinstance(place, LogBookies)
        for size, count in ((64 * KIB, 400), (MIB, 60)):
            for depth in (1, 4, 8):
                loops.run(measure(place, size, depth, count // (20 if args.smoke else 1), args.rounds))


if __name__ == "__main__":
    main()

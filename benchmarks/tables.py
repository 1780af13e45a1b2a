"""Large tables over the wire: puts, gets, the start after a kill, space after many updates; keys of fixed
length, then hashed ones.

    python -m benchmarks.tables [--keys 1000000] [--updates 10] [--smoke]

The client is a socket with frames made beforehand, a process of its own: beside a rate stands what the server
took of the CPU. Each value that is read is compared. ``--updates`` is how often each key is updated, in an
order that the table does not have, before its space is measured.
"""

from __future__ import annotations

import argparse
import itertools
import socket
import struct
import time
from array import array
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.limits import MIB
from headrace.model.tables import TableEntry, TableKey
from headrace.segmentstore.tables.entry_format import ENTRY_HEADER_BYTES
from headrace.wire.catalogue import TYPE_IDS, VERSION, VERSION_OLDEST
from headrace.wire.commands import (
    CreateTableSegment,
    GetTableSegmentInfo,
    Hello,
    ReadTable,
    SegmentCreated,
    TableEntriesUpdated,
    TableRead,
    TableSegmentInfo,
    UpdateTableEntries,
)
from headrace.wire.commands.kinds import Command
from headrace.wire.frames import HEAD, HEAD_BYTES, decode_payload, encode

VALUE_BYTES = 100
IN_FLIGHT = 64
TOGETHER = 100
"""Keys of one request while a table is filled."""

_REQUEST_ID = struct.Struct(">q")
_VALUE = struct.Struct(">ii92x")
_PRIMES = (1, 999_983, 611_953, 399_989, 104_729, 15_485_863, 32_452_843, 49_979_687, 67_867_967, 86_028_121)


class Wire:
    """One connection, with so many requests in flight as it is told."""

    def __init__(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout=120)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.ask(Hello(VERSION, VERSION_OLDEST), Hello)

    def close(self) -> None:
        self._socket.close()

    def ask(self, request: Command, expected: type[Command]) -> Command:
        self._socket.sendall(encode(request))
        while not (replies := list(self._receive())):
            pass
        [(type_id, payload)] = replies
        reply = decode_payload(type_id, payload)
        if not isinstance(reply, expected):
            raise SystemExit(f"{request} was answered by {reply}")
        return reply

    def run(
        self, requests: Iterable[bytes], expected: type[Command], check: Callable[[int, bytes], None] | None
    ) -> Latencies:
        """Send requests, whose ids count from 0; ``check`` is called with the id and payload of replies."""
        wanted = TYPE_IDS[expected]
        frames = iter(requests)
        begins, latencies = array("d"), array("d")
        free = IN_FLIGHT
        while True:
            some = list(itertools.islice(frames, free))
            free -= len(some)
            if some:
                begins.extend(itertools.repeat(now(), len(some)))
                self._socket.sendall(b"".join(some))
            elif free == IN_FLIGHT:
                return Latencies(latencies)
            replies = list(self._receive())
            ended = now()
            for type_id, payload in replies:
                if type_id != wanted:
                    raise SystemExit(f"a request was answered by {decode_payload(type_id, payload)}")
                [number] = _REQUEST_ID.unpack_from(payload)
                latencies.append(ended - begins[number])
                if check is not None:
                    check(number, payload)
            free += len(replies)

    def _receive(self) -> Iterator[tuple[int, bytes]]:
        received = self._socket.recv(1 << 20)
        if not received:
            raise SystemExit("the server closed the connection")
        data, at = self._rest + received, 0
        while at + HEAD_BYTES <= len(data):
            type_id, size = HEAD.unpack_from(data, at)
            end = at + HEAD_BYTES + size
            if end > len(data):
                break
            yield type_id, data[at + HEAD_BYTES : end]
            at = end
        self._rest = data[at:]


class Latencies:
    """Of the requests of one run, in seconds."""

    def __init__(self, all_s: array[float]) -> None:
        self._sorted = sorted(all_s)

    def __str__(self) -> str:
        found = [self._sorted[int(share * (len(self._sorted) - 1))] * 1e3 for share in (0.5, 0.99, 0.999, 1)]
        return "latency {:.1f}, p99 {:.1f}, p99.9 {:.1f}, longest {:.0f} ms".format(*found)


class Table:
    """One table and what it holds: ``count`` keys, whose values name their number and their round."""

    def __init__(self, segment: str, key_length: int, count: int) -> None:
        self.segment = segment
        self.key_length = key_length
        self.count = count
        self.round = 0

    def create(self, wire: Wire) -> None:
        wire.ask(CreateTableSegment(0, self.segment, "", key_length=self.key_length), SegmentCreated)

    def key(self, number: int) -> bytes:
        """Return a key; keys of neighbouring numbers are anywhere in the table."""
        size = self.key_length or 16 + number % 9
        return blake2b(number.to_bytes(8, "big"), digest_size=size).digest()

    def order(self, which: int) -> Iterator[int]:
        """Return all numbers, in another order each time."""
        step = _PRIMES[which % len(_PRIMES)]
        return (number * step % self.count for number in range(self.count))

    @property
    def live_bytes(self) -> int:
        """Bytes of the newest entries alone, as they are logged."""
        key_bytes = sum(self.key_length or 16 + number % 9 for number in range(self.count))
        return key_bytes + self.count * (ENTRY_HEADER_BYTES + VALUE_BYTES)

    def fill(self, wire: Wire, which: int) -> None:
        """Put all keys, many in one request."""
        self.round = which
        numbers = self.order(which)

        def frames() -> Iterator[bytes]:
            for request in itertools.count():
                some = list(itertools.islice(numbers, TOGETHER))
                if not some:
                    return
                entries = [TableEntry(self.key(number), self._value(number)) for number in some]
                yield encode(UpdateTableEntries(request, self.segment, "", entries))

        wire.run(frames(), TableEntriesUpdated, None)

    def put(self, wire: Wire, numbers: list[int]) -> Latencies:
        frames = [
            encode(
                UpdateTableEntries(
                    request, self.segment, "", [TableEntry(self.key(number), self._value(number))]
                )
            )
            for request, number in enumerate(numbers)
        ]
        return wire.run(frames, TableEntriesUpdated, None)

    def get(self, wire: Wire, numbers: list[int]) -> Latencies:
        frames = [
            encode(ReadTable(request, self.segment, "", [TableKey(self.key(number))]))
            for request, number in enumerate(numbers)
        ]

        def check(request: int, payload: bytes) -> None:
            if not payload.endswith(self._value(numbers[request])):
                raise SystemExit(f"key {numbers[request]} has another value")

        return wire.run(frames, TableRead, check)

    def _value(self, number: int) -> bytes:
        return _VALUE.pack(number, self.round)


def file_bytes(server: BenchServer, part: str) -> tuple[int, int]:
    """Return bytes of the chunks of logs of tables named ``part``, and of their indexes."""
    log = index = 0
    for path in (server.directory / "data" / "chunks").rglob("*"):
        if path.is_file() and part in str(path):
            if "index" in path.name:
                index += path.stat().st_size
            else:
                log += path.stat().st_size
    return log, index


def measure(
    server: BenchServer, title: str, count: int, work: Callable[[], Latencies | None]
) -> Latencies | None:
    cpu, began = server.cpu_s(), now()
    latencies = work()
    seconds, cpu = now() - began, server.cpu_s() - cpu
    print(
        f"{title:34} {count / seconds:10,.0f} /s  {cpu / count * 1e6:7.1f} us of CPU  {latencies or ''}"
        f"  resident {server.rss_mib():.0f} MiB",
        flush=True,
    )
    return latencies


def show_space(server: BenchServer, wire: Wire, table: Table, title: str) -> None:
    info = wire.ask(GetTableSegmentInfo(0, table.segment, ""), TableSegmentInfo)
    assert isinstance(info, TableSegmentInfo)
    live = table.live_bytes
    log, index = file_bytes(server, table.segment.rpartition("/")[2])
    print(
        f"{title:34} live {live / MIB:,.0f} MiB, log {(info.length - info.start_offset) / MIB:,.0f} MiB "
        f"({(info.length - info.start_offset) / live:.2f}), its chunks {log / MIB:,.0f} MiB, "
        f"index {index / MIB:,.0f} MiB, all {(log + index) / live:.2f}",
        flush=True,
    )


def measure_table(server: BenchServer, table: Table, updates: int, requests: int) -> None:
    wire = Wire(server.addresses["segmentstore"])
    table.create(wire)
    count = table.count
    measure(server, f"fill, {TOGETHER} together", count, lambda: table.fill(wire, 0))
    server.wait_idle()
    dice = [number * 7_368_787 % count for number in range(requests)]
    measure(server, "get", requests, lambda: table.get(wire, dice))
    measure(server, "get again", requests, lambda: table.get(wire, dice))
    measure(server, "put", requests, lambda: table.put(wire, dice))
    wire.close()
    server.kill()
    server.start(timeout_s=600)
    wire = Wire(server.addresses["segmentstore"])
    began = now()
    table.get(wire, dice[:1])
    print(
        f"{'after kill -9':34} ready after {server.ready_s:.2f} s, first get {now() - began:.3f} s later, "
        f"resident {server.rss_mib():.0f} MiB, at most {server.rss_mib(peak=True):.0f} MiB",
        flush=True,
    )
    others = [(number + 1) % count for number in dice]  # not those that were put last
    measure(server, "get, nothing in memory", requests, lambda: table.get(wire, others))
    show_space(server, wire, table, "space once filled")
    for which in range(1, updates + 1):
        measure(
            server, f"update {which}, {TOGETHER} together", count, lambda which=which: table.fill(wire, which)
        )
    show_space(server, wire, table, "space when the updates stop")
    server.wait_idle(120)
    show_space(server, wire, table, "space when the server is idle")
    if count > 100_000:
        time.sleep(65)  # chunks are deleted a minute after the last read of them may have begun
        show_space(server, wire, table, "space a minute later")
    measure(server, "get", requests, lambda: table.get(wire, dice))
    wire.close()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--kinds", choices=("fixed", "hash"), nargs="*", default=["fixed", "hash"])
    args = parser.parse_args(arguments)
    keys, requests = (5_000, 1_000) if args.smoke else (args.keys, args.requests)
    for kind in args.kinds:
        print(f"{kind} keys, {keys:,} of them, values of {VALUE_BYTES} bytes, {IN_FLIGHT} requests in flight")
        with BenchServer() as server:
            measure_table(
                server, Table(f"bench/{kind}", 20 * (kind == "fixed"), keys), args.updates, requests
            )


if __name__ == "__main__":
    main()

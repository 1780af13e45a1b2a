"""CPU per event of the client's hot parts, next to the floor of copying the same bytes.

    python benchmarks/micro/client_framing.py [--smoke]

Framing turns payloads into segment bytes, finding locates events in them, columns and objects hand them
out, routing maps keys to the key space. The writer rows are the whole client: an event loop, routing, blocks
and acknowledgements against a server in another process that acknowledges without storing, so what is
counted is this process alone. Nanoseconds of CPU per event, best of some rounds; every result is compared
with what went in.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import struct
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.client.config import WriterConfig
from headrace.client.connections.pool import ConnectionPool
from headrace.client.framing.event_frames import frame_column, frame_list
from headrace.client.framing.event_framing import find_frames, payload_column, payloads
from headrace.client.open_writers import OpenWriters
from headrace.client.segment_map import SegmentMap, SegmentRange
from headrace.client.services import ClientServices
from headrace.client.writer.event_writer import EventWriter
from headrace.client.writer.routing import key_positions
from headrace.model.key_space import FULL_RANGE, key_position, split_evenly
from headrace.runtime.entropy import SystemEntropy
from headrace.runtime.loops import loop_factory
from headrace.runtime.supervisor import Supervisor
from headrace.wire.acknowledgement import encode_data_appended
from headrace.wire.commands import AppendSetup, Hello
from headrace.wire.frames import FrameDecoder, encode

_END_TAIL = struct.Struct(">iqq")
_APPEND_BLOCK_END = 4
_NO_EVENTS = -(1 << 63)


# ------------------------------------------------------------------------------ measuring


def best_ns(work: Callable[[], Any], count: int, rounds: int) -> float:
    """Return CPU nanoseconds per event of the fastest round."""
    fastest = float("inf")
    for _ in range(rounds):
        start = time.process_time()
        work()
        fastest = min(fastest, time.process_time() - start)
    return fastest * 1e9 / count


def row(name: str, ns: float, floor_ns: float) -> None:
    rate = 1e3 / ns if ns else float("inf")
    print(f"{name:44} {ns:9.1f} ns/event {rate:9.2f} M events/s {ns / max(floor_ns, 1e-9):9.1f} x copy")


def measure_bytes(label: str, events: list[bytes], rounds: int) -> None:
    count = len(events)
    raw, ends = frame_list(events)
    column = pa.array(events, pa.binary())
    frames = find_frames(raw)
    assert frames.tolist() == [0, *ends]
    assert bytes(frame_column(column)[0]) == raw
    assert payloads(raw, frames) == events
    assert payload_column(raw, frames).equals(column)
    floor = best_ns(lambda: bytearray(raw), count, rounds)
    for name, work in (
        ("frame a list", lambda: frame_list(events)),
        ("frame a column", lambda: frame_column(column)),
        ("find events", lambda: find_frames(raw)),
        ("column of payloads", lambda: payload_column(raw, frames)),
        ("bytes objects", lambda: payloads(raw, frames)),
    ):
        row(f"{label}: {name}", best_ns(work, count, rounds), floor)


def measure_routing(count: int, rounds: int) -> None:
    few = pa.array([f"key-{number % 1000}" for number in range(count)])
    many = pa.array([f"key-{number}" for number in range(count)])
    floor = best_ns(lambda: bytearray(8 * count), count, rounds)
    for name, keys in (("1000 keys", few), ("every key different", many)):
        places = key_positions(keys)
        assert places[count // 2] == key_position(keys[count // 2].as_py())
        row(f"route: {name}", best_ns(lambda keys=keys: key_positions(keys), count, rounds), floor)


# ---------------------------------------------------------------------------- a server that only acknowledges


class Acknowledger(asyncio.BufferedProtocol):
    """Counts events per connection and acknowledges each read's blocks of a writer at once."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.decoder = FrameDecoder()
        self.last: dict[bytes, int] = {}

    def get_buffer(self, _: int) -> memoryview:
        return self.decoder.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self.decoder.buffer_updated(nbytes)
        runs: dict[bytes, tuple[int, int]] = {}
        while (frame := self.decoder.next_frame()) is not None:
            type_id, payload = frame
            if type_id == _APPEND_BLOCK_END:
                _, last, request_id = _END_TAIL.unpack_from(payload, len(payload) - _END_TAIL.size)
                runs[bytes(payload[:16])] = (last, request_id)
            else:
                self.transport.write(self.answer(type_id, payload))
        for writer_id, (last, request_id) in runs.items():
            previous, self.last[writer_id] = self.last[writer_id], last
            self.transport.write(encode_data_appended(writer_id, last, previous, request_id, 0))

    def answer(self, type_id: int, payload: memoryview) -> bytes:
        if type_id == 1:
            request_id, writer_id = struct.unpack_from(">q16s", payload)
            size = struct.unpack_from(">H", payload, 24)[0]
            self.last[writer_id] = _NO_EVENTS
            segment = bytes(payload[26 : 26 + size]).decode()
            return encode(AppendSetup(request_id, segment, writer_id, _NO_EVENTS))
        return encode(Hello(17, 5))


def serve(pipe: Any) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(Acknowledger, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(main())


class OneHost:
    """Every segment lives on one host, and nothing is ever sealed."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def endpoint(self, *_: Any) -> tuple[str, int]:
        return "127.0.0.1", self.port

    def forget_endpoint(self, *_: Any) -> None:
        raise AssertionError

    async def token(self, *_: Any) -> str:
        return ""


async def time_writer(
    writer: EventWriter, write: Callable[[EventWriter], Any], steps: int, rounds: int
) -> tuple[float, float]:
    """Return CPU and wall seconds of the fastest round, acknowledgements included."""
    cpu_s = wall_s = float("inf")
    for _ in range(rounds):
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(steps):
            await writer.drain()
            write(writer)
        await writer.flush()
        cpu_s = min(cpu_s, time.process_time() - cpu)
        wall_s = min(wall_s, time.perf_counter() - wall)
    return cpu_s, wall_s


async def measure_writer(port: int, count: int, rounds: int) -> None:
    host: Any = OneHost(port)
    services = ClientServices(
        "tcp://fake", ConnectionPool(), host, host, SystemEntropy(), Supervisor("bench"), OpenWriters(1.0)
    )
    event = b"x" * 100
    column = pa.array([event] * 10_000, pa.binary())
    keys = pa.array([f"key-{number % 1000}" for number in range(10_000)])
    listed, listed_keys = column.to_pylist(), keys.to_pylist()
    for segment_count in (1, 4):
        segments = [SegmentRange(n, r) for n, r in enumerate(split_evenly(FULL_RANGE, segment_count))]
        for name, step, write in (
            ("columns", 10_000, lambda writer: writer.write_many(column, keys)),
            ("lists", 10_000, lambda writer: writer.write_many(listed, listed_keys)),
            ("single calls", 1000, lambda writer: [writer.write(event, key) for key in listed_keys[:1000]]),
        ):
            writer = EventWriter(
                "s",
                "t",
                services,
                WriterConfig(),
                SegmentMap(segments),
                calls=host,
                times=host,
                writer_id=None,
            )
            cpu_s, wall_s = await time_writer(writer, write, count // step, rounds)
            assert writer.statistics().events_durable == rounds * (count // step) * step
            await writer.close()
            label = f"writer, {segment_count} segment(s), {name}"
            print(
                f"{label:44} {cpu_s * 1e9 / count:9.1f} ns/event {count / wall_s / 1e6:9.2f} M events/s, wall"
            )
    services.pool.close()
    await services.supervisor.stop()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="small sizes: does it run at all?")
    smoke = parser.parse_args().smoke
    count, rounds = (2000, 1) if smoke else (100_000, 5)
    chance = random.Random(1)
    measure_bytes("100 B", [chance.randbytes(100) for _ in range(count)], rounds)
    measure_bytes("50-150 B", [chance.randbytes(chance.randrange(50, 151)) for _ in range(count)], rounds)
    measure_bytes("1 KiB", [chance.randbytes(1024) for _ in range(count // 5)], rounds)
    measure_routing(count * 5, rounds)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    server = context.Process(target=serve, args=(theirs,), daemon=True)
    server.start()
    try:
        with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
            runner.run(measure_writer(ours.recv(), 10_000 if smoke else 1_000_000, 1 if smoke else 3))
    finally:
        server.kill()
        server.join()


if __name__ == "__main__":
    main()

"""Catch-up read (P7): one reader over history in chunks, beside a Python socket copy of as many bytes.

The stream is written, its server stopped (so everything is stored) and started again with an empty cache.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import threading

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client import connect


def socket_copy_rate(total_bytes: int) -> float:
    """MB/s of one Python process sending to another thread over loopback in pieces of 1 MiB: the floor."""
    server = socket.create_server(("127.0.0.1", 0))
    piece = bytes(1 << 20)

    def send() -> None:
        connection, _ = server.accept()
        with connection:
            for _ in range(total_bytes >> 20):
                connection.sendall(piece)

    sender = threading.Thread(target=send)
    sender.start()
    buffer = bytearray(1 << 20)
    received = 0
    with socket.create_connection(server.getsockname()) as connection:
        began = now()
        while count := connection.recv_into(buffer):
            received += count
        seconds = now() - began
    sender.join()
    server.close()
    assert received == total_bytes >> 20 << 20
    return received / seconds / 1e6


async def fill(server: BenchServer, total_bytes: int, size: int) -> int:
    count = total_bytes // (size + 8)
    batch = [b"x" * size] * max(1, (1 << 20) // size)
    written = 0
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", "history")
        async with client.event_writer("bench", "history") as writer:
            while written < count:
                ack = writer.write_many(batch)
                written += len(batch)
                if writer.bytes_held > 16 << 20:
                    await ack
            await writer.flush()
    return written


async def read(server: BenchServer) -> tuple[int, int, float]:
    events = size = 0
    async with connect(server.uri) as client:
        began = now()
        async with client.event_reader("bench", "history", end="tail") as reader:
            async for batch in reader.batches():
                events += len(batch)
                size += batch.size_bytes
        return events, size, now() - began


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=1000)
    args = parser.parse_args(arguments)
    total = (8 if args.smoke else args.megabytes) << 20
    with BenchServer() as server:
        for size in (1024,):
            written = asyncio.run(fill(server, total, size))
            server.stop()
            server.start()
            floor = socket_copy_rate(total)
            events, size_bytes, seconds = asyncio.run(read(server))
            assert events == written, f"{events} of {written} events"
            rate = size_bytes / seconds / 1e6
            print(
                f"catch-up of {written} events of {size} B from chunks: {rate:.0f} MB/s, "
                f"{events / seconds / 1e3:.0f} k events/s (floor, socket copy: {floor:.0f} MB/s; "
                f"ratio {rate / floor:.2f})",
                flush=True,
            )
            events, size_bytes, seconds = asyncio.run(read(server))
            print(f"again, partly from memory: {size_bytes / seconds / 1e6:.0f} MB/s")


if __name__ == "__main__":
    main()

"""Catch-up read (P7): one reader over history in chunks, beside a Python socket copy of as many bytes.

The stream is written, its server stopped (so everything is stored) and started again with an empty cache.
Rates depend on who else uses the machine; CPU per MiB of both sides, beside that of the floor, does so less.
A second floor reads the bytes from a file in the page cache and verifies them before it sends them: what no
server of stored bytes can leave out.
"""

from __future__ import annotations

import argparse
import mmap
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from crc32c import crc32c

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client import connect
from headrace.client.vectors import find_numpy
from headrace.runtime import loops


@dataclass(slots=True)
class Cost:
    """What moving ``size`` bytes took: wall time, and CPU of the sending and of the taking side."""

    size: int
    seconds: float
    sender_s: float
    taker_s: float

    @property
    def rate(self) -> float:
        """MB/s."""
        return self.size / self.seconds / 1e6

    @property
    def cpu_us(self) -> float:
        """CPU of both sides per MiB."""
        return (self.sender_s + self.taker_s) * 1e6 / (self.size / (1 << 20))

    def __str__(self) -> str:
        mib = self.size / (1 << 20)
        return (
            f"{self.rate:.0f} MB/s, CPU per MiB {self.cpu_us:.0f} us "
            f"({self.sender_s * 1e6 / mib:.0f} to send, {self.taker_s * 1e6 / mib:.0f} to take)"
        )


def socket_copy(total_bytes: int) -> Cost:
    """One Python thread sends to another over loopback in pieces of 1 MiB: the floor."""
    return _copy(total_bytes, lambda connection, _: connection.sendall(_PIECE))


def verified_copy(total_bytes: int) -> Cost:
    """The same of a file, each piece read out of the page cache and checksummed: the bare way of a chunk."""
    buffer = memoryview(mmap.mmap(-1, 1 << 20))
    with tempfile.TemporaryFile() as file:
        for _ in range(total_bytes >> 20):
            file.write(_PIECE)
        file.flush()

        def send(connection: socket.socket, number: int) -> None:
            os.preadv(file.fileno(), [buffer], number << 20)
            crc32c(buffer)
            connection.sendall(buffer)

        return _copy(total_bytes, send)


_PIECE = os.urandom(1 << 20)


def _copy(total_bytes: int, send_piece: Callable[[socket.socket, int], None]) -> Cost:
    server = socket.create_server(("127.0.0.1", 0))
    sender_s = 0.0

    def send() -> None:
        nonlocal sender_s
        connection, _ = server.accept()
        began = time.thread_time()
        with connection:
            for number in range(total_bytes >> 20):
                send_piece(connection, number)
        sender_s = time.thread_time() - began

    sender = threading.Thread(target=send)
    sender.start()
    buffer = bytearray(1 << 20)
    received = 0
    with socket.create_connection(server.getsockname()) as connection:
        began, cpu = now(), time.thread_time()
        while count := connection.recv_into(buffer):
            received += count
        seconds, taker_s = now() - began, time.thread_time() - cpu
    sender.join()
    server.close()
    assert received == total_bytes >> 20 << 20
    return Cost(received, seconds, sender_s, taker_s)


async def fill(server: BenchServer, total_bytes: int, size: int) -> int:
    count = total_bytes // (size + 8)
    batch = [b"x" * size] * max(1, (1 << 20) // size)
    written = 0
    async with connect(server.uri) as client:
        await client.create_scope("bench")
        await client.create_stream("bench", "history")
        async with client.event_writer("bench", "history") as writer:
            while written < count:
                writer.write_many(batch)
                written += len(batch)
                await writer.drain()
            await writer.flush()
    return written


async def read(server: BenchServer) -> tuple[int, Cost]:
    events = size = 0
    async with connect(server.uri) as client:
        reader = await client.event_reader("bench", "history", end="tail")
        began, server_s, cpu = now(), server.cpu_s(), time.process_time()
        async with reader:
            async for batch in reader.batches():
                events += len(batch)
                size += batch.size_bytes
        cost = Cost(size, now() - began, server.cpu_s() - server_s, time.process_time() - cpu)
    return events, cost


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args(arguments)
    total = (8 if args.smoke else args.megabytes) << 20
    args.rounds = 1 if args.smoke else args.rounds
    with BenchServer() as server:
        find_numpy()  # not the reader's time
        size = 1024
        written = loops.run(fill(server, total, size))
        for round_number in range(args.rounds):
            server.stop()
            server.start()
            floor, bare = socket_copy(total), verified_copy(total)
            events, cost = loops.run(read(server))
            assert events == written, f"{events} of {written} events"
            print(
                f"{round_number + 1}. catch-up of {written} events of {size} B from chunks: {cost}\n"
                f"   floor, socket copy: {floor}\n"
                f"   ratio {cost.rate / floor.rate:.2f} by rate, {floor.cpu_us / cost.cpu_us:.2f} by CPU\n"
                f"   read, verified and sent: {bare}\n"
                f"   ratio {cost.rate / bare.rate:.2f} by rate, {bare.cpu_us / cost.cpu_us:.2f} by CPU",
                flush=True,
            )
            print(f"   again, partly from memory: {loops.run(read(server))[1]}", flush=True)


if __name__ == "__main__":
    main()

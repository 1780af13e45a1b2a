"""What an append block costs the server: CPU per block of the loop's thread and of the other threads.

A sender with nothing but a socket sends blocks as the Java and Rust clients do (``AppendBlock`` and
``AppendBlockEnd``), encoded beforehand, with a window of bytes in flight. CPU is steadier than rates:
compare it with the budgets. Blocks are counted back by the length of the segment.

    python -m benchmarks.blocks [--seconds N] [--smoke]
"""

from __future__ import annotations

import argparse
import os
import socket
import struct
from pathlib import Path

from benchmarks.floor import now
from benchmarks.server import BenchServer
from headrace.client.blocking import connect
from headrace.wire.commands import AppendBlock, AppendBlockEnd, DataAppended, Hello, SetupAppend
from headrace.wire.frames import FrameDecoder, encode

WINDOW_BYTES = 8 << 20
TICKS = os.sysconf("SC_CLK_TCK")
BUDGET_US = {100: 1.5, 10_800: 9.0, 65_536: 42.0, 1 << 20: 680.0}
"""Loop time per block that the whole server may use, by payload size."""

_TAIL = struct.Struct(">iqq")


class Sender:
    """One writer on one socket."""

    def __init__(self, address: str, segment: str) -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.decoder = FrameDecoder.for_client()
        self.writer_id = os.urandom(16)
        self.number = 0
        self.acknowledged = 0
        self.length = 0
        self.socket.sendall(encode(Hello(17, 5)))
        self.socket.sendall(encode(SetupAppend(1, self.writer_id, segment, "")))
        self.receive()  # the greeting, and perhaps the setup; acknowledgements are what counts later

    def blocks(self, size: int, count: int) -> list[bytearray]:
        """``count`` blocks of one event each, in pieces of about a megabyte."""
        event = struct.pack(">ii", 0, size - 8) + b"x" * (size - 8)
        head = encode(AppendBlock(self.writer_id, event))
        pieces = [bytearray()]
        for number in range(self.number + 1, self.number + count + 1):
            if len(pieces[-1]) > 1 << 20:
                pieces.append(bytearray())
            pieces[-1] += head
            pieces[-1] += encode(AppendBlockEnd(self.writer_id, size, b"", 1, number, number))
        self.number += count
        return pieces

    def receive(self) -> None:
        self.decoder.feed(self.socket.recv(1 << 18))
        while (reply := self.decoder.next_command()) is not None:
            if isinstance(reply, DataAppended):
                self.acknowledged = reply.event_number
                self.length = reply.current_segment_write_offset

    def send(self, pieces: list[bytearray], size: int) -> None:
        """Send all, at most a window ahead of the acknowledgements, and wait for the last of these."""
        window = max(1, WINDOW_BYTES // size)
        first = self.number - sum(len(piece) for piece in pieces) // (size + 60)
        sent = max(first, self.acknowledged)
        for piece in pieces:
            self.socket.sendall(piece)
            sent += len(piece) // (size + 60)
            while sent - self.acknowledged > window:
                self.receive()
        while self.acknowledged < self.number:
            self.receive()


class ThreadClock:
    """User and system seconds of the server's loop thread and of all its threads."""

    def __init__(self, pid: int) -> None:
        self.loop = Path(f"/proc/{pid}/task/{pid}/stat")
        self.all = Path(f"/proc/{pid}/stat")

    def read(self) -> tuple[float, float, float]:
        def ticks(path: Path) -> tuple[float, float]:
            fields = path.read_text().rpartition(")")[2].split()
            return int(fields[11]) / TICKS, int(fields[12]) / TICKS

        loop_user, loop_system = ticks(self.loop)
        return loop_user, loop_system, sum(ticks(self.all))


def measure(server: BenchServer, sender: Sender, size: int, seconds: float) -> None:
    rounds = 0
    blocks = 0
    pieces_of = max(1, min(20_000, (32 << 20) // size))
    sender.send(sender.blocks(size, max(1, pieces_of // 4)), size)  # warm: files, arenas, code
    clock = ThreadClock(server.process.pid)
    loop_user = loop_system = total = elapsed = 0.0
    while elapsed < seconds or not rounds:
        pieces = sender.blocks(size, pieces_of)  # not timed
        before, began = clock.read(), now()
        sender.send(pieces, size)
        elapsed += now() - began
        after = clock.read()
        loop_user += after[0] - before[0]
        loop_system += after[1] - before[1]
        total += after[2] - before[2]
        blocks += pieces_of
        rounds += 1
    loop = loop_user + loop_system
    per_block = [value / blocks * 1e6 for value in (loop, loop_user, loop_system, total - loop)]
    print(
        f"{size:>9} {blocks / elapsed / 1e3:>10.1f} {blocks * size / elapsed / 1e6:>8.0f} "
        f"{per_block[0]:>12.2f} "
        + " ".join(f"{value:>8.2f}" for value in per_block[1:])
        + f" {BUDGET_US[size]:>8.1f} {per_block[0] / BUDGET_US[size]:>6.2f}",
        flush=True,
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--seconds", type=float, default=3.0, help="of sending, per size")
    args = parser.parse_args(arguments)
    print("    block   k blocks/s     MB/s  loop us/block     user   kernel  threads   budget  ratio")
    with BenchServer() as server:
        with connect(server.uri) as client:
            client.create_scope("bench")
            client.create_stream("bench", "blocks")
        sent = 0
        sender = Sender(server.addresses["segmentstore"], "bench/blocks/0.#epoch.0")
        for size in BUDGET_US:
            before = sender.number
            measure(server, sender, size, 0.1 if args.smoke else args.seconds)
            sent += (sender.number - before) * size
        assert sender.length == sent, f"{sender.length} bytes are there, {sent} were sent"


if __name__ == "__main__":
    main()

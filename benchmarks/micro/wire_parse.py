"""CPU per append of the parser, next to its floor: copying the same bytes, and unpacking the same heads.

    python benchmarks/micro/wire_parse.py [--size 100] [--count 200000]

Figures are microseconds of CPU per append, medians of five rounds that alternate with their floors.
"""

from __future__ import annotations

import argparse
import statistics
import struct
import time

from headrace.wire import commands as c
from headrace.wire.append_block import AppendBatch, take_batch, wanted
from headrace.wire.frames import HEAD, RECEIVE_BUFFER_BYTES, FrameDecoder, decode_payload, encode

WRITER = bytes(range(16))


def shape_a(data: bytes, number: int) -> bytes:
    return encode(c.AppendBlockEnd(WRITER, len(data), data, 1, number, 7))


def shape_b(data: bytes, number: int) -> bytes:
    return encode(c.AppendBlock(WRITER, data)) + encode(
        c.AppendBlockEnd(WRITER, len(data), b"", 1, number, 7)
    )


def parse(stream: bytes, target: bytearray) -> int:
    """Take runs out of a receive buffer and copy their payload into a frame, as the server does."""
    decoder = FrameDecoder.for_server()
    batch = AppendBatch()
    source = memoryview(stream)
    frame = memoryview(target)
    taken = at = 0
    while at < len(stream):
        room = decoder.get_buffer()
        size = min(len(room), len(stream) - at)
        room[:size] = source[at : at + size]
        decoder.buffer_updated(size)
        at += size
        while True:
            after = take_batch(decoder.buffer, decoder.view, decoder.begin, decoder.end, batch)
            if after == decoder.begin:
                break
            decoder.begin = after
            taken += len(batch.numbers)
            place = 0
            for piece in batch.pieces:
                end = place + len(piece)
                frame[place:end] = piece
                place = end
        if decoder.begin < decoder.end:
            decoder.wanted = wanted(decoder.buffer, decoder.begin, decoder.end)
    return taken


def parse_commands(stream: bytes, _target: bytearray) -> int:
    """The same through ordinary command objects."""
    decoder = FrameDecoder.for_server()
    decoder.feed(stream)
    taken = 0
    for command in decoder.commands():
        if isinstance(command, c.AppendBlockEnd):
            taken += 1
    return taken


def floor_copy(stream: bytes, _target: bytearray) -> int:
    """Only the copy from the socket's side into the buffer."""
    buffer = memoryview(bytearray(RECEIVE_BUFFER_BYTES))
    source = memoryview(stream)
    for at in range(0, len(stream), RECEIVE_BUFFER_BYTES):
        piece = source[at : at + RECEIVE_BUFFER_BYTES]
        buffer[: len(piece)] = piece
    return 0


def floor_heads(stream: bytes, target: bytearray) -> int:
    """The copy, and one unpack and one copy of payload per frame: what any parser in Python pays."""
    floor_copy(stream, target)
    view, frame = memoryview(stream), memoryview(target)
    at, end = 0, len(stream)
    unpack = struct.Struct(">ii16s").unpack_from
    while at < end:
        _, length, _ = unpack(stream, at)
        after = at + 8 + length
        frame[: after - at] = view[at:after]
        at = after
    return 0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--size", type=int, default=100)
    arguments.add_argument("--count", type=int, default=100_000)
    arguments.add_argument("--smoke", action="store_true", help="the smallest size: does it still run?")
    options = arguments.parse_args()
    if options.smoke:
        options.count = 1000
    data = struct.pack(">ii", 0, max(0, options.size - 8)) + bytes(max(0, options.size - 8))
    target = bytearray(max(1 << 20, 2 * options.size + 100))
    print(f"{options.count} appends of {len(data)} bytes; CPU us per append (ratio to the floor of heads)")
    for name, shape in (("AppendBlockEnd alone", shape_a), ("AppendBlock + AppendBlockEnd", shape_b)):
        stream = b"".join(shape(data, number + 1) for number in range(options.count))
        rounds: dict[str, list[float]] = {}
        for _ in range(5):
            for variant in (floor_copy, floor_heads, parse, parse_commands):
                begin = time.process_time()
                taken = variant(stream, target)
                rounds.setdefault(variant.__name__, []).append(time.process_time() - begin)
                assert taken in {0, options.count}
        floor = statistics.median(rounds["floor_heads"])
        print(f"  {name}")
        for variant_name, seconds in rounds.items():
            median = statistics.median(seconds)
            print(f"    {variant_name:15} {1e6 * median / options.count:7.3f}  ({median / floor:4.2f})")


if __name__ == "__main__":
    assert decode_payload(100, b"") == c.KeepAlive()
    assert HEAD.size == 8
    main()

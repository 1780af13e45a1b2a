"""Large events of the Java client, the Rust one and ours, each read by the others."""

import asyncio
import sys
import zlib

import pytest

import headrace
from headrace.client.blocking import connect
from headrace.limits import MIB
from tests.effort import soak
from tests.interop.java_programs import needs_java_client, run_program

HAS_WHEEL = sys.version_info < (3, 12)

if HAS_WHEEL:
    import pravega_client as wheel

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

needs_wheel = pytest.mark.skipif(not HAS_WHEEL, reason="the wheel pravega has no build for Python 3.12")

PERIOD = bytes(offset * 31 % 256 for offset in range(256))
SIZES = [10, 10 * MIB + 5, 9 * MIB, 11]
GIBIBYTE = 1 << 30


def event_of(size):
    return (PERIOD * (size // 256 + 1))[:size]


def sums_of(sizes):
    return [[str(size), str(zlib.crc32(event_of(size)))] for size in sizes]


@pytest.fixture
def stream(server, scope):
    with connect(server.uri) as client:
        client.create_scope(scope)
        client.create_stream(f"{scope}/large")
    return scope, "large"


def written(server, stream, sizes):
    with connect(server.uri) as client, client.event_writer(*stream) as writer:
        for size in sizes:
            writer.write(event_of(size), "key")


def read(server, stream, bytes_max=256 * MIB):
    config = headrace.ReaderConfig(event_bytes_max=bytes_max)
    with connect(server.uri) as client:
        return [
            [str(len(each.data)), str(zlib.crc32(each.data))] for each in client.read(*stream, config=config)
        ]


@needs_java_client
def test_large_events_of_the_java_client_are_read_and_ours_by_it(server, stream):
    run_program("LargeEvents", server.uri, *stream, "write", *map(str, SIZES))
    written(server, stream, SIZES)
    assert read(server, stream) == sums_of(SIZES * 2)
    assert run_program("LargeEvents", server.uri, *stream, "read", "8") == sums_of(SIZES * 2)


@needs_wheel
async def test_large_events_of_the_rust_client_are_read_and_ours_by_it(server, stream):
    sizes = [10, 9 * MIB, 15 * MIB, 11]  # it has a limit of 16 MiB
    manager = wheel.StreamManager(server.uri)
    writer = manager.create_writer(*stream)
    for size in sizes:
        writer.write_event_bytes(event_of(size), "key")
        writer.flush()
    await asyncio.to_thread(written, server, stream, sizes)
    assert await asyncio.to_thread(read, server, stream) == sums_of(sizes * 2)
    reader = manager.create_reader_group("large", *stream).create_reader("reader")
    seen = []
    while len(seen) < 8:
        part = await asyncio.wait_for(reader.get_segment_slice_async(), 60)
        seen += [[str(len(data)), str(zlib.crc32(data))] for data in (bytes(each.data()) for each in part)]
        reader.release_segment(part)
    assert seen == sums_of(sizes * 2)


@soak
@needs_java_client
def test_a_gibibyte_of_the_java_client_and_of_ours(server, stream):
    run_program("LargeEvents", server.uri, *stream, "write", str(GIBIBYTE), timeout_s=600)
    written(server, stream, [GIBIBYTE])
    assert read(server, stream, GIBIBYTE) == sums_of([GIBIBYTE] * 2)
    assert run_program("LargeEvents", server.uri, *stream, "read", "2", timeout_s=600) == sums_of(
        [GIBIBYTE] * 2
    )

import asyncio
from array import array

import pytest

from headrace.client import WriterConfig
from headrace.errors import (
    ClosedError,
    InvalidArgumentError,
    PreconditionError,
    SegmentSealedError,
    SegmentTruncatedError,
    ThrottledError,
)


async def test_bytes_come_back_as_they_were_written(system, client):
    system.controller.create("s", "t")
    async with client.byte_writer("s", "t") as writer:
        await writer.write(b"hello ")
        await writer.write(bytearray(b"x" * (9 << 20)))
        assert await writer.tail_offset() == 6 + (9 << 20)
        assert await writer.head_offset() == 0
        await writer.seal()
    async with client.byte_reader("s", "t") as reader:
        assert await reader.read_exactly(6) == b"hello "
        assert reader.tell() == 6
        assert await reader.read_exactly(10 << 20) == b"x" * (9 << 20)
        assert await reader.read(10) == b""
        await reader.seek(4)
        assert await reader.read_exactly(3) == b"o x"


async def test_a_reader_waits_for_bytes_that_come(system, client):
    system.controller.create("s", "t")
    async with client.byte_writer("s", "t") as writer, client.byte_reader("s", "t") as reader:
        waiting = asyncio.ensure_future(reader.read(100))
        await writer.write(b"now")
        assert await waiting == b"now"


async def test_lost_connections_do_not_double_bytes(system, client):
    system.controller.create("s", "t")
    system.store.faults.drop_after_append = 0.3
    system.store.faults.drop_before_append = 0.2
    async with client.byte_writer("s", "t") as writer:
        for number in range(50):
            writer.write(b"%03d" % number)
            if number % 7 == 0:
                await asyncio.sleep(0)
    assert bytes(system.store.segments["s/t/0.#epoch.0"].data) == b"".join(b"%03d" % n for n in range(50))


async def test_a_sealed_segment_ends_the_byte_stream(system, client):
    system.controller.create("s", "t")
    async with client.byte_writer("s", "t") as other:
        await other.write(b"x")
        writer = await client.byte_writer("s", "t")
        await writer.write(b"y")
        await other.seal()
        with pytest.raises(SegmentSealedError):
            await writer.write(b"z")
        with pytest.raises(SegmentSealedError):
            writer.write(b"z")
        with pytest.raises(SegmentSealedError):
            await writer.close()


async def test_truncated_bytes_are_reported_with_where_to_go_on(system, client):
    system.controller.create("s", "t")
    async with client.byte_writer("s", "t") as writer:
        await writer.write(b"0123456789")
        await writer.truncate(4)
        assert await writer.head_offset() == 4
        async with client.byte_reader("s", "t") as reader:
            with pytest.raises(SegmentTruncatedError) as caught:
                await reader.read(1)
            await reader.seek(caught.value.start_offset)
            assert await reader.read_exactly(6) == b"456789"


async def test_a_stream_with_several_segments_is_no_byte_stream(system, client):
    system.controller.create("s", "t", 2)
    with pytest.raises(PreconditionError):
        await client.byte_writer("s", "t")
    with pytest.raises(PreconditionError):
        await client.byte_reader("s", "t")


async def test_the_window_is_bounded_and_a_closed_writer_refuses(system, client):
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    config = WriterConfig(block_bytes_max=1024, window_bytes_max=2048)
    writer = await client.byte_writer("s", "t", config)
    writer.write(bytes(3000))
    with pytest.raises(ThrottledError):
        writer.write(b"x")
    system.store.ack_gate.set()
    await writer.close()
    with pytest.raises(ClosedError):
        writer.write(b"x")


async def test_who_waits_for_room_hears_that_the_writer_was_closed_without_it(system, client):
    system.controller.create("s", "t")
    system.store.ack_gate = asyncio.Event()
    writer = await client.byte_writer("s", "t", WriterConfig(window_bytes_max=4096, block_bytes_max=1024))
    writer.write(b"x" * 4096)
    waiting = asyncio.ensure_future(writer.drain())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await writer.close()
    async with asyncio.timeout(120):
        await waiting
    system.store.ack_gate.set()


async def test_what_is_no_bytes_is_not_written(system, client):
    system.controller.create("s", "t")
    async with client.byte_writer("s", "t") as writer:
        for wrong in (5, "text", [1, 2]):
            with pytest.raises(InvalidArgumentError):
                writer.write(wrong)
        await writer.write(memoryview(array("i", [1, 2])))
    assert bytes(system.store.segments["s/t/0.#epoch.0"].data) == array("i", [1, 2]).tobytes()

"""A server that freezes, with all of its connections open: when it is left, and when not."""

import asyncio

import pytest

from headrace.client.connections.pool import ConnectionPool
from headrace.client.segment_address import SegmentAddress
from headrace.errors import ConnectionLostError
from headrace.model.endpoint import Endpoint
from headrace.testing.simulation import simulate
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode

STORE = Endpoint("store", 7000)
ADDRESS = SegmentAddress("s", "t", 0)


async def serve(reader, writer):
    """Answer signs of life, and nothing about segments."""
    decoder = FrameDecoder()
    while data := await reader.read(1 << 16):
        decoder.feed(data)
        while (command := decoder.next_command()) is not None:
            if isinstance(command, c.Hello | c.KeepAlive):
                writer.write(encode(command))
    writer.close()


def ask_silent_store(*, freezes, moves_after_s, address=ADDRESS):
    """Ask a store that does not answer; return how long that took, in virtual seconds, and how often it was
    asked whether it is gone.
    """

    async def scenario(sim):
        store, client = sim.host("store"), sim.host("client")
        await store.run(asyncio.start_server(serve, port=STORE.port))
        loop = asyncio.get_running_loop()
        asked = []

        async def is_gone(endpoint, addresses):
            assert endpoint == STORE
            asked.append(addresses)
            return bool(addresses) and loop.time() - began > moves_after_s

        async def call():
            pool = ConnectionPool(is_gone=is_gone)
            question = c.GetStreamSegmentInfo(0, ADDRESS.name, "")
            calling = asyncio.ensure_future(pool.call(STORE, question, timeout_s=90.0, address=address))
            await asyncio.sleep(0.5)  # virtual: it is connected
            if freezes:
                store.pause()
            with pytest.raises(ConnectionLostError) as failed:
                await calling
            pool.close()
            return str(failed.value)

        began = loop.time()
        said = await client.run(call())
        took_s = loop.time() - began
        store.kill()
        return took_s, len(asked), said

    return simulate(0, scenario).value


def test_a_store_that_froze_is_left_as_soon_as_another_one_serves_what_it_had():
    took_s, asked, said = ask_silent_store(freezes=True, moves_after_s=7.0)
    assert 7.0 < took_s < 9.0
    assert asked > 1
    assert "another store serves it" in said


def test_a_store_that_froze_and_is_still_the_owner_is_waited_for():
    took_s, asked, said = ask_silent_store(freezes=True, moves_after_s=1000.0)
    assert took_s > 60.0
    assert asked > 50
    assert "nothing received for" in said


def test_a_store_that_is_slow_to_answer_and_shows_signs_of_life_is_not_doubted():
    took_s, asked, said = ask_silent_store(freezes=False, moves_after_s=0.0)
    assert took_s > 89.0
    assert asked == 0
    assert "was not answered within 90" in said

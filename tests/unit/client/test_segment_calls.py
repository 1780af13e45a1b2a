import asyncio

import pytest

from headrace.errors import NoSuchSegmentError, NoSuchStreamError


async def test_a_segment_tells_its_length_start_and_seal(system, client):
    system.controller.create("s", "t")
    system.store.segments["s/t/0.#epoch.0"].data += b"x" * 30
    system.store.segments["s/t/0.#epoch.0"].start = 10
    info = await client.segment_info("s", "t", 0)
    assert (info.start_offset, info.length, info.sealed) == (10, 30, False)
    system.controller.seal_now("s", "t")
    assert (await client.segment_info("s", "t", 0)).sealed
    with pytest.raises(NoSuchSegmentError):
        await client.segment_info("s", "t", 7)


@pytest.mark.parametrize("version", [17, 16])
async def test_an_event_boundary_is_located_or_the_length_given_if_the_server_is_too_old(
    system, client, version
):
    system.store.version = version
    system.controller.create("s", "t")
    system.store.segments["s/t/0.#epoch.0"].data += b"x" * 30
    assert await client.locate_offset("s", "t", 0, 5) == 30
    assert system.store.counts["LocateOffset"] == (version == 17)


async def test_a_server_of_another_time_is_not_talked_to(system, client):
    system.store.version = 4
    system.controller.create("s", "t")
    async with client.read_segment_range("s", "t", 0, 0, 0) as part:
        assert await part.read_all() == b""
    system.store.counts.clear()
    waiting = client.locate_offset("s", "t", 0, 5)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await waiting
    assert system.store.counts["connections"] > 1


async def test_head_and_tail_are_cuts_of_the_stream(system, client):
    system.controller.create("s", "t", 2)
    system.store.segments["s/t/1.#epoch.0"].data += b"x" * 30
    assert (await client.head_cut("s", "t")).offsets == {0: 0, 1: 0}
    assert (await client.tail_cut("s", "t")).offsets == {0: 0, 1: 30}
    info = await client.stream_info("s", "t")
    assert not info.sealed
    system.controller.seal_now("s", "t")
    assert (await client.tail_cut("s", "t")).offsets == {}
    assert (await client.stream_info("s", "t")).sealed
    with pytest.raises(NoSuchStreamError):
        await client.tail_cut("s", "missing")


async def test_a_call_is_repeated_when_its_connection_breaks(system, client):
    system.controller.create("s", "t")
    await client.segment_info("s", "t", 0)
    system.store.drop_connections()
    assert (await client.segment_info("s", "t", 0)).length == 0

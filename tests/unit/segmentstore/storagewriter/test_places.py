"""Places of suspects that become free are used: who waits behind a slow segment does not wait longer."""

import asyncio
from dataclasses import replace

from tests.unit.segmentstore.storagewriter.test_storage_writer import CONFIG, make_world, running, simulated


@simulated
async def test_a_slow_segment_moves_over_as_soon_as_there_is_a_place_among_the_suspects():
    world = make_world(writer_config=replace(CONFIG, flushes_max=1))
    delays = {"slow": 5.0, "slower": 50.0}
    world.provider.delay_s = lambda name: delays.get(name.removeprefix("c0/").partition(".")[0], 0.0)
    async with running(world):
        for name in ("slow", "slower", "quick"):
            world.append(name, b"x" * 1000)
        # At 2 s "slow" is a suspect, and "slower" begins; at 4 s the only place of suspects is taken.
        await asyncio.sleep(4.5)
        assert world.segments["slow"].stored_length == 0
        await asyncio.sleep(3.5)
        assert world.segments["slow"].stored_length == 1000, "its place is free"
        assert world.segments["slower"].stored_length == 0, "it hangs"
        assert world.segments["quick"].stored_length == 1000
        await asyncio.sleep(100.0)
    delays.clear()
    await world.check_stored()
    assert world.writer.statistics().flushes_active == 0

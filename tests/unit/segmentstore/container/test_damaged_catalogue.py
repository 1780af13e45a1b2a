"""A damaged block of the catalogue keeps idle segments from being read, and nobody else from anything."""

import asyncio

from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

IDLE = [f"s/{number}" for number in range(6)]
PATIENCE_S = 20.0


def damage(bench):
    """Flip a bit of every object of the catalogue: a second call mends them."""
    found = [
        bytes_ for name, bytes_ in bench.chunks.objects.items() if name.startswith("_system/containers/")
    ]
    for content in found:
        content[200] ^= 1
    assert found


async def test_who_is_active_is_served_beside_a_damaged_catalogue(caplog):
    bench = Bench()
    container = await bench.start()
    for name in IDLE:
        await container.create(name, {})
        await append(container, name, b"data")
    await bench.evict(*IDLE)
    for name in ("s/live", "s/gone"):
        await container.create(name, {})
        await append(container, name, b"live")
    await container.log.write_checkpoint()
    await container.flush_storage()
    damage(bench)
    container = await bench.start()
    await container.delete(await container.resolve("s/gone"))
    taken = container.state.sequence
    async with asyncio.timeout(PATIENCE_S):
        await container.log.write_checkpoint()
        await until(lambda: "cannot be removed from the catalogue" in caplog.text)
        await append(container, "s/live", b" on")
        assert await read_all(container, "s/live") == b"live on"
        assert container.online
        assert not bench.failures
        assert container.log.truncated_sequence < taken
        damage(bench)
        await until(lambda: not container.state.departing and container.log.truncated_sequence > taken)
        assert await read_all(container, IDLE[0]) == b"data"
    await bench.stop()

"""A damaged block of the catalogue keeps idle segments from being read, and nobody else from anything."""

import asyncio

import pytest

from headrace.errors import DataCorruptionError, NoSuchSegmentError
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

IDLE = [f"s/{number}" for number in range(6)]
PATIENCE_S = 120


def damage(bench):
    """Flip a bit of every object of the catalogue: a second call mends them."""
    found = [
        bytes_
        for name, bytes_ in bench.chunks.objects.items()
        if name.startswith("c0/_system/containers/meta")
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
        assert container.log.truncated_sequence > taken, "what is deleted is in the checkpoint"
        assert container.state.retired
        damage(bench)
        await until(lambda: not container.state.retired)
        assert await read_all(container, IDLE[0]) == b"data"
    await bench.stop()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["deleted", "merged"])
async def test_a_row_that_outlives_its_segment_in_the_log_brings_nothing_back(way, monkeypatch):
    """The log was cut behind the end of a segment whose row could not be removed, and the owner changed."""

    async def fail(*_):
        raise DataCorruptionError("a block fails its checksum")

    bench = Bench()
    container = await bench.start()
    for name in ("s/gone", "s/target"):
        await container.create(name, {})
        await append(container, name, b"data")
    await container.seal(await container.resolve("s/gone"))
    await bench.evict("s/gone")
    gone, target = await container.resolve("s/gone"), await container.resolve("s/target")
    monkeypatch.setattr(SegmentCatalogue, "remove", fail)
    if way == "deleted":
        await container.delete(gone)
    else:
        await container.merge(target, "s/gone")
    taken = container.state.sequence
    async with asyncio.timeout(PATIENCE_S):
        await container.log.write_checkpoint()
        await until(lambda: container.log.truncated_sequence > taken)
        assert gone in container.state.retired
        container = await bench.start()  # knows of it by the checkpoint alone
        with pytest.raises(NoSuchSegmentError):
            await container.resolve("s/gone")
        monkeypatch.undo()
        container = await bench.start()
        with pytest.raises(NoSuchSegmentError):
            await container.resolve("s/gone")
        await container.log.write_checkpoint()
        await until(lambda: not container.state.retired)
        container = await bench.start()
        with pytest.raises(NoSuchSegmentError):
            await container.resolve("s/gone")
        content = b"data" if way == "deleted" else b"datadata"
        assert await read_all(container, "s/target") == content
    await bench.stop()

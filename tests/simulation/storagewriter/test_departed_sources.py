"""What became of a merged source whose target is deleted before storage has joined them."""

from tests.simulation.worlds.writer_world import WriterWorld


async def test_a_source_merged_into_a_deleted_target_leaves_the_cache():
    """Found by the container simulation: its bytes counted as unstored for ever, until nothing was taken."""
    world = WriterWorld()
    world.append("s", b"target")
    world.append("s#1", b"source")
    world.seal("s#1")
    source = world.segments["s#1"]
    world.merge("s", "s#1")
    world.delete("s")
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()
    assert source.stored_deleted
    assert sorted(world.read_index.dropped) == ["s", "s#1"]

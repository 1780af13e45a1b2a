"""The storage writer against a log, a cache and a storage of its own."""

from headrace.testing.writer_world import WriterWorld


def busy_world(world: WriterWorld) -> WriterWorld:
    """Everything a writer can meet, in little."""
    world.append("s", b"0123456789" * 3)
    world.append("t", b"other")
    world.checkpoint()
    world.append("s#1", b"transaction one")
    world.seal("s#1")
    world.merge("s", "s#1")
    world.append("s", b"tail")
    world.truncate("s", 12)
    world.seal("empty")
    world.merge("s", "empty")
    world.checkpoint()
    world.append("gone", b"x" * 100)
    world.delete("gone")
    world.append("s", b"y" * 200)
    world.seal("t")
    world.checkpoint()
    return world


async def test_everything_done_to_segments_arrives_in_storage():
    world = busy_world(WriterWorld())
    await world.run_until_stored()
    await world.check_stored()
    assert world.acknowledged == world.sequence
    await world.check_no_garbage()


async def test_a_restart_without_a_crash_changes_nothing():
    world = busy_world(WriterWorld())
    await world.run_until_stored()
    world.restart()
    world.append("s", b"more")
    await world.run_until_stored()
    await world.check_stored()
    await world.check_no_garbage()

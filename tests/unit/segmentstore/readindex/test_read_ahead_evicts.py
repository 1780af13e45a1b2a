"""What looks whether storage has the next bytes at hand takes memory of the history for that."""

from __future__ import annotations

from headrace.limits import MIB
from tests.unit.segmentstore.readindex.world import World, pattern, settle, small_cache


async def test_looking_ahead_does_not_overwrite_the_bytes_that_are_about_to_be_answered():
    """The extent that a reader came for is the oldest of a full history when the look ahead takes memory."""
    # 16 MiB, a quarter of it for history: the least that grants a window of one piece.
    world = World(small_cache(4096, arena_bytes=16 * MIB, extent_bytes_max=1 * MIB))
    segment, other = world.create_stored("s", 8 * MIB), world.create_stored("other", 8 * MIB)
    # A slow reader from the beginning: it has got one piece, and the next one was read ahead.
    assert await world.read(segment, 0, 1 * MIB) == pattern(0, 1 * MIB)
    await settle()
    assert any(begin == 1 * MIB for _, begin, _ in world.storage.reads)
    # Somebody else reads other history meanwhile; the cache keeps the newest of all that.
    for piece in range(3):
        await world.read(other, (2 * piece + 1) * MIB, 1 * MIB)
        await settle()
    # By now the system has the rest of the segment in its page cache.
    world.storage.warm_bytes = 8 * MIB
    result = world.index.read_nowait(segment, 1 * MIB, 1 * MIB)
    assert result is not None
    size = result.length
    assert result.to_bytes() == pattern(1 * MIB, size)
    world.check()
    await world.close()

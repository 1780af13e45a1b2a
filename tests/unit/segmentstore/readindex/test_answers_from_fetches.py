"""What an answer that came from storage keeps in memory until it is sent."""

from __future__ import annotations

from headrace.limits import KIB, MIB
from tests.unit.segmentstore.readindex.world import World, pattern


async def test_a_small_answer_does_not_keep_all_that_was_fetched_with_it():
    """Slow clients are answered in pieces of 64 KiB, so that what they leave untaken is bounded by what is
    counted: a view of the mebibyte that was fetched is counted as 64 KiB, and keeps sixteen times that.
    """
    world = World()
    segment = world.create_stored("s", 4 * MIB)
    result = await world.index.read(segment, 0, 64 * KIB, wait=False)
    kept = sum(len(piece.obj) for piece in result.pieces)
    assert result.to_bytes() == pattern(0, 64 * KIB)
    await world.close()
    assert kept <= 128 * KIB

"""Whatever containers accept within their gates finds room in the cache they share, whatever readers hold."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.state.segment_state import SegmentState
from tests.unit.segmentstore.readindex.world import BLOCK, World, pattern, small_cache

BLOCKS = 512
EXTENT = 16


class Crowd:
    """Containers that fill a cache up as far as they may; the last one has stored segments in it."""

    def __init__(self, chance: random.Random, containers: int, share: float, blocks: int = BLOCKS) -> None:
        self.chance = chance
        self.cache = small_cache(blocks)
        accepted_bytes_max = round(blocks * share) // containers * BLOCK
        self.worlds = [World(self.cache, accepted_bytes_max=accepted_bytes_max) for _ in range(containers)]
        self.tails: list[SegmentState] = []
        self.unstored: list[tuple[World, SegmentState]] = []
        self.sources: dict[World, list[SegmentState]] = {}
        self.held: list[ReadResult] = []

    def store_tails(self, count: int, sizes: list[int]) -> None:
        world = self.worlds[-1]
        for number in range(count):
            segment = world.create(f"s{number}")
            world.append(segment, self.chance.choice(sizes))
            world.store(segment)
            self.tails.append(segment)

    def append_unstored(self, count: int, sizes: list[int]) -> None:
        """There are so many segments with bytes that storage lacks, as far as their containers may."""
        for number in range(count):
            world = self.worlds[number % len(self.worlds)]
            segment = world.create(f"u{number}")
            if world.accept(segment, self.chance.choice(sizes)):
                world.apply()
                self.unstored.append((world, segment))

    def append_sources(self, count: int, size: int, stored: float) -> None:
        """There are so many segments to merge, most of which storage has or has not."""
        for number in range(count):
            world = self.worlds[number % len(self.worlds)]
            source = world.create(f"s#{number}")
            if world.accept(source, size):
                world.apply()
                self.sources.setdefault(world, []).append(source)
                if self.chance.random() < stored:
                    world.store(source)

    def accept_behind_unstored(self, sizes: list[int], rounds: int) -> None:
        """Appends to segments that have such bytes, as far as the gates allow, and merges between them."""
        for _ in range(rounds):
            self.chance.shuffle(self.unstored)
            for world, segment in self.unstored:
                world.accept(segment, self.chance.choice(sizes))
                if self.sources.get(world) and world.accept_merge(segment, self.sources[world][-1]):
                    self.sources[world].pop()

    def hold_some(self, readers: float) -> None:
        """Readers take up to so much of what they may, and let go of some."""
        while self.held and self.chance.random() > readers:
            self.held.pop(self.chance.randrange(len(self.held))).release()
        for segment in self.tails:
            if self.chance.random() < readers:
                offset = self.chance.choice([0, BLOCK])
                result = self.worlds[-1].index.read_nowait(segment, offset, 32 * BLOCK)
                if result is not None:
                    self.held.append(result)

    def accept_all(self, sizes: list[int], step: int) -> None:
        """All go up to their gates, less what the last one needs to accept an append for each segment."""
        for world in self.worlds:
            tails = self.tails if world is self.worlds[-1] else []
            left = (4 * len(tails) + self.chance.choice([4, 8, 16])) * BLOCK
            backlog = world.create("backlog")
            while world.index.unstored_bytes() + left < self.cache.spare_bytes:
                world.accept(backlog, step)
                world.apply()
            for segment in tails:
                world.accept(segment, self.chance.choice(sizes))
            while world.accept(backlog, step):
                pass

    def apply_all(self, readers: float) -> None:
        while left := [world for world in self.worlds if world.in_flight]:
            self.chance.choice(left).apply(self.chance.randint(1, 20))
            self.hold_some(readers)

    def check(self) -> None:
        for world in self.worlds:
            world.check()
        for result in self.held:
            assert result.to_bytes() == pattern(result.offset, result.length)

    def close(self) -> None:
        assert self.cache.expected_bytes == 0
        for world in self.worlds:
            world.index.close()
        self.cache.check()
        assert self.cache.statistics().used_bytes == 0


@given(
    seed=st.integers(0, 1 << 32),
    containers=st.integers(1, 6),
    share=st.sampled_from([0.2, 0.3, 0.5, 0.8, 4.0]),
    tails=st.sampled_from([1, 8, 12, 16, 20]),
    stored=st.sampled_from(
        [[EXTENT * BLOCK - 100], [13 * BLOCK, 9 * BLOCK], [BLOCK, 5 * BLOCK, 16 * BLOCK - 1]]
    ),
    appended=st.sampled_from([[1], [5000], [1, 100, 5000, 9000]]),
    step=st.sampled_from([1000, 2 * BLOCK]),
    readers=st.sampled_from([0.0, 0.5, 1.0]),
    early=st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_what_was_accepted_finds_room(seed, containers, share, tails, stored, appended, step, readers, early):
    crowd = Crowd(random.Random(seed), containers, share)
    crowd.store_tails(tails, stored)
    if early:
        crowd.hold_some(readers)
    crowd.accept_all(appended, step)
    crowd.apply_all(readers)
    crowd.check()
    crowd.close()


@given(
    seed=st.integers(0, 1 << 32),
    containers=st.sampled_from([6, 12, 24]),
    share=st.sampled_from([0.15, 0.3, 0.5, 0.8, 4.0]),
    segments=st.sampled_from([100, 300]),
    unstored=st.sampled_from([[BLOCK], [1, BLOCK, 2 * BLOCK]]),
    appended=st.sampled_from([[1], [2 * BLOCK + 1], [1, BLOCK, 5000]]),
    rounds=st.sampled_from([1, 4]),
    sources=st.sampled_from([0, 300]),
    merged=st.sampled_from([1, 5 * BLOCK]),
    stored=st.sampled_from([1.0, 0.8]),
    readers=st.sampled_from([0.0, 0.5]),
)
@settings(max_examples=40, deadline=None)
def test_what_was_accepted_behind_unstored_bytes_finds_room(
    seed, containers, share, segments, unstored, appended, rounds, sources, merged, stored, readers
):
    crowd = Crowd(random.Random(seed), containers, share, blocks=2048)
    crowd.store_tails(8, [13 * BLOCK])
    crowd.append_sources(sources, merged, stored)
    crowd.append_unstored(segments, unstored)
    crowd.accept_behind_unstored(appended, rounds)
    crowd.accept_all([1, 5000], BLOCK)
    crowd.apply_all(readers)
    crowd.check()
    crowd.close()

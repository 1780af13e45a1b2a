from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.segmentstore.readindex.cache.block_layout import (
    BLOCK_BYTES,
    NO_BLOCK,
    BlockLayout,
    order_covering,
    order_within,
)


def make(blocks: int, order_max: int = 4) -> BlockLayout:
    layout = BlockLayout(order_max)
    layout.extend(blocks)
    layout.check()
    return layout


@pytest.mark.slow
@pytest.mark.parametrize("blocks", range(1, 70))
def test_any_number_of_blocks_can_be_handed_out_one_by_one_and_comes_back_whole(blocks):
    layout = make(blocks)
    before = layout.free_extents()
    taken = [layout.allocate(0) for _ in range(blocks)]
    assert sorted(taken) == list(range(blocks))
    assert layout.allocate(0) == NO_BLOCK
    assert layout.find_order(4) == -1
    for block in taken[::2] + taken[1::2]:
        layout.release(block, 0)
        layout.check()
    assert layout.free_extents() == before


def test_neighbours_of_a_small_extent_stay_together():
    layout = make(16)
    assert layout.allocate(0) == 0
    assert layout.free_extents() == [(1, 0), (2, 1), (4, 2), (8, 3)]


def test_a_large_extent_is_not_broken_while_a_small_one_fits():
    layout = make(32)
    small = layout.allocate(0)
    layout.allocate(0)
    assert layout.find_order(4) == 4
    layout.release(small, 0)
    assert layout.allocate(0) == small


def test_the_largest_possible_order_is_named_when_the_wanted_one_is_not_there():
    layout = make(16)
    layout.allocate(1)
    assert layout.find_order(4) == 3
    assert layout.find_order(2) == 2
    assert layout.allocate(4) == NO_BLOCK


@given(
    blocks=st.integers(1, 100),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1000)), max_size=80),
)
def test_extents_never_overlap_and_every_block_is_accounted_for(blocks, steps):
    layout = make(blocks)
    taken: list[tuple[int, int]] = []
    for order, choice in steps:
        if choice % 3 == 0 and taken:
            layout.release(*taken.pop(choice % len(taken)))
        else:
            block = layout.allocate(order)
            if block == NO_BLOCK:
                assert layout.find_order(order) < order
            else:
                taken.append((block, order))
        layout.check()
        owned = [number for block, order in taken for number in range(block, block + (1 << order))]
        free = [
            number for block, order in layout.free_extents() for number in range(block, block + (1 << order))
        ]
        assert sorted(owned + free) == list(range(blocks))


@given(st.integers(1, 1 << 24))
def test_orders_bracket_a_size(size):
    blocks = -(-size // BLOCK_BYTES)
    assert 1 << order_within(size) <= blocks <= 1 << order_covering(size)
    assert 2 << order_within(size) > blocks
    assert order_covering(size) == 0 or 1 << (order_covering(size) - 1) < blocks

import pytest

from headrace.segmentstore.readindex.cache.block_layout import BLOCK_BYTES as BLOCK
from headrace.segmentstore.readindex.cache.eviction_policy import TAIL
from headrace.segmentstore.readindex.cache.extent_evictions import ExtentEvictions
from headrace.segmentstore.readindex.cache.extent_memory import ExtentMemory
from headrace.segmentstore.readindex.cache.recency import RecencyQueue


def make_memory(orders: dict[int, int], blocks: int = 8) -> ExtentMemory:
    """Memory with full extents of these orders, by their first blocks."""
    memory = ExtentMemory(blocks * BLOCK)
    memory.add_blocks(blocks)
    for block, order in orders.items():
        memory.orders[block] = order
        memory.lengths[block] = BLOCK << order
    return memory


def test_extents_are_found_one_after_the_other_between_what_is_free():
    memory = make_memory({0: 1, 3: 0})
    assert list(memory.heads({2: 0, 4: 2})) == [(0, 1), (3, 0)]
    assert memory.count() == 2


@pytest.mark.parametrize(
    ("orders", "free"),
    [
        ({0: 1}, {2: 0, 4: 2}),  # block 3 is nowhere
        ({0: 2, 4: 2}, {4: 2}),  # block 4 is free and in use
        ({0: 0, 1: 1}, {3: 0, 4: 2}),  # an extent of two begins at an odd block
        ({0: 2}, {4: 3}),  # a free run ends behind the last block
    ],
)
def test_a_block_that_is_not_in_exactly_one_place_is_found(orders, free):
    with pytest.raises(AssertionError):
        list(make_memory(orders).heads(free))


def test_an_extent_with_more_bytes_than_it_has_room_for_is_found():
    memory = make_memory({0: 1})
    memory.lengths[0] += 1
    with pytest.raises(AssertionError):
        list(memory.heads({2: 1, 4: 2}))


class Owner:
    def __init__(self) -> None:
        self.evicted: list[int] = []

    def on_evicted(self, offset: int) -> None:
        self.evicted.append(offset)


def test_eviction_passes_by_what_is_pinned_and_gives_up_when_all_of_it_is():
    memory = make_memory(dict.fromkeys(range(8), 0))
    queue = RecencyQueue(memory.before, memory.after)
    freed: list[int] = []

    def free(block: int) -> None:
        queue.remove(block, 1)
        freed.append(block)

    evictions = ExtentEvictions(memory, {TAIL: queue}, free)
    owner = Owner()
    number = evictions.register(owner)
    for block in range(8):
        memory.owner_numbers[block], memory.offsets[block] = number, 1000 * block
        queue.push(block, 1)
        memory.pins[block] = block != 5
    assert evictions.evict_one((TAIL,))
    assert (freed, owner.evicted) == ([5], [5000])
    assert not evictions.evict_one((TAIL,))
    assert (freed, owner.evicted, queue.count) == ([5], [5000], 7)
    assert (evictions.evicted_extents, evictions.evicted_blocks) == (1, 1)


def test_the_number_of_an_owner_that_left_is_given_again():
    evictions = ExtentEvictions(make_memory({}), {}, lambda _: None)
    numbers = [evictions.register(Owner()) for _ in range(3)]
    assert len(set(numbers)) == 3
    evictions.unregister(numbers[1])
    assert evictions.register(Owner()) == numbers[1]
    assert len(evictions.owners) == 3

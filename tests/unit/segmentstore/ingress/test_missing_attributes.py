"""Attributes that are not in memory are loaded before anything is decided by them, by all who may wait.

On a real container, whose segment has attributes that can leave memory.
"""

import pytest

from headrace.errors import AttributeMismatchError
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.wire import commands as c
from tests.unit.segmentstore.ingress.world import SEGMENT, WRITER, Peer, acked, append

KEY, ABSENT = b"k" * 16, b"a" * 16


def expect(expected, value, key=KEY):
    return AttributeUpdate(key, UpdateKind.REPLACE_IF_EQUALS, value, expected)


class Memory:
    """The attributes of the segment, which leave memory at will."""

    def __init__(self, world, state):
        self._tiers = world.container.tiers
        self._state = state

    async def evict(self):
        await self._tiers.index_writer.write(self._state)
        self._state.attributes.evict(0)

    @property
    def loaded(self):
        return self._tiers.attribute_values.loaded


@pytest.fixture
async def attributes(world):
    """Those of the segment: one is set, a writer has written two events, and both left memory."""
    peer = Peer(world.home)
    await peer.set_up()
    await peer.ask(append(1, b"one"), append(2, b"two"))
    peer.transport.abort()
    await peer.replies()
    assert await world.store.update_attribute(SEGMENT, KEY, 7, ATTRIBUTE_NULL)
    memory = Memory(world, await world.container.resolve(SEGMENT))
    await memory.evict()
    return memory


async def test_a_value_that_was_not_in_memory_is_answered(world, attributes):
    assert await world.store.get_attribute(SEGMENT, KEY) == 7
    assert await world.store.get_attribute(SEGMENT, ABSENT) == ATTRIBUTE_NULL
    assert await world.store.get_attribute(SEGMENT, KEY) == 7
    assert attributes.loaded == 2, "once each"


async def test_a_conditional_update_is_judged_by_it(world, attributes):
    assert not await world.store.update_attribute(SEGMENT, KEY, 8, ATTRIBUTE_NULL)
    await attributes.evict()
    assert await world.store.update_attribute(SEGMENT, KEY, 8, 7)
    assert await world.store.update_attribute(SEGMENT, ABSENT, 1, ATTRIBUTE_NULL)
    assert await world.store.get_attribute(SEGMENT, KEY) == 8


async def test_an_append_with_updates_is_judged_by_it(world, attributes):
    with pytest.raises(AttributeMismatchError):
        await world.store.append(SEGMENT, b"x", [expect(6, 8)])
    await attributes.evict()
    assert await world.store.append(SEGMENT, b"x", [expect(7, 8)]) == 6


async def test_a_merge_with_updates_is_judged_by_it(world, attributes):
    source = SEGMENT + "#transaction." + "0" * 32
    await world.store.create_segment(source)
    await world.store.append(source, b"abc")
    with pytest.raises(AttributeMismatchError):
        await world.store.merge_segments(SEGMENT, source, [expect(6, 8)])
    await attributes.evict()
    await world.store.merge_segments(SEGMENT, source, [expect(7, 8)])
    assert await world.store.get_attribute(SEGMENT, KEY) == 8


async def test_a_writer_that_comes_back_is_told_its_number_and_goes_on_behind_it(world, attributes):
    peer = Peer(world.home)
    assert await peer.ask(c.SetupAppend(5, WRITER, SEGMENT, "")) == [c.AppendSetup(5, SEGMENT, WRITER, 2)]
    assert await peer.ask(append(3, b"three")) == [acked(3, 2, 11)]
    assert attributes.loaded == 1

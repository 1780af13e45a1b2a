"""The index says at least which streams have work; what is stale goes, what is new stays."""

import pytest

from headrace.controller.store.layout import RETENTION, bucket_table
from headrace.controller.streams.bucket_index import BucketIndex
from headrace.model.buckets import bucket_of
from headrace.model.policies import RetentionPolicy, StreamConfiguration
from headrace.testing.memory_metadata_store import MemoryStore
from tests.unit.controller.conftest import World
from tests.unit.controller.mortality import every_death, idle, simulated

BUCKETS = 4
BY_SIZE = StreamConfiguration(retention=RetentionPolicy.by_size(1000))


@pytest.fixture
async def index():
    store = MemoryStore()
    for bucket in range(BUCKETS):
        await store.create_table(bucket_table(bucket))
    return BucketIndex(store, lambda scope, stream: bucket_of(scope, stream, BUCKETS))


async def members(index, buckets=BUCKETS):
    found = {}
    for bucket in range(buckets):
        token = b""
        while True:
            page, token = await index.page(bucket, token, 2)
            if not page:
                break
            for member in page:
                assert bucket_of(member.scope, member.stream, buckets) == bucket
                found[f"{member.scope}/{member.stream}"] = member
    return found


async def test_members_are_found_by_bucket(index):
    names = [f"t{number}" for number in range(20)]
    for name in names:
        await index.add(RETENTION, "s", name, 5)
    found = await members(index)
    assert set(found) == {f"s/{name}" for name in names}
    assert {(member.kind, member.since_ms) for member in found.values()} == {(RETENTION, 5)}


async def test_a_member_that_was_added_anew_is_not_removed(index):
    await index.add(RETENTION, "s", "t", 5)
    read = (await members(index))["s/t"]
    await index.add(RETENTION, "s", "t", 9)
    await index.remove(read)
    again = (await members(index))["s/t"]
    assert again.since_ms == 9
    await index.remove(again)
    await index.remove(again)
    assert not await members(index)


async def test_a_member_that_is_known_keeps_its_time(index):
    await index.ensure(RETENTION, "s", "t", 5)
    await index.ensure(RETENTION, "s", "t", 9)
    assert (await members(index))["s/t"].since_ms == 5


async def policies(controller):
    """Return the streams with a policy, and those in the index."""
    rows, _ = await controller.context.directory.page("s", b"", 100)
    streams = [await controller.context.directory.get("s", name) for name, _ in rows]
    having = {each.full_name for each in streams if each.row.config.retention != RetentionPolicy()}
    return having, set(await members(controller.context.bucket_index, controller.config.buckets))


@simulated
async def test_streams_with_a_policy_are_in_the_index_whenever_a_controller_dies():
    async def prepare(controller):
        await controller.context.scopes.create("s")
        await controller.streams.create("s", "later", StreamConfiguration())

    async def act(controller, state):
        await controller.streams.create("s", "at-once", BY_SIZE)
        await controller.streams.update("s", "later", BY_SIZE)

    async def check(world, controller, state):
        having, indexed = await policies(controller)
        assert having <= indexed

    async def settle(controller, state):
        await idle(controller)

    assert await every_death(World, prepare, act, settle, check)


async def test_streams_of_an_earlier_release_get_into_the_index():
    world = World()
    async with world.running() as controller:
        await controller.context.scopes.create("s")
        await controller.streams.create("s", "t", BY_SIZE)
        index = controller.context.bucket_index
        await index.remove((await members(index, controller.config.buckets))["s/t"])
    async with world.running() as controller:
        await idle(controller)
        assert await policies(controller) == ({"s/t"}, {"s/t"})

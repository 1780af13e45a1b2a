import asyncio

import pytest

from headrace.controller.buckets.counters import draw_term, fix_bucket_count
from headrace.controller.store.layout import permanent_tables
from headrace.errors import InvalidArgumentError, SessionExpiredError
from headrace.model.endpoint import Endpoint
from headrace.testing.memory_metadata_store import MemoryStore
from headrace.testing.simulation import simulate
from tests.effort import seeds
from tests.unit.controller.buckets.cluster import COUNT, Cluster


def run(scenario, *names, seed=1, **faults):
    async def main(sim):
        cluster = Cluster(sim, **faults)
        await cluster.start(*names)
        await scenario(cluster)
        await cluster.stop()

    simulate(seed, main)


def test_a_member_alone_owns_everything_when_its_start_returns():
    async def scenario(cluster):
        (buckets,) = cluster.members.values()
        assert sorted(buckets.owned()) == [*range(COUNT)]
        assert {buckets.term(bucket) for bucket in range(COUNT)} == {1}
        assert await buckets.mapping() == {Endpoint("a", 9000): [*range(COUNT)]}

    run(scenario, "a")


def test_members_that_come_and_go_share_the_buckets():
    async def scenario(cluster):
        await cluster.shared()
        assert cluster.counts() == [8, 8]
        await cluster.join("c")
        await cluster.shared()
        assert cluster.counts() == [5, 5, 6]
        await cluster.leave("a")
        await cluster.shared(1)
        await cluster.leave("b")
        await cluster.shared(1)
        assert cluster.counts() == [COUNT]

    run(scenario, "a", "b")


def test_a_bucket_has_ended_its_work_before_another_member_begins_it():
    async def scenario(cluster):
        await cluster.shared()
        await cluster.join("b")
        await cluster.shared()
        running = {}
        for what, member, bucket in cluster.log:
            if what == "begin":
                assert running.setdefault(bucket, member) == member, "two members work on a bucket"
            else:
                del running[bucket]

    run(scenario, "a")


def test_a_bucket_whose_claim_is_gone_is_given_up_and_claimed_again():
    async def scenario(cluster):
        outsider = await cluster.coordinator.open()
        node = await outsider.read("buckets/3")
        await outsider.delete("buckets/3", node.version)
        await asyncio.sleep(1)
        assert [what for what, _, bucket in cluster.log if bucket == 3] == ["begin", "end", "begin"]
        assert [what for what, _, bucket in cluster.log if bucket == 4] == ["begin"]
        await cluster.shared()
        await outsider.close()

    run(scenario, "a")


def test_each_owner_of_a_bucket_has_a_higher_term():
    async def scenario(cluster):
        terms = {}
        for name in ("b", "c", "d"):
            await cluster.join(name)
            await cluster.shared()
            for member, buckets in cluster.members.items():
                for bucket in buckets.owned():
                    owner, term = terms.get(bucket, (None, 0))
                    assert buckets.term(bucket) > term or (owner, term) == (member, buckets.term(bucket))
                    terms[bucket] = (member, buckets.term(bucket))

    run(scenario, "a")


def test_everyone_is_found_with_its_buckets():
    async def scenario(cluster):
        await cluster.shared()
        one, other = cluster.members.values()
        mapping = await one.mapping()
        assert mapping == await other.mapping()
        assert mapping == {
            Endpoint("a", 9000): sorted(one.owned()),
            Endpoint("b", 9001): sorted(other.owned()),
        }
        one.publish(Endpoint("elsewhere", 1))
        await asyncio.sleep(1)
        assert {*await other.endpoints()} == {Endpoint("elsewhere", 1), Endpoint("b", 9001)}

    run(scenario, "a", "b")


def test_the_buckets_of_a_killed_member_are_taken_over_when_its_session_expires():
    async def scenario(cluster):
        await cluster.shared()
        cluster.kill("a")
        await cluster.shared(7)

    run(scenario, "a", "b")


def test_a_member_whose_lease_is_lost_ends_its_work_and_comes_back_as_another():
    async def scenario(cluster):
        await cluster.shared()
        old, buckets = cluster.session_of("a"), cluster.members["a"]
        owned = buckets.owned()
        old.suspend()
        await old.lease.lost.wait()
        assert buckets.owned() == []
        with pytest.raises(SessionExpiredError):
            buckets.term(owned[0])
        await asyncio.sleep(0.1)
        assert {("end", "a", bucket) for bucket in owned} <= {*cluster.log}
        await cluster.shared()
        assert cluster.counts() == [8, 8]
        assert cluster.session_of("a") is not old
        assert len((await buckets.mapping()).keys()) == 2

    run(scenario, "a", "b")


def test_a_member_that_was_paused_beyond_its_lease_owns_nothing_when_it_goes_on():
    async def scenario(cluster):
        await cluster.shared()
        buckets = cluster.members["a"]
        cluster.sim.host("a").pause()
        await asyncio.sleep(8)
        assert sorted(cluster.members["b"].owned()) == [*range(COUNT)]
        assert cluster.works["a"].running
        cluster.sim.host("a").resume()
        assert buckets.owned() == []
        await cluster.shared()
        assert cluster.counts() == [8, 8]

    run(scenario, "a", "b")


def test_a_session_that_expires_costs_its_member_nothing_but_time():
    async def scenario(cluster):
        await cluster.shared()
        cluster.session_of("a").expire()
        await cluster.shared()

    run(scenario, "a", "b", watch_delay_s_max=0.5)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(24))
def test_whatever_the_network_does_all_buckets_are_shared_in_the_end(seed):
    async def scenario(cluster):
        entropy = cluster.sim.entropy
        names = iter("defghijkl")
        for _ in range(6):
            await asyncio.sleep(entropy.randbelow(4000) / 1000)
            member = [*cluster.members][entropy.randbelow(len(cluster.members))]
            match entropy.randbelow(5):
                case 0:
                    await cluster.join(next(names))
                case 1 if len(cluster.members) > 1:
                    cluster.kill(member)
                case 2 if len(cluster.members) > 1:
                    await cluster.leave(member)
                case 3:
                    cluster.coordinator.sessions[0].expire()
                case _:
                    session = cluster.session_of(member)
                    if session is not None:
                        session.suspend()
                        cluster.sim.loop.call_later(entropy.randbelow(9000) / 1000, session.resume)
        await cluster.shared(300)  # one lost reply of sixteen makes a member begin again

    run(scenario, "a", "b", "c", seed=seed, delay_s_max=0.2, watch_delay_s_max=1.0, lost_replies_percent=10)


async def test_the_number_of_buckets_is_fixed_at_birth():
    store = MemoryStore()
    for table in permanent_tables(COUNT):
        await store.create_table(table)
    for _ in range(2):
        await fix_bucket_count(store, 16)
    with pytest.raises(InvalidArgumentError, match="made with 16 buckets"):
        await fix_bucket_count(store, 8)
    await fix_bucket_count(store, 16)


async def test_terms_that_many_draw_are_different():
    store = MemoryStore()
    for table in permanent_tables(COUNT):
        await store.create_table(table)
    assert sorted(await asyncio.gather(*(draw_term(store) for _ in range(20)))) == [*range(1, 21)]

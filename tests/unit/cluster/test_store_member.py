"""What a store does as a member: give, take, silence, failure, leaving; and that others see it."""

import asyncio

from small_cluster import run


def test_containers_are_shared_and_located_where_they_are_served():
    async def scenario(cluster):
        served = cluster.served()
        assert sorted(name for names in served for name in names) == ["a", "a", "b", "b"]
        assert cluster.located() == [name for (name,) in served]

    run(scenario, "a", "b")


def test_a_store_that_joins_gets_its_share_and_nobody_is_fenced():
    async def scenario(cluster):
        await asyncio.sleep(15)
        await cluster.join("b", settle_s=5)
        assert sorted(name for names in cluster.served() for name in names) == ["a", "a", "b", "b"]
        for container_id, names in enumerate(cluster.served()):
            if names == ["b"]:
                taken = cluster.events.index(("a", "take", container_id))
                assert taken < cluster.events.index(("b", "give", container_id))

    run(scenario, "a")


def test_a_store_whose_lease_is_over_is_silent_and_goes_on_in_the_same_session():
    async def scenario(cluster):
        session = cluster.session_of("a")
        before, events = cluster.stores["a"].id, len(cluster.events)
        session.suspend()
        await session.lease.lost.wait()
        assert session in cluster.coordinator.sessions
        assert cluster.served() == [[]] * 4
        session.resume()
        await asyncio.sleep(1)
        assert cluster.served() == [["a"]] * 4
        assert (cluster.stores["a"].id, len(cluster.events)) == (before, events)

    run(scenario, "a")


def test_a_store_whose_session_is_over_drops_everything_and_comes_back_as_another():
    async def scenario(cluster):
        before = cluster.stores["a"].id
        session = cluster.session_of("a")
        session.suspend()
        await asyncio.sleep(10)
        assert cluster.served() == [["b"]] * 4
        running = [*cluster.hosts["a"].running]
        assert len(running) == 2  # silent, as it hears nothing
        session.resume()
        await asyncio.sleep(1)
        assert {("a", "take", number) for number in running} <= set(cluster.events)
        assert cluster.stores["a"].id != before
        assert cluster.stores["a"].id in cluster.service.placement.stores

    run(scenario, "a", "b")


def test_a_container_that_fails_three_times_is_placed_elsewhere():
    async def scenario(cluster):
        cluster.hosts["b"].failing = {0, 1, 2, 3}
        victim = next(number for number, names in enumerate(cluster.served()) if names == ["a"])
        cluster.hosts["a"].failing = {victim}
        cluster.hosts["a"].running.pop(victim)
        cluster.stores["a"].on_fenced(victim)
        cluster.hosts["b"].failing = set()
        await asyncio.sleep(5)
        assert cluster.served()[victim] == ["b"]
        assert cluster.events.count(("a", "give", victim)) == 1 + 3
        assert cluster.service.placement.stores[cluster.stores["a"].id].failures == {victim: 3}

    run(scenario, "a", "b")


def test_a_live_owner_that_was_fenced_takes_its_container_back():
    async def scenario(cluster):
        cluster.epochs[0] += 1
        cluster.hosts["a"].running.pop(0)
        cluster.stores["a"].on_fenced(0)
        assert cluster.served()[0] == []
        await asyncio.sleep(1)
        assert cluster.served()[0] == ["a"]
        assert cluster.hosts["a"].running[0] == cluster.epochs[0] == 3

    run(scenario, "a")


def test_one_that_started_again_by_itself_is_claimed_anew_before_it_answers():
    async def scenario(cluster):
        cluster.stores["a"].on_failed(0)
        await asyncio.sleep(1)
        assert cluster.served()[0] == []
        cluster.epochs[0] += 1
        cluster.hosts["a"].running[0] = cluster.epochs[0]
        cluster.stores["a"].on_online(0, cluster.epochs[0])
        assert cluster.served()[0] == []
        await asyncio.sleep(1)
        assert cluster.served()[0] == ["a"]
        assert cluster.service.placement.claims[0].container_epoch == cluster.epochs[0]

    run(scenario, "a")


def test_a_store_that_leaves_hands_over_first_and_waits_for_nobody_when_it_is_alone():
    async def scenario(cluster):
        loop = cluster.sim.loop
        await cluster.stores.pop("b").stop()
        del cluster.gates["b"]
        await asyncio.sleep(1)
        assert cluster.served() == [["a"]] * 4
        since = loop.time()
        await cluster.stores.pop("a").stop()
        assert loop.time() - since < 1
        assert cluster.served() == [[]] * 4

    run(scenario, "a", "b")


def test_a_former_owner_that_does_not_end_is_waited_for_five_seconds():
    async def scenario(cluster):
        cluster.hosts["a"].takes_s = 60.0
        await asyncio.sleep(15)
        await cluster.join("b", settle_s=4)
        assert ("b", "give", 0) not in cluster.events
        assert ("b", "give", 1) not in cluster.events
        await asyncio.sleep(3)
        given = [event for event in cluster.events if event[:2] == ("b", "give")]
        assert len(given) == 2
        assert [name for names in cluster.served() for name in names] == ["a", "a"]  # its claims are there

    run(scenario, "a")


def test_a_store_that_leaves_without_a_controller_does_not_wait_for_one():
    async def scenario(cluster):
        await cluster.service.stop()
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await cluster.stores["a"].stop()
        assert loop.time() - begun < 5
        assert cluster.hosts["a"].running == {}

    run(scenario, "a", "b")

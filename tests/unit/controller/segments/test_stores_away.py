"""Questions to all segment stores of a cluster: what is said of those that do not answer, and of moves."""

import json

import pytest

from headrace.cluster.claim_node import Claim
from headrace.errors import (
    ContainerOfflineError,
    PermissionDeniedError,
    StorageWriteError,
    UnreachableError,
)
from headrace.security.permission import Permission
from headrace.security.tokens import EVERYTHING, TokenKey, issue
from headrace.wire import commands as c
from tests.asked_stores import Places, asking, serving
from tests.unit.controller.segments.test_remote_segments import CLOSE, scripted

HELD = {"health": {"online": True}}


def says(**answers):
    """Answer questions about each of these with that."""

    def answer(request):
        about = json.loads(request.question)["about"]
        return c.StoreAnswer(request.request_id, json.dumps(answers[about]).encode())

    return answer


async def test_a_store_that_does_not_answer_is_named_beside_what_the_others_say():
    places = Places()
    async with (
        serving(places, 0),
        scripted(lambda request: CLOSE) as lost,
        scripted(lambda request: None) as silent,
        asking(places, answer_s=0.3) as stores,
    ):
        places.add(lost.endpoint, 1)
        places.add(silent.endpoint)
        found = await stores.statistics()
        assert list(found["containers"]) == ["0", "1"]  # of the first store, which has both
        assert list(found["stores"]) == ["a"]
        assert [(each["store"], each["address"]) for each in found["unanswered"]] == [
            ("b", str(lost.endpoint)),
            ("c", str(silent.endpoint)),
        ]
        assert "did not answer within" in found["unanswered"][1]["why"]
        assert len((await stores.optimisers())["unanswered"]) == 2
        health = {each.name: each for each in await stores.health()}
        assert [name for name, each in health.items() if not each.ready] == ["store-b", "store-c"]
        assert health["store-b"].details["why"] == found["unanswered"][0]["why"]
        assert health["store-b"].details["containers"] == "1"
        with pytest.raises(UnreachableError, match=r"the others have paused: repeat it"):
            await stores.pause_optimisers(paused=True)
        assert len(silent.asked) == 4


async def test_one_container_is_asked_of_its_owner_alone():
    places = Places()
    statistics = {"cache": {}, "containers": {"1": HELD}}
    async with (
        scripted(says(statistics=statistics)) as owner,
        scripted(lambda request: CLOSE) as other,
        asking(places) as stores,
    ):
        places.add(owner.endpoint, 1)
        places.add(other.endpoint, 0)
        assert (await stores.statistics(1))["containers"] == {"1": HELD}
        assert other.asked == []
        with pytest.raises(UnreachableError, match="container 0 is not known"):
            await stores.statistics(0)


async def test_of_two_that_speak_of_a_container_its_owner_counts():
    places = Places()
    async with (
        scripted(says(statistics={"containers": {"0": {"health": {"online": False}}}})) as former,
        scripted(says(statistics={"containers": {"0": HELD}})) as owner,
        scripted(says(statistics={"containers": {"0": {"health": {"online": False}}}})) as next_one,
        asking(places) as stores,
    ):
        for store in (former, owner, next_one):
            places.add(store.endpoint)
        places.watched.claims[0] = Claim("b", 1)
        assert (await stores.statistics())["containers"] == {"0": HELD}


async def test_a_store_of_an_older_version_is_one_that_does_not_answer():
    places = Places()
    async with scripted(lambda request: CLOSE, version=1001) as old, asking(places) as stores:
        places.add(old.endpoint, 0)
        (missing,) = (await stores.statistics())["unanswered"]
        assert "needs version 1002" in missing["why"]
        assert old.asked == []


async def test_health_says_why_a_container_is_not_served_and_what_hinders_a_store():
    places = Places()
    said = [
        {"name": "longTermStorage", "status": "UP", "details": {}, "hindered": "refuses create: expired"},
        {"name": "container-0", "status": "UP", "details": {"restarts": "3"}, "hindered": "waits for space"},
    ]
    async with scripted(says(health=said)) as store, asking(places) as stores:
        assert [each.details for each in await stores.health()] == [{"why": "there is no segment store"}] * 2
        places.add(store.endpoint, 0)
        health = {each.name: each for each in await stores.health()}
        assert health["store-a"].hindered == "longTermStorage: refuses create: expired"
        assert health["container-0"].hindered == "waits for space"
        assert health["container-0"].details == {"store": "a", "restarts": "3"}
        assert health["container-1"].details == {"why": "the leader has not placed it yet"}


async def test_a_purge_goes_after_a_container_that_moves_meanwhile():
    places = Places()

    def first(request):
        places.watched.claims[1] = Claim("b", 2)
        return c.SegmentsPurged(request.request_id, [0])

    async with (
        scripted(first) as former,
        scripted(lambda request: c.SegmentsPurged(request.request_id, [1])) as successor,
        asking(places) as stores,
    ):
        places.add(former.endpoint, 0, 1)
        places.add(successor.endpoint)
        await stores.purge(["s/t/0.#epoch.0"])
        asked = [[request.segments for request in each.asked] for each in (former, successor)]
        assert asked == [[["s/t/0.#epoch.0"]]] * 2


async def test_a_purge_outlives_a_lost_answer_and_is_not_done_without_an_owner():
    places = Places()
    lost, has = [CLOSE], [0, 1]

    def answer(request):
        return lost.pop() if lost else c.SegmentsPurged(request.request_id, has)

    async with scripted(answer) as store, asking(places) as stores:
        places.add(store.endpoint, 0, 1)
        await stores.purge([])
        assert len(store.asked) == 2
        del places.watched.claims[1]
        has.remove(1)
        with pytest.raises(ContainerOfflineError, match="containers 1 took no part"):
            await stores.purge([])


async def test_a_purge_that_fails_in_a_container_says_why():
    places = Places()
    async with (
        scripted(lambda request: c.SegmentsPurged(request.request_id, [0], "the object is locked")) as store,
        asking(places) as stores,
    ):
        places.add(store.endpoint, 0, 1)
        with pytest.raises(StorageWriteError, match="not everything is purged: the object is locked"):
            await stores.purge([])
        assert len(store.asked) == 1


async def test_only_the_token_of_servers_is_answered():
    key = TokenKey(b"k" * 64)
    reader = issue(key, {EVERYTHING: Permission.READ}, 1_000_000_000, None)
    own = issue(key, {EVERYTHING: Permission.READ_UPDATE}, 1_000_000_000, None)
    places = Places()
    async with (
        serving(places, 0, 1, token_key=key),
        asking(places, tokens=lambda _: reader) as curious,
        asking(places, tokens=lambda _: own) as stores,
    ):
        assert "does not accept the token" in (await curious.statistics())["unanswered"][0]["why"]
        with pytest.raises(PermissionDeniedError):
            await curious.purge([])
        assert (await stores.statistics())["unanswered"] == []

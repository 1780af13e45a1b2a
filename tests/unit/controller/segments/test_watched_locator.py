"""Calls to segment stores of a cluster: where they go, and with which token."""

import asyncio

import pytest

from headrace.cluster.claim_node import Claim
from headrace.cluster.map_node import ContainerMap, Placement
from headrace.cluster.store_node import StoreNode
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.controller.segments.remote.watched_locator import WatchedLocator
from headrace.errors import ContainerOfflineError
from headrace.model.endpoint import Endpoint
from headrace.model.hashing import container_of
from headrace.runtime.entropy import SeededEntropy
from headrace.security.internal_identity import LIFETIME_S, InternalTokens
from headrace.security.permission import Permission
from headrace.security.tokens import TokenKey, read
from tests.remote_stores import calling, listening

SEGMENT = "s/t/0.#epoch.0"
KEY = TokenKey(b"0123456789abcdef" * 4)


def placement():
    return WatchedPlacement(SeededEntropy(1))


def test_a_claim_is_preferred_to_the_map_and_a_dead_store_is_nowhere():
    watched = placement()
    locator = WatchedLocator(watched, 4)
    container_id = container_of(SEGMENT, 4)
    with pytest.raises(ContainerOfflineError, match=f"container {container_id} has no segment store now"):
        locator.locate(SEGMENT)
    watched.stores = {"a": StoreNode(Endpoint("a", 1)), "b": StoreNode(Endpoint("b", 1))}
    watched.learn_map(ContainerMap(1, (Placement("a", 1, 0),) * 4))
    assert locator.locate(SEGMENT) == Endpoint("a", 1)
    watched.claims = {container_id: Claim("b", 1)}
    assert locator.locate(SEGMENT) == Endpoint("b", 1)
    assert locator.stores() == [Endpoint("a", 1), Endpoint("b", 1)]
    watched.stores = {}
    with pytest.raises(ContainerOfflineError):
        locator.locate(SEGMENT)


@pytest.mark.real_loop
async def test_a_call_waits_a_moment_for_a_container_that_has_no_store():
    watched = placement()
    async with listening(1) as (_, endpoint), calling(WatchedLocator(watched, 1)) as segments:
        with pytest.raises(ContainerOfflineError):
            await segments.create_segment(SEGMENT)
        calls = asyncio.gather(
            segments.create_segment(SEGMENT),
            segments.segment_infos([SEGMENT, "s/u/0.#epoch.0"]),
            segments.create_segment("s/v/0.#epoch.0"),
        )
        await asyncio.sleep(0)
        watched.stores = {"a": StoreNode(endpoint)}
        watched.claims = {0: Claim("a", 1)}
        await calls
        assert await segments.append(SEGMENT, b"abc") == 0


class Clock:
    ms = 1_000_000_000

    def now_ms(self):
        return self.ms


def test_one_token_for_everything_is_shown_until_it_is_half_over():
    clock = Clock()
    tokens = InternalTokens(KEY, clock)
    first = tokens(SEGMENT)
    assert tokens("s/other") == first
    allowed = read(KEY, first)
    assert allowed.allows("any/segment", Permission.READ_UPDATE)
    assert allowed.expires_s == clock.ms // 1000 + LIFETIME_S
    clock.ms += LIFETIME_S * 500
    second = tokens(SEGMENT)
    assert second != first
    clock.ms -= LIFETIME_S * 900  # it was set back
    assert tokens(SEGMENT) not in {first, second}

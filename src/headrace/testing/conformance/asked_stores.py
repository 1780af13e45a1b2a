"""What REST asks of segment stores, whether they are beside it or in other processes. Inherit, and pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import pytest

from headrace.errors import ContainerOfflineError
from headrace.web.asked_stores import AskedStores


class AskedStoresContract(ABC):
    """Of stores with two containers that are served, and merge chunks."""

    @abstractmethod
    async def make(self) -> tuple[AskedStores, Callable[[int], Awaitable[object]]]:
        """Return the stores, and what takes a container from the one that serves it."""

    async def test_statistics_are_of_every_container_or_of_one(self) -> None:
        stores, _ = await self.make()
        found = await stores.statistics()
        assert list(found["containers"]) == ["0", "1"]
        assert all(each["health"]["online"] for each in found["containers"].values())
        assert not found.get("unanswered")
        assert list((await stores.statistics(1))["containers"]) == ["1"]
        assert not (await stores.statistics(2))["containers"]

    async def test_a_store_says_what_is_none_of_a_container(self) -> None:
        found = await (await self.make())[0].statistics()
        own = [found] if "cache" in found else [each["statistics"] for each in found["stores"].values()]
        assert all(each["cache"]["bytes_max"] > 0 for each in own)

    async def test_health_names_every_container_that_is_not_served(self) -> None:
        stores, take = await self.make()
        health = {each.name: each for each in await stores.health()}
        assert all(each.ready for each in health.values())
        assert {"container-0", "container-1"} <= health.keys()
        await take(1)
        health = {each.name: each for each in await stores.health()}
        assert [name for name, each in health.items() if not each.ready] == ["container-1"]

    async def test_a_purge_is_done_if_all_containers_took_part(self) -> None:
        stores, take = await self.make()
        await stores.purge(["s/t/0.#epoch.0", "s/none/0.#epoch.0"])
        await stores.purge([])
        await take(0)
        with pytest.raises(ContainerOfflineError):
            await stores.purge([])

    async def test_all_optimisers_pause_and_go_on(self) -> None:
        stores, _ = await self.make()
        for paused in (True, True, False):
            await stores.pause_optimisers(paused=paused)
            found = await stores.optimisers()
            assert (found["paused"], found["mode"]) == (paused, "auto")
            assert [each["container"] for each in found["containers"]] in ([], [0, 1])

from contextlib import AsyncExitStack

import pytest

from headrace.processes.beside_store import BesideStore
from headrace.testing.conformance.asked_stores import AskedStoresContract
from tests.asked_stores import Places, asking, serving


class TestBesideStore(AskedStoresContract):
    @pytest.fixture(autouse=True)
    async def _store(self):
        async with serving(Places(), 0, 1) as self.wired:
            yield

    async def make(self):
        return BesideStore(self.wired), self.wired.assignment.take


class TestStoresAway(AskedStoresContract):
    """Each container is served by a store of its own."""

    @pytest.fixture(autouse=True)
    async def _stores(self):
        self.places = Places()
        async with AsyncExitStack() as stack:
            for number in range(2):
                await stack.enter_async_context(serving(self.places, number))
            self.stores = await stack.enter_async_context(asking(self.places))
            yield

    async def make(self):
        async def take(container_id):
            del self.places.watched.claims[container_id]

        return self.stores, take


class TestOneStoreAway(AskedStoresContract):
    @pytest.fixture(autouse=True)
    async def _store(self):
        self.places = Places()
        async with serving(self.places, 0, 1) as self.wired, asking(self.places) as self.stores:
            yield

    async def make(self):
        return self.stores, self.wired.assignment.take

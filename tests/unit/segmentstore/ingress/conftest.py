import pytest

from tests.unit.segmentstore.ingress.fake_store import FakeStore
from tests.unit.segmentstore.ingress.held_world import HeldWorld
from tests.unit.segmentstore.ingress.world import SEGMENT, FakeHome, Peer
from tests.virtual_time import pytest_asyncio_loop_factories  # noqa: F401 - a hook


@pytest.fixture
async def store():
    store = FakeStore()
    store.add(SEGMENT)
    return store


@pytest.fixture
async def home(store):
    home = FakeHome(store)
    yield home
    await home.supervisor.stop()
    home.budget.check()
    assert not home.budget.waiting


@pytest.fixture
async def peer(home):
    return Peer(home)


@pytest.fixture
async def world():
    world = await HeldWorld().start()
    yield world
    await world.stop()

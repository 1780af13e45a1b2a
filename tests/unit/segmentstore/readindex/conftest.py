from __future__ import annotations

import pytest

from tests.unit.segmentstore.readindex.world import World
from tests.virtual_time import pytest_asyncio_loop_factories  # noqa: F401 - a hook


@pytest.fixture
async def world():
    world = World()
    yield world
    world.check()
    await world.close()

from __future__ import annotations

import pytest

from tests.unit.segmentstore.readindex.world import World


@pytest.fixture
async def world():
    world = World()
    yield world
    world.check()
    await world.close()

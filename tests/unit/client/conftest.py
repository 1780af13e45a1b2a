import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fake_server import FakeSystem

from headrace.client import connect


@pytest.fixture
async def system():
    async with FakeSystem() as running:
        yield running


@pytest.fixture
async def client(system):
    async with connect(system.uri) as connected:
        yield connected

import sys
from pathlib import Path

from tests.virtual_time import pytest_asyncio_loop_factories  # noqa: F401 - a hook

sys.path.insert(0, str(Path(__file__).parent))

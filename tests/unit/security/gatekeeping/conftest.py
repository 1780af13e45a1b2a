from tests.virtual_time import pytest_asyncio_loop_factories  # noqa: F401 - a hook

"""One durable server process for the interop tests; each test has a scope of its own."""

import itertools

import pytest

from headrace.testing import LocalServer

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("interop")) as running:
        yield running
        assert running.stop() == 0


@pytest.fixture
def scope(server):
    return f"scope{next(_numbers)}"

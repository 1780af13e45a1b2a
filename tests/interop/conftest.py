"""One server for the interop tests; each test has a scope of its own."""

import itertools

import pytest

from tests.servers import running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server(server_kind, tmp_path_factory):
    with running(server_kind, tmp_path_factory.mktemp("interop")) as made:
        yield made
        assert made.stop() == 0


@pytest.fixture
def scope(server):
    return f"scope{next(_numbers)}"

"""Fixtures of pytest: a real server for a run of tests, a client and a fresh scope for each test.

    def test_orders_are_counted(headrace_client, headrace_scope):
        headrace_client.create_stream(headrace_scope, "orders")
        headrace_client.write(f"{headrace_scope}/orders", ["one", "two"])
        assert count_orders(headrace_client, headrace_scope) == 2

pytest loads it by itself where Headrace is installed; a run that does not use it imports nothing more.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:  # imported by the first test that uses them
    import headrace
    from headrace.testing.local_server import LocalServer

_SCOPE_CHARS_MAX: Final = 100
_numbers: Final = itertools.count(1)


@pytest.fixture(scope="session")
def headrace_arguments() -> tuple[str, ...]:
    """Return further arguments of ``headrace standalone``. Override it in a ``conftest.py``."""
    return ()


@pytest.fixture(scope="session")
def headrace_server(
    tmp_path_factory: pytest.TempPathFactory, headrace_arguments: tuple[str, ...]
) -> Iterator[LocalServer]:
    """Start a durable server on free ports, in a temporary directory; it ends with the run."""
    from headrace.testing.local_server import LocalServer

    with LocalServer(tmp_path_factory.mktemp("headrace"), *headrace_arguments) as server:
        yield server


@pytest.fixture
def headrace_client(headrace_server: LocalServer) -> Iterator[headrace.Client]:
    """Return a client of ``headrace_server`` that waits; it is closed after the test."""
    import headrace

    with headrace.connect(headrace_server.uri) as client:
        yield client


@pytest.fixture
def headrace_scope(headrace_client: headrace.Client, request: pytest.FixtureRequest) -> str:
    """Create a scope for this test alone; return its name, which is made of that of the test."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:_SCOPE_CHARS_MAX]
    scope = f"{stem}-{next(_numbers)}"
    headrace_client.create_scope(scope)
    return scope

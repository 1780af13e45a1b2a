"""Every example of the client runs against a real server and says what it promises."""

import sys
from pathlib import Path

import pytest

from headrace.testing import LocalServer
from tests import programs

pytestmark = pytest.mark.cluster
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("examples"), "--in-memory") as running:
        yield running


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("write_events", "the stream ends at examples/readings:"),
        ("read_events", "3 more: ['three', 'four', 'five']"),
        ("key_value_tables", "6 entries, the last one is ((b'shop-005', b'apple'), b'7')"),
        ("transactions", "after the abort: ['alice -5', 'bob +5', 'carol -3', 'dave +3']"),
    ],
)
def test_an_example_runs(server, name, expected):
    program = str(EXAMPLES / f"{name}.py")
    done = programs.run(
        [sys.executable, program, server.uri], timeout=60, capture_output=True, text=True, check=True
    )
    assert expected in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_an_example_starts_its_own_server_if_none_is_named():
    done = programs.run(
        [sys.executable, str(EXAMPLES / "read_events.py")],
        timeout=60,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "3 more" in done.stdout

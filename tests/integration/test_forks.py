"""Programs fork whatever their clients do, and nobody loses anything: neither child nor parent."""

import itertools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing import LocalServer
from tests.effort import examples, is_long

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PROGRAM = Path(__file__).with_name("forking_program.py")
LIMIT_S = 1_200  # only ends what is stalled

ACTIVITIES = [
    "idle",
    "listing_streams",
    "writing",
    "reading",
    "transaction_open",
    "scanning",
    "connecting",
    "forking",
]
CASES = (
    list(itertools.product(["threads", "asyncio", "uvloop"], ACTIVITIES))
    if is_long()
    else [("threads", " ".join(ACTIVITIES[::2])), ("asyncio", " ".join(ACTIVITIES[1::2]))]
)
"""Each activity with one of two faces, in one process of each; in the long form all pairs."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with LocalServer(tmp_path_factory.mktemp("forks"), "--in-memory") as running:
        yield running


@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize(("face", "activities"), CASES)
def test_a_program_forks_whatever_its_client_does(server, face, activities):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[2] / "src"),
        "PYTHONWARNINGS": "ignore:This process:DeprecationWarning",  # that it has threads
    }
    done = subprocess.run(
        [sys.executable, PROGRAM, server.uri, face, str(examples(5)), *activities.split()],
        timeout=LIMIT_S,
        capture_output=True,
        check=False,
        env=environment,
    )
    assert (done.returncode, done.stderr.decode(), done.stdout.decode()) == (0, "", "")

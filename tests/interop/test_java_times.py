"""Time windows of the real Java client, unpatched.

Needs ``java`` (17) and the jars of the client with what it depends on, in the folder that
``JAVA_CLIENT_JARS`` names: for instance those of ``io.pravega:pravega-client:0.13.0``, brought there by
``mvn dependency:copy-dependencies``. Without them the tests are skipped.
"""

import os
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration
from headrace.client.blocking import connect
from headrace.testing import LocalServer

JARS = os.environ.get("JAVA_CLIENT_JARS", "")
PROGRAM = Path(__file__).parent / "java" / "TimeWindows.java"
OPENED = ("java.base/java.lang", "java.base/sun.nio.ch", "java.base/java.nio")

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(not JARS or shutil.which("java") is None, reason="no Java client is given"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    period = {"HEADRACE_CONTROLLER__WATERMARKS__PERIOD_S": "0.2"}
    with LocalServer(tmp_path_factory.mktemp("java"), environment=period) as running:
        yield running


def windows(server, scope, kind):
    """Return (events read, lower, upper) for each window that the reader saw."""
    # The client's own StreamManager does not send the time for which a silent writer is waited for.
    with connect(server.uri) as client:
        client.create_scope(scope)
        config = StreamConfiguration(scaling=ScalingPolicy.fixed(2), timestamp_timeout_ms=600_000)
        client.create_stream(scope, kind, config)
    opened = [f"--add-opens={each}=ALL-UNNAMED" for each in OPENED]
    command = ["java", *opened, "-cp", f"{JARS}/*", str(PROGRAM), server.uri, scope, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("WINDOW ")]
    return [tuple(None if word == "null" else int(word) for word in line) for line in lines]


def check(seen):
    """Assert that bounds ascend, from an unknown lower one to an unknown upper one."""
    lowers = [lower for _, lower, _ in seen if lower is not None]
    assert lowers == sorted(lowers)
    assert all(lower < upper for _, lower, upper in seen if lower is not None and upper is not None)
    assert all(after is not None or before is None for (_, before, _), (_, after, _) in pairwise(seen))
    assert seen[-1][2] is None


def test_times_that_two_writers_note(server):
    seen = windows(server, "java-noted", "noted")
    check(seen)
    assert seen[0][1] is None
    assert seen[-1][1] == 400  # of the writer that is behind the other
    assert {upper % 100 for _, _, upper in seen[:-1]} <= {0, 7}


def test_times_that_the_client_notes_by_itself(server):
    seen = windows(server, "java-automatic", "automatic")
    check(seen)
    assert seen[-1][1] > 1_700_000_000_000


def test_times_that_transactions_commit_with(server):
    seen = windows(server, "java-transactions", "transactions")
    check(seen)
    assert seen[0][1] is None
    assert seen[-1][1] == 400

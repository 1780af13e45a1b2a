"""Time windows of the real Java client; ``java_programs.py`` says what they need."""

from itertools import pairwise

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration
from headrace.client.blocking import connect
from tests.interop.java_programs import needs_java_client, run_program
from tests.servers import running

pytestmark = [pytest.mark.cluster, needs_java_client]


@pytest.fixture(scope="module")
def server(server_kind, tmp_path_factory):
    period = {"HEADRACE_CONTROLLER__WATERMARKS__PERIOD_S": "0.2"}
    with running(server_kind, tmp_path_factory.mktemp("java"), environment=period) as made:
        yield made


def windows(server, scope, kind):
    """Return (events read, lower, upper) for each window that the reader saw."""
    # The client's own StreamManager does not send the time for which a silent writer is waited for.
    with connect(server.uri) as client:
        client.create_scope(scope)
        config = StreamConfiguration(scaling=ScalingPolicy.fixed(2), timestamp_timeout_ms=600_000)
        client.create_stream(scope, kind, config)
    printed = run_program("TimeWindows", server.uri, scope, kind)
    lines = [words[1:] for words in printed if words[:1] == ["WINDOW"]]
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

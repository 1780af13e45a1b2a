"""Policies of streams under the real Java client: scaling, retention, subscribers, updates.

``java_programs.py`` says what they need.
"""

import pytest

from headrace.client.blocking import connect
from tests.interop.java_programs import needs_java_client, run_program
from tests.servers import running

pytestmark = [pytest.mark.cluster, needs_java_client]

QUICK = {
    "SCALING__SAMPLE_S": "0.1",
    "SCALING__SLOW_S": "0.8",
    "SCALING__HOT_S": "0.3",
    "SCALING__COLD_S": "1.5",
    "SCALING__COOL_DOWN_S": "0.5",
    "CONTROLLER__RETENTION__PERIOD_S": "0.3",
    "CONTROLLER__WATERMARKS__PERIOD_S": "0.2",
}


@pytest.fixture(scope="module")
def server(server_kind, tmp_path_factory):
    environment = {f"HEADRACE_{name}": value for name, value in QUICK.items()}
    with running(server_kind, tmp_path_factory.mktemp("java"), environment=environment) as made:
        yield made
        assert made.stop() == 0
        assert " ERROR " not in made.log()


@pytest.fixture
def run(server):
    """Run one case of the program in a scope of its own; return the facts it prints."""

    def run_case(case):
        said = len(server.log())
        with connect(server.uri) as client:
            client.create_scope(case)
        printed = run_program("Policies", server.uri, case, case)
        assert " ERROR " not in server.log()[said:]
        return {words[1]: int(words[2]) for words in printed if words[:1] == ["FACT"]}

    return run_case


@pytest.mark.parametrize("case", ["eventRate", "dataRate"])
def test_a_stream_follows_its_load(run, case):
    facts = run(case)
    assert facts["split"] >= 4
    assert facts["events"] > 600


def test_scales_on_request_under_a_writer_that_notes_times(run):
    assert run("manual")["events"] > 600


def test_at_least_the_minimum_of_bytes_is_retained(run):
    facts = run("size")
    assert facts["minimum"] <= facts["retained"] < facts["written"]
    assert facts["read"] == facts["retained"]


def test_what_is_younger_than_the_minimum_is_retained(run):
    run("time")


def test_a_stream_is_truncated_where_a_group_is(run):
    run("cut")


def test_retention_waits_for_what_a_group_reports(run):
    assert run("manualRelease")["limited"] >= 10_000


def test_retention_waits_for_the_checkpoints_of_a_group(run):
    run("automaticRelease")


def test_policies_are_updated_while_a_stream_is_written(run):
    assert run("updates")["events"] > 600

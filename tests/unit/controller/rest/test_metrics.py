"""The table of metrics, and how statistics become metrics."""

import re
from dataclasses import dataclass, field

import httpx
import pytest
from generate_metrics_table import METRICS
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from headrace.controller.rest.routes import RestRoutes
from headrace.processes.metrics.table import LEFT_OUT
from headrace.processes.metrics.table import METRICS as STORE_METRICS
from headrace.processes.store_health import store_contributors
from headrace.storage.providers.wrappers.measured import CallStatistics
from headrace.web.metrics.metric import Kind
from tests.unit.controller.rest.test_rest_debug import Condition

LABELS = {"container", "call", "error", "pool", "state"}
"""Each has as many values as there are containers, or names of its kind in the code."""
BAD_ENDINGS = ("_total", "_count", "_sum", "_bucket", "_ms", "_s", "_kb", "_mb", "_info", "_created")


@dataclass(slots=True)
class Tasks:
    running: list = field(default_factory=lambda: ["a", "b"])
    failed: int = 0


class Store:
    """A store with two containers, one of them offline, and calls that took some time."""

    metrics = STORE_METRICS

    def __init__(self):
        self.read = CallStatistics(
            calls=4, errors={"NoSuchObjectError": 1}, bytes=7, seconds_total=5.5, by_bucket=[1, 0, 2]
        )
        self.read.by_bucket += [0] * 7 + [1]

    def statistics(self):
        return {
            "chunks": {"calls": {"read": self.read}},
            "containers": {
                0: {"health": Condition(0, True, 2), "tasks": Tasks()},
                1: {"health": Condition(1, False, waits_for="space")},
            },
        }

    def status(self):
        return "UP"

    def contributors(self):
        return store_contributors({}, [Condition(0, True), Condition(1, False)])


@pytest.fixture
async def web(world):
    async with world.running() as controller:
        transport = httpx.ASGITransport(app=RestRoutes(controller, parts=[Store()]).application())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def samples_of(families):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for each in families
        for sample in each.samples
    }


def test_names_are_those_of_the_format():
    names = [metric.name for metric in METRICS]
    assert len(set(names)) == len(names)
    for metric in METRICS:
        assert re.fullmatch(r"headrace_[a-z]+(_[a-z]+)*", metric.name), metric
        assert not metric.name.endswith(BAD_ENDINGS), metric
        assert metric.help.endswith("."), metric
        assert set(metric.labels) <= LABELS, metric
        assert ("byte" in metric.path or "_ms" in metric.path) <= bool(metric.unit), (
            f"{metric.name} does not end with its unit"
        )
        assert (metric.kind is Kind.HISTOGRAM) == bool(metric.sum_field)


def test_a_field_is_a_metric_or_left_out_but_not_both():
    paths = [metric.path for metric in METRICS]
    assert len(set(paths)) == len(paths)
    assert not set(paths) & set(LEFT_OUT)
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize(
    ("accept", "parse", "content_type"),
    [
        ("*/*", parse_text, "text/plain; version="),
        ("text/plain; version=new", parse_text, "text/plain; version="),
        ("application/openmetrics-text; version=1.0.0", parse_openmetrics, "application/openmetrics-text"),
    ],
)
async def test_statistics_are_read_as_metrics(web, accept, parse, content_type):
    answer = await web.get("/metrics/", headers={"accept": accept})
    assert answer.headers["content-type"].startswith(content_type)
    found = samples_of(parse(answer.text))
    one, other, read = ("container", "0"), ("container", "1"), ("call", "read")
    assert found["headrace_ready",] == 0
    assert (found["headrace_container_online", one], found["headrace_container_online", other]) == (1, 0)
    assert (found["headrace_container_waiting", one], found["headrace_container_waiting", other]) == (0, 1)
    assert found["headrace_container_restarts_total", one] == 2
    assert found["headrace_container_tasks", one] == 2
    assert ("headrace_container_tasks", other) not in found
    assert found["headrace_chunk_store_call_errors_total", read, ("error", "NoSuchObjectError")] == 1
    assert found["headrace_chunk_store_call_bytes_total", read] == 7
    bounds = {"0.0001": 1, "0.0003": 1, "0.001": 3, "3.0": 3, "+Inf": 4}
    for bound, count in bounds.items():
        assert found["headrace_chunk_store_call_seconds_bucket", read, ("le", bound)] == count
    assert found["headrace_chunk_store_call_seconds_sum", read] == 5.5
    assert found["headrace_chunk_store_call_seconds_count", read] == 4
    assert found["headrace_controller_transactions", ("state", "OPEN")] == 0
    assert found["headrace_controller_buckets_owned",] == found["headrace_controller_buckets",] > 0
    assert found["process_resident_memory_bytes",] > 0
    assert found["process_open_fds",] > 0


async def test_the_version_is_told(web):
    from headrace import __version__

    assert f'headrace_build_info{{version="{__version__}"}} 1.0' in (await web.get("/metrics")).text

"""Every number that a server counts is a metric, or left out for a reason."""

import re

import httpx
import pytest
from generate_metrics_table import METRICS
from prometheus_client.parser import text_string_to_metric_families as parse

from headrace.processes.cluster_part import CLUSTER_METRICS
from headrace.processes.config import StandaloneConfig
from headrace.processes.metrics.table import LEFT_OUT
from headrace.processes.standalone import StandaloneServer
from headrace.runtime.settings_sources import load

pytestmark = pytest.mark.real_loop

EMPTY = {"chunks.calls.{call}.errors.{error}"}
"""Mappings that may be without a member in a server that is well."""
ELSEWHERE = {metric.path for metric in CLUSTER_METRICS}


def leaves(value, path=""):
    """Yield the path of every number and text of the statistics."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    else:
        yield path


def pattern_of(path):
    return re.compile(re.sub(r"\\\{\w+\\\}", "[^.]+", re.escape(path)))


async def test_every_statistic_is_a_metric_or_left_out(tmp_path):
    overrides = {
        "data_dir": str(tmp_path / "data"),
        "containers": 1,
        "container.optimiser.mode": "on",
        **dict.fromkeys(["controller_port", "segmentstore_port", "rest_port"], 0),
    }
    server = StandaloneServer(load(StandaloneConfig, overrides=overrides))
    addresses = await server.start()
    try:
        async with httpx.AsyncClient(base_url=f"http://{addresses.rest}", trust_env=False) as web:
            statistics = (await web.get("/v1/debug/statistics")).json()
            families = {found.name: found for found in parse((await web.get("/metrics")).text)}
    finally:
        await server.stop()
    paths = set(leaves(statistics))
    known = {metric.path: pattern_of(metric.path) for metric in METRICS if metric.path != "ready"}
    known |= {path: pattern_of(path) for path in LEFT_OUT}
    assert [path for path in paths if not any(each.fullmatch(path) for each in known.values())] == []
    unused = {path for path, each in known.items() if not any(map(each.fullmatch, paths))}
    assert ELSEWHERE <= unused <= EMPTY | ELSEWHERE
    assert {metric.name for metric in METRICS if metric.path not in EMPTY | ELSEWHERE} <= families.keys()
    assert "optimiser" in statistics["containers"]["0"]

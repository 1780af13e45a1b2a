"""The page about monitoring, its alerts and its dashboard name metrics that exist, and runbook sections."""

import json
import re
from pathlib import Path

import pytest
from generate_metrics_table import METRICS

from headrace.controller.rest.rules import RULES
from headrace.web.metrics.metric import Kind
from tests.docs.test_links import anchors

FOLDER = Path(__file__).parents[2] / "docs" / "operating"
PAGE = (FOLDER / "monitor.md").read_text()
RULE_FILE = (FOLDER / "prometheus-rules.yml").read_text()
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())

BY_NAME = {metric.exposed_name: metric for metric in METRICS if metric.kind is not Kind.HISTOGRAM}
BY_NAME |= {
    f"{metric.name}{part}": metric
    for metric in METRICS
    if metric.kind is Kind.HISTOGRAM
    for part in ("", "_bucket", "_sum", "_count")
}
BESIDE = {"headrace_build_info"}
SCRAPED_LABELS = {"instance", "job", "le"}

ALERTS = re.findall(
    r"- alert: (\w+)\n +expr: (.*?)\n(?: +for: \w+\n)? +labels: .*?\n.*?runbook: \"([^\"]+)\"",
    RULE_FILE,
    re.DOTALL,
)
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", ())]
ROWS = {
    name: (when, to)
    for name, when, to in re.findall(r"^\| `(Headrace\w+)` \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
}


def metrics_in(text):
    return set(re.findall(r"\bheadrace_[a-z_]+", text)) - BESIDE


def faults_of(query):
    """Return what a query names that no metric in it has."""
    named = metrics_in(query)
    known = SCRAPED_LABELS.union(*(BY_NAME[name].labels for name in named & BY_NAME.keys()))
    labels = {each.strip() for group in re.findall(r"\bby \(([^)]*)\)", query) for each in group.split(",")}
    labels |= set(re.findall(r"[{,]\s*(\w+)\s*=", query))
    faults = named - BY_NAME.keys() | labels - known
    if "rate(" in query or "increase(" in query:  # of what only grows
        faults |= {
            name
            for name in re.findall(r"(?:rate|increase)\((headrace_[a-z_]+)", query)
            if name in BY_NAME and BY_NAME[name].kind is Kind.GAUGE
        }
    return faults


def test_a_query_of_nothing_would_be_noticed():
    assert faults_of("rate(headrace_ready[5m]) + headrace_cold{container=''}") == {
        "headrace_ready",
        "headrace_cold",
        "container",
    }
    assert faults_of("sum by (container, le) (rate(headrace_log_frame_seconds_bucket[5m]))") == set()


def test_the_dashboard_names_what_exists():
    assert len(QUERIES) > 30
    assert {query: faults_of(query) for query in QUERIES if faults_of(query)} == {}
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert all(panel["description"] for panel in panels)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in panels:
        for target in panel["targets"]:
            legend = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
            known = SCRAPED_LABELS.union(*(BY_NAME[name].labels for name in metrics_in(target["expr"])))
            assert legend <= known, target


def test_alerts_name_what_exists_and_where_to_look():
    assert len(ALERTS) == RULE_FILE.count("- alert:") > 10
    for name, query, runbook in ALERTS:
        assert faults_of(query) == set(), name
        page, _, anchor = runbook.partition("#")
        assert anchor in anchors(FOLDER / page), name


def test_the_page_explains_every_alert():
    assert list(ROWS) == [name for name, *_ in ALERTS]
    for name, query, runbook in ALERTS:
        when, to = ROWS[name]
        assert metrics_in(when) == {each.removesuffix("_bucket") for each in metrics_in(query)}, name
        assert f"({runbook})" in to, name


def test_the_page_names_what_exists():
    assert metrics_in(PAGE) <= BY_NAME.keys()
    assert {metric.exposed_name for metric in METRICS} <= metrics_in(PAGE)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`GET (/[\w/]+)`|10080(/[\w/]+)|path: (/\w+)", PAGE)))
)
def test_the_paths_it_names_exist(path):
    assert ("GET", "".join(path)) in RULES

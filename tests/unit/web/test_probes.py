"""A process without a controller, asked over the network: health and metrics of its parts, nothing else."""

from contextlib import asynccontextmanager

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from headrace.security.permission import Permission
from headrace.security.resources import ROOT
from headrace.web.probes import probe_application
from headrace.web.process_parts import DOWN, STARTING
from headrace.web.rules import PROCESS_RULES
from headrace.web.server import WebServer
from tests.unit.controller.known_users import KnownUsers, basic
from tests.unit.web.mill import Mill

PATHS = [path.format(part="upperWheel") for _, path in PROCESS_RULES]


class Store:
    """The segment store of the process."""

    paused = False

    async def statistics(self, container=None):
        numbers = [0, 1] if container is None else {0, 1} & {container}
        return {"cache": {}, "containers": {str(number): {"health": {}} for number in numbers}}

    async def optimisers(self):
        return {"mode": "auto", "paused": self.paused, "containers": []}

    async def pause_optimisers(self, *, paused):
        self.paused = paused


@asynccontextmanager
async def serving(*parts, users=None):
    names = ["mill.example.org"]
    server = WebServer(lambda: probe_application(parts, Store(), "1.2.3", users, names), "127.0.0.1", 0)
    port = await server.start()
    server.serve()
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as web:
            yield web
    finally:
        await server.stop()


@pytest.fixture
async def web():
    async with serving(Mill("upper"), Mill("lower")) as web:
        yield web


@pytest.mark.slow
@pytest.mark.parametrize("tail", ["", "/"])
async def test_every_path_of_health_and_metrics_is_there(web, tail):
    found = {path: (await web.get(path + tail)).status_code for path in PATHS}
    assert found == dict.fromkeys(PATHS, 200)


async def test_health_tells_of_every_part(web):
    whole = (await web.get("/health")).json()
    assert (whole["status"], whole["readiness"], whole["liveness"]) == ("UP", True, True)
    assert list(whole["children"]) == ["upperWheel", "lowerWheel"]
    assert whole["children"]["upperWheel"]["details"] == {"water": "high"}
    refused = await web.get("/v1/health/nobody")
    assert (refused.status_code, "there are upperWheel, lowerWheel" in refused.json()["error"]) == (404, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mill", "statuses", "waiting"),
    [
        (Mill("lower", hindered="has no water"), (503, 200), "lowerWheel (has no water)"),
        (Mill("lower", STARTING), (503, 200), "lowerWheel"),
        (Mill("lower", DOWN), (503, 503), "lowerWheel"),
    ],
)
async def test_the_status_of_a_probe_tells_whether_every_part_is_well(mill, statuses, waiting):
    async with serving(Mill("upper"), mill) as web:
        ready, live = await web.get("/ready"), await web.get("/live")
        assert (ready.status_code, live.status_code) == statuses
        assert ready.json()["details"] == {"notReady": waiting}
        assert "headrace_ready 0.0" in (await web.get("/metrics")).text


async def test_a_store_says_what_it_counts_and_pauses_its_optimisers(web):
    assert list((await web.get("/v1/debug/statistics")).json()["containers"]) == ["0", "1"]
    assert list((await web.get("/v1/debug/statistics?container=1")).json()["containers"]) == ["1"]
    assert (await web.get("/v1/debug/statistics?container=2")).status_code == 404
    for paused in (True, False):
        answer = await web.put("/v1/storage/optimiser", json={"paused": paused})
        assert answer.json() == {"mode": "auto", "paused": paused, "containers": []}


async def test_metrics_are_those_that_the_parts_bring(web):
    found = {family.name for family in parse((await web.get("/metrics")).text)}
    ours = {name for name in found if name.startswith("headrace_")}
    assert ours == {"headrace_build_info", "headrace_ready", "headrace_upper_turns", "headrace_lower_turns"}
    assert "process_resident_memory_bytes" in found
    assert 'headrace_build_info{version="1.2.3"} 1.0' in (await web.get("/metrics")).text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "path", "headers", "status", "words"),
    [
        ("GET", "/v1/scopes", {}, 404, "no such path; there are /live, /ready, /health"),
        ("GET", "/docs", {}, 404, "no such path"),
        ("POST", "/ready", {}, 405, "POST is not allowed here, but GET, HEAD"),
        ("GET", "/metrics", {"host": "attacker.example"}, 421, "'attacker.example'"),
        ("POST", "/ready", {"sec-fetch-site": "cross-site"}, 403, "web pages of other origins"),
        ("POST", "/ready", {"content-type": "text/plain", "content-length": "1"}, 415, "application/json"),
    ],
)
async def test_what_is_not_answered_is_refused_in_words(web, verb, path, headers, status, words):
    answer = await web.request(
        verb, path, headers=headers, content=b"x" if "content-length" in headers else b""
    )
    assert (answer.status_code, answer.json().keys()) == (status, {"error"})
    assert words in answer.json()["error"]
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_probes_ask_by_any_name_and_people_by_those_of_the_server(web):
    for host, path, status in [
        ("any.example", "/ready", 200),
        ("any.example", "/live", 200),
        ("any.example", "/health", 421),
        ("mill.example.org:10080", "/health", 200),
    ]:
        assert (await web.get(path, headers={"host": host})).status_code == status, (host, path)


@pytest.mark.slow
async def test_users_need_what_they_need_at_a_controller():
    users = KnownUsers(reader={ROOT: Permission.READ}, admin={ROOT: Permission.READ_UPDATE}, stranger={})
    async with serving(Mill("upper"), users=users) as web:

        async def ask(path, *names):
            headers = [("authorization", basic(name)) for name in names]
            return (await web.get(path, headers=headers)).status_code

        assert [await ask(path) for path in ("/ready", "/live", "/health", "/v1/health/upperWheel")] == [
            200
        ] * 4
        assert (await web.get("/health")).json()["children"]["upperWheel"]["details"] == {}
        who = [(), ("stranger",), ("reader",), ("admin",)]
        assert [await ask("/metrics", *names) for names in who] == [401, 403, 200, 200]
        assert [await ask("/v1/debug/statistics", *names) for names in who] == [401, 403, 403, 200]
        assert [await ask("/v1/health/details/upperWheel", *names) for names in who] == [401, 403, 403, 200]

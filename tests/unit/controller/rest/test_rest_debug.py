"""Statistics of the process, whoever counts them, and the health of containers beside the controller."""

from dataclasses import dataclass

import httpx
import pytest

from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.events.request_format import encode_event
from headrace.controller.rest.routes import RestRoutes
from headrace.controller.store.contract import ABSENT
from headrace.controller.store.rows.event_rows import FailedEventRow, ProgressRow
from headrace.processes.store_health import store_contributors
from headrace.runtime.statistics import plain_values


@dataclass(slots=True)
class Counted:
    reads: int


@dataclass(slots=True)
class Condition:
    container_id: int
    online: bool
    restarts: int = 0
    last_failure: str = ""
    waits_for: str = ""


class SegmentStoreBeside:
    """Three containers, one of them offline: as a part of the process, and as REST asks it."""

    metrics = ()

    def __init__(self):
        self.refusals = {}
        self.containers = [
            Condition(0, True),
            Condition(1, False, 7, "DataCorruptionError: a bit"),
            Condition(2, True, waits_for="space on the disk of the log"),
        ]

    def status(self):
        return "UP"

    def statistics(self):
        return {"cache": Counted(3), "containers": {0: {"log": Counted(1)}, 1: {"log": Counted(2)}}}

    def contributors(self):
        return store_contributors(self.refusals, self.containers)


@pytest.fixture
async def controller(world):
    async with world.running() as running:
        yield running


class Asked:
    def __init__(self, part):
        self.part = part

    async def statistics(self, container=None):
        found = plain_values(self.part.statistics())
        if container is not None:
            found["containers"] = {n: each for n, each in found["containers"].items() if n == str(container)}
        return found

    async def health(self):
        return self.part.contributors()


def client_of(controller, inside=None):
    routes = RestRoutes(controller)
    if inside is not None:
        routes = RestRoutes(controller, Asked(inside), parts=[inside])
    transport = httpx.ASGITransport(app=routes.application())
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/v1")


async def test_every_field_of_a_statistics_class_is_shown_by_itself(controller):
    async with client_of(controller, SegmentStoreBeside()) as web:
        found = (await web.get("/debug/statistics")).json()
        assert found["cache"] == {"reads": 3}
        assert found["containers"] == {"0": {"log": {"reads": 1}}, "1": {"log": {"reads": 2}}}
        assert {"workflows", "transactions", "streams"} <= set(found["controller"])
        assert (await web.get("/debug/statistics/")).status_code == 200
        one = (await web.get("/debug/statistics?container=1")).json()
        assert one["containers"] == {"1": {"log": {"reads": 2}}}
        for unknown in ("2", "-1", "x", "1.", "9" * 30, "\u0661"):
            assert (await web.get(f"/debug/statistics?container={unknown}")).status_code == 404


async def test_a_controller_without_a_segment_store_tells_about_itself(controller):
    async with client_of(controller) as web:
        assert set((await web.get("/debug/statistics")).json()) == {"controller"}
        assert (await web.get("/debug/statistics?container=0")).status_code == 404
        assert (await web.get("/health/container-0")).status_code == 404


async def test_an_offline_container_is_seen_in_health_with_its_reason(controller):
    async with client_of(controller, SegmentStoreBeside()) as web:
        children = (await web.get("/health")).json()["children"]
        assert children["container-0"]["status"] == "UP"
        assert children["container-1"]["status"] == "DOWN"
        assert (await web.get("/health/readiness/container-1")).json() is False
        details = (await web.get("/health/details/container-1")).json()
        assert details == {"restarts": "7", "lastFailure": "DataCorruptionError: a bit", "waitsFor": ""}
        assert "disk" in (await web.get("/health/details/container-2")).json()["waitsFor"]


async def test_the_health_of_the_cluster_has_the_stores_wherever_they_are(controller):
    """Here the store is no part of the process."""
    routes = RestRoutes(controller, Asked(SegmentStoreBeside()))
    transport = httpx.ASGITransport(app=routes.application())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/v1") as web:
        whole = (await web.get("/cluster/health")).json()
        assert whole["children"].keys() >= {"GRPCServer", "container-0", "container-1"}
        assert (whole["status"], whole["readiness"]) == ("UP", False)
        assert whole["details"]["notReady"].startswith("container-1, container-2 (waits for")
        assert (await web.get("/health")).json()["readiness"] is True


async def test_a_process_with_an_offline_container_is_up_and_alive_but_not_ready(controller):
    store = SegmentStoreBeside()
    async with client_of(controller, store) as web:
        whole = (await web.get("/health")).json()
        assert (whole["status"], whole["readiness"], whole["liveness"]) == ("UP", False, True)
        waits = "container-2 (waits for space on the disk of the log)"
        assert whole["details"] == {"notReady": f"container-1, {waits}"}
        assert (await web.get("/health/readiness/container-2")).json() is False
        views = [(await web.get(f"/health/{view}")).json() for view in ("readiness", "liveness", "status")]
        assert views == [False, True, "UP"]
        assert (await web.get("/health/readiness/container-0")).json() is True
        store.containers = [Condition(0, True), Condition(1, True)]
        assert (await web.get("/health/readiness")).json() is True
        assert (await web.get("/health/details")).json() == {}


async def test_the_status_of_a_probe_tells(world):
    store = SegmentStoreBeside()
    async with world.running() as controller, client_of(controller, store) as web:
        web.base_url = "http://localhost"
        ready = await web.get("/ready")
        assert ready.status_code == 503
        assert ready.json()["details"]["notReady"].startswith("container-1, ")
        assert (await web.get("/live")).status_code == (await web.get("/health/")).status_code == 200
        store.containers = [Condition(0, True), Condition(1, True)]
        assert (await web.get("/ready")).status_code == (await web.head("/ready")).status_code == 200
        assert (await web.get("/ready")).json() == (await web.get("/v1/health")).json()
    async with client_of(controller, store) as web:
        probes = [
            (await web.get(f"http://localhost/{path}")).status_code for path in ("live", "ready", "health")
        ]
        assert probes == [503, 503, 200]


async def test_requests_that_were_set_aside_are_listed_by_every_controller(world):
    async with world.running() as one, world.running() as other, client_of(other) as client:
        assert (await client.get("/debug/failed-events")).json() == {"events": [], "dropped": 0}
        event = RequestEvent(EventKind.TXN_WORK, "s", "t", bytes(16))
        row = FailedEventRow(7, world.clock.now, "host:1", "KeyError: x", encode_event(event))
        await one.context.event_progress.set_aside(1, 0, row)
        damaged = FailedEventRow(9, world.clock.now + 1, "host:1", "no event", b"\xff")
        await one.context.event_progress.set_aside(0, 101, damaged)
        await one.context.event_progress.write(0, ProgressRow(10, 102), ABSENT)
        found = (await client.get("/debug/failed-events/")).json()
        assert found["dropped"] == 2
        assert found["events"] == [
            {
                "time": "2023-11-14T22:13:20.000+00:00",
                "bucket": 1,
                "offset": 7,
                "kind": "TXN_WORK",
                "stream": "s/t",
                "controller": "host:1",
                "reason": "KeyError: x",
                "data": encode_event(event).hex(),
            },
            {
                "time": "2023-11-14T22:13:20.001+00:00",
                "bucket": 0,
                "offset": 9,
                "kind": "",
                "stream": "",
                "controller": "host:1",
                "reason": "no event",
                "data": "ff",
            },
        ]


async def test_the_statistics_say_which_buckets_have_this_owner(controller):
    async with client_of(controller) as web:
        found = (await web.get("/debug/statistics")).json()["controller"]["buckets"]
    count = controller.context.buckets.count
    assert found == {"controllers": 1, "buckets": count, "owned": list(range(count))}


async def test_a_process_whose_storage_refuses_is_not_ready_and_says_why(controller):
    store = SegmentStoreBeside()
    store.containers = [Condition(0, True)]
    async with client_of(controller, store) as web:
        assert (await web.get("http://test/ready")).status_code == 200
        assert (await web.get("/health/details/longTermStorage")).json() == {}
        store.refusals = {"create": "s3://b has expired", "read": "s3://b has expired"}
        ready = await web.get("http://test/ready")
        assert (ready.status_code, ready.json()["status"]) == (503, "UP")
        assert ready.json()["details"]["notReady"] == (
            "longTermStorage (refuses create, read: s3://b has expired)"
        )
        found = (await web.get("/health/details/longTermStorage")).json()
        assert found == store.refusals
        assert (await web.get("http://test/live")).status_code == 200

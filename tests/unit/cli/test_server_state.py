"""What ``headrace status`` makes of the answers of a server."""

from headrace.cli.server.state import not_ready, waiting
from headrace.cli.server.statistics import summary_of


def part(name, status="UP", **details):
    return {"name": name, "status": status, "readiness": status == "UP", "details": details}


def test_a_server_is_ready_when_all_its_parts_are():
    assert not_ready({"readiness": True, "status": "UP", "children": {"a": part("a"), "b": part("b")}}) == []


def test_each_part_that_is_not_ready_says_why():
    parts = {
        "GRPCServer": part("GRPCServer", "STARTING"),
        "container-0": part("container-0", restarts="1", lastFailure="it failed once", waitsFor=""),
        "container-1": part("container-1", "DOWN", lastFailure="", waitsFor="space"),
        "container-2": part("container-2", "DOWN", lastFailure="a torn frame", waitsFor="its log"),
    }
    assert not_ready({"readiness": False, "status": "STARTING", "children": parts}) == [
        "GRPCServer is STARTING",
        "container-1 is DOWN (waits for space)",
        "container-2 is DOWN (waits for its log, last failure: a torn frame)",
    ]


def test_a_store_and_a_container_of_a_cluster_say_why_they_are_not_ready():
    parts = {
        "store-a": part("store-a", "DOWN", address="h:1", why="h:1 did not answer within 5 s"),
        "container-1": part("container-1", "DOWN", why="there is no segment store"),
    }
    assert not_ready({"readiness": False, "status": "UP", "children": parts}) == [
        "store-a is DOWN (h:1 did not answer within 5 s)",
        "container-1 is DOWN (there is no segment store)",
    ]
    unanswered = [{"store": "a", "address": "h:1", "why": "it is silent"}]
    assert waiting({"containers": {}, "unanswered": unanswered}) == [
        "segment store h:1 does not answer: it is silent"
    ]


def test_a_summary_adds_up_what_the_stores_of_a_cluster_count():
    store = {"cache": {"used_bytes": 1024, "bytes_max": 4096}, "listener": {"connections": 2}}
    stores = {"a": {"statistics": store}, "b": {"statistics": store}, "c": {"statistics": {}}}
    found = dict(summary_of({"containers": {}, "stores": stores}))
    assert found["cache"] == "2.0 KiB of 8.0 KiB"
    assert found["connections"].startswith("4, ")


def test_a_server_that_hides_its_parts_is_not_ready_all_the_same():
    assert not_ready({"readiness": False, "status": "DOWN"}) == ["the server is DOWN"]


def test_what_waits_is_said_with_where_to_look():
    containers = {
        "0": {"durable_log": {"processor": {"throttle": {"source": "cache", "delay_s": 0.1}}}},
        "1": {"durable_log": {"wal": {"space_waiting": 1}}, "storage_writer": {"segments_failing": 3}},
        "2": {"health": {"online": False}},
        "3": {"durable_log": {"wal": {"degraded": 1}}},
    }
    controller = {"workflows": {"requests_waiting": 4}, "event_processor": {"set_aside": 5}}
    assert waiting({"containers": containers, "controller": controller}) == [
        "appends are delayed: container 0 by 100 ms: cache",
        "container 1 waits for space on the disk of its log",
        "container 1 cannot store 3 segments: look at long-term storage",
        "container 3 has its log on fewer bookies than wanted: start those that are missing",
        "4 calls wait for changes of streams",
        "5 requests were set aside since the start: headrace controller failed-events",
    ]
    assert waiting({"containers": {"2": {"health": {"online": False}}}}) == []

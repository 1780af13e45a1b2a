import asyncio
import struct
from contextlib import asynccontextmanager

import httpx
import pytest

from headrace.client.groups.group_codec import encode_update
from headrace.client.groups.updates import AcquireSegment, AddReader, StateInit
from headrace.client.revisions.entries import encode_state, encode_updates
from headrace.client.segment_address import SegmentAddress
from headrace.controller.rest.routes import RestRoutes
from headrace.model.names import segment_name
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED, StreamCut
from headrace.rpc.generated import controller_pb2 as pb
from headrace.web.server import WebServer
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.calls import idle_controller

ORDERS = {
    "streamName": "orders",
    "scalingPolicy": {
        "type": "BY_RATE_IN_EVENTS_PER_SEC",
        "targetRate": 500,
        "scaleFactor": 2,
        "minSegments": 3,
    },
    "retentionPolicy": {
        "type": "LIMITED_DAYS",
        "value": 0,
        "timeBasedRetention": {"days": 1, "hours": 12, "minutes": 0},
    },
    "streamTags": ["eu", "billing"],
    "timestampAggregationTimeout": 2000,
    "rolloverSizeBytes": 1048576,
}
ORDERS_ANSWER = {key: value for key, value in ORDERS.items() if key != "streamTags"} | {
    "scopeName": "demo",
    "tags": ["billing", "eu"],
}
JSON = {"content-type": "application/json"}
FIXED = {"type": "FIXED_NUM_SEGMENTS", "minSegments": 1}


@pytest.fixture
async def controller(world):
    async with world.running() as running:
        yield running


@pytest.fixture
async def web(controller):
    application = RestRoutes(controller).application()
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/v1") as client:
        await client.post("/scopes", json={"scopeName": "demo"})
        yield client


async def make(web, name="audit", **members):
    return await web.post(
        "/scopes/demo/streams", json={"streamName": name, "scalingPolicy": FIXED, **members}
    )


async def test_ping_answers_nothing(web):
    answer = await web.get("http://localhost/ping")
    assert (answer.status_code, answer.content) == (200, b"")


async def test_scopes_are_made_shown_listed_and_removed(web):
    answer = await web.post("/scopes", json={"scopeName": "other", "unknown": 1})
    assert (answer.status_code, answer.json()) == (201, {"scopeName": "other"})
    assert (await web.post("/scopes", json={"scopeName": "other"})).status_code == 409
    assert (await web.get("/scopes/other")).json() == {"scopeName": "other"}
    names = [{"scopeName": name} for name in ("_system", "demo", "other")]
    assert (await web.get("/scopes/")).json() == {"scopes": names}
    assert (await web.delete("/scopes/other")).status_code == 204
    for verb in (web.get, web.delete):
        answer = await verb("/scopes/other")
        assert (answer.status_code, answer.json()) == (404, {"error": "scope 'other' does not exist"})
    await make(web)
    assert (await web.delete("/scopes/demo")).status_code == 412


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"scopeName": "_a"}', b'{"scopeName": 1}', b"{}"])
async def test_a_scope_without_a_legal_name_is_refused(web, body):
    assert (await web.post("/scopes", content=body, headers=JSON)).status_code == 400


async def test_a_stream_is_made_and_shown_as_documented(web):
    answer = await web.post("/scopes/demo/streams", json=ORDERS)
    assert (answer.status_code, answer.json()) == (201, ORDERS_ANSWER)
    assert (await web.get("/scopes/demo/streams/orders")).json() == ORDERS_ANSWER
    assert (await web.post("/scopes/demo/streams", json=ORDERS)).status_code == 409
    assert (await web.post("/scopes/nowhere/streams", json=ORDERS)).status_code == 404
    assert (await web.get("/scopes/demo/streams/none")).status_code == 404
    assert (await web.get("/scopes/nowhere/streams/none")).status_code == 404


async def test_size_retention_counts_in_megabytes(web):
    retention = {"type": "LIMITED_SIZE_MB", "value": 100}
    answer = await make(web, retentionPolicy=retention)
    assert answer.json() == {
        "scopeName": "demo",
        "streamName": "audit",
        "scalingPolicy": FIXED,
        "retentionPolicy": retention,
        "tags": [],
        "timestampAggregationTimeout": 0,
        "rolloverSizeBytes": 0,
    }


async def test_whole_days_of_retention_are_shown_both_ways(web, controller):
    await make(web, retentionPolicy={"type": "LIMITED_DAYS", "value": 2, "maxValue": 3})
    shown = (await web.get("/scopes/demo/streams/audit")).json()["retentionPolicy"]
    assert shown == {
        "type": "LIMITED_DAYS",
        "value": 2,
        "timeBasedRetention": {"days": 2, "hours": 0, "minutes": 0},
    }
    stream = await controller.context.directory.get("demo", "audit")
    assert stream.row.config.retention.maximum == 3 * 86_400_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "members",
    [
        {"streamName": "_a"},
        {"streamName": "a b"},
        {"streamName": None},
        {"scalingPolicy": None},
        {"scalingPolicy": {"type": "NONE", "minSegments": 1}},
        {"scalingPolicy": {"type": "FIXED_NUM_SEGMENTS", "minSegments": 0}},
        {"scalingPolicy": {"type": "FIXED_NUM_SEGMENTS", "minSegments": True}},
        {"scalingPolicy": {"type": "BY_RATE_IN_EVENTS_PER_SEC", "minSegments": 1}},
        {"retentionPolicy": {"type": "FOREVER"}},
        {"retentionPolicy": {"type": "LIMITED_DAYS", "value": -1}},
        {"retentionPolicy": {"type": "LIMITED_DAYS"}},
        {"retentionPolicy": {"type": "LIMITED_DAYS", "value": 0}},
        {"retentionPolicy": {"type": "LIMITED_SIZE_MB", "maxValue": 5}},
        {"streamTags": [1]},
        {"streamTags": "a"},
        {"rolloverSizeBytes": "many"},
    ],
)
async def test_an_impossible_stream_is_refused_and_nothing_is_made(web, members):
    assert (await make(web, **{"streamName": "audit", **members})).status_code == 400
    assert (await web.get("/scopes/demo/streams")).json() == {"streams": []}


async def test_a_stream_is_updated_sealed_and_deleted(web):
    await make(web)
    path = "/scopes/demo/streams/audit"
    changed = {"scalingPolicy": {**FIXED, "minSegments": 2}, "streamTags": ["x"]}
    answer = await web.put(path, json=changed)
    assert (answer.status_code, answer.json()["tags"]) == (200, ["x"])
    assert (await web.get(path)).json()["scalingPolicy"]["minSegments"] == 2
    assert (await web.put("/scopes/demo/streams/none", json=changed)).status_code == 404
    assert (await web.delete(path)).status_code == 412
    assert (await web.put(f"{path}/state", json={"streamState": "ACTIVE"})).status_code == 400
    for _ in range(2):
        answer = await web.put(f"{path}/state", json={"streamState": "SEALED"})
        assert (answer.status_code, answer.json()) == (200, {"streamState": "SEALED"})
    assert (await web.put(path, json=changed)).status_code == 500
    assert (await web.delete(path)).status_code == 204
    assert (await web.delete(path)).status_code == 404
    assert (await web.put(f"{path}/state", json={"streamState": "SEALED"})).status_code == 404


async def test_listings_show_what_users_made_unless_asked_otherwise(web):
    await make(web, "a", streamTags=["x"])
    await make(web, "b")

    async def names(query=""):
        answer = await web.get(f"/scopes/demo/streams{query}")
        return [stream["streamName"] for stream in answer.json()["streams"]]

    assert await names() == ["a", "b"]
    assert await names("?filter_type=showInternalStreams") == ["_MARKa", "_MARKb"]
    assert await names("?filter_type=tag&filter_value=x") == ["a"]
    assert (await web.get("/scopes/nowhere/streams")).status_code == 404


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("filter_type=nonsense", "filter_type"),
        ("filter_type=", "filter_type"),
        ("filter_type=tag", "filter_value"),
    ],
)
async def test_a_filter_that_means_nothing_is_refused(web, query, field):
    await make(web, "a")
    answer = await web.get(f"/scopes/demo/streams?{query}")
    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert field in answer.json()["error"]


async def test_scaling_events_are_the_epochs_of_a_period_and_the_one_before(web, controller):
    await make(web)
    path = "/scopes/demo/streams/audit/scaling-events"
    now = (await web.get(f"{path}?from=0&to=9999999999999")).json()[0]["timestamp"]
    ranges = [
        pb.ScaleRequest.KeyRangeEntry(start=0.0, end=0.5),
        pb.ScaleRequest.KeyRangeEntry(start=0.5, end=1.0),
    ]
    await controller.handlers["scale"](
        pb.ScaleRequest(
            streamInfo=pb.StreamInfo(scope="demo", stream="audit"),
            sealedSegments=[0],
            newKeyRanges=ranges,
            scaleTimestamp=now + 1000,
        )
    )
    await idle_controller(controller)
    events = (await web.get(f"{path}?from={now + 500}&to={now + 2000}")).json()
    assert [event["timestamp"] for event in events] == [now, now + 1000]
    assert (events[1]["splits"], events[1]["merges"]) == (1, 0)
    assert events[1]["segments"][0] == {
        "number": 1,
        "epoch": 1,
        "start": now + 1000,
        "keyStart": 0.0,
        "keyEnd": 0.5,
    }
    assert len((await web.get(f"{path}?from={now}&to={now}")).json()) == 1
    for query in ("", "?from=1", "?to=1", "?from=2&to=1", "?from=-1&to=1", "?from=x&to=1"):
        assert (await web.get(path + query)).status_code == 400
    assert (await web.get("/scopes/demo/streams/none/scaling-events?from=0&to=1")).status_code == 404


async def test_a_cut_at_a_time_is_the_head_or_where_the_stream_was(web, controller, world):
    await make(web)
    segment = segment_name("demo", "audit", 0)
    world.segments.write(segment, bytes(7))
    world.clock.now += 10_000
    await controller.cut_sampling.sample_once()
    found = (await web.get(f"/scopes/demo/streams/audit/cut?at={world.clock.now}")).json()
    assert found == {
        "cut": StreamCut.from_offsets("demo", "audit", {0: 7}).as_text(),
        "timestamp": world.clock.now,
        "isHead": False,
        "segments": [{"number": 0, "epoch": 0, "offset": 7}],
    }
    head = (await web.get(f"/scopes/demo/streams/audit/cut?at={world.clock.now - 1}")).json()
    assert (head["isHead"], head["timestamp"], head["segments"][0]["offset"]) == (True, None, 0)
    assert (await web.get("/scopes/demo/streams/none/cut?at=0")).status_code == 404


async def test_a_stream_is_truncated_at_a_cut(web, controller, world):
    await make(web)
    segment, path = segment_name("demo", "audit", 0), "/scopes/demo/streams/audit/truncation"
    world.segments.write(segment, bytes(7))
    text = StreamCut.from_offsets("demo", "audit", {0: 5}).as_text()
    for cut in (text, text, {"0": 5}):
        answer = await web.put(path, json={"cut": cut})
        assert answer.status_code == 200, answer.json()
        assert answer.json() == {"cut": text, "segments": [{"number": 0, "epoch": 0, "offset": 5}]}
    assert world.segments.segments[segment].start_offset == 5
    for cut in ({"0": 4}, {"0": 8}, {"1": 0}, {}):  # before the head, behind the tail, of no segment
        assert (await web.put(path, json={"cut": cut})).status_code == 400
    assert world.segments.segments[segment].start_offset == 5
    assert (await web.put("/scopes/demo/streams/none/truncation", json={"cut": {"0": 5}})).status_code == 404
    await web.put("/scopes/demo/streams/audit/state", json={"streamState": "SEALED"})
    assert (await web.put(path, json={"cut": {"0": 8}})).status_code == 400
    for _ in range(2):
        assert (await web.put(path, json={"cut": {"0": 6}})).status_code == 200
    assert world.segments.segments[segment].start_offset == 6
    end = StreamCut.from_offsets("demo", "audit", {}).as_text()
    assert (await web.put(path, json={"cut": end})).status_code == 200
    assert world.segments.segments[segment].start_offset == 7


async def test_reader_groups_are_listed_shown_and_deleted(web, controller):
    request = group_config("billing", ["audit"])
    request.scope = "demo"
    await make(web)
    await controller.handlers["create_reader_group"](request)
    groups = (await web.get("/scopes/demo/readergroups")).json()
    assert groups == {"readerGroups": [{"readerGroupName": "billing"}]}
    assert (await web.get("/scopes/demo/readergroups/billing")).json() == {
        "scopeName": "demo",
        "readerGroupName": "billing",
        "streamList": ["s/audit"],
        "onlineReaderIds": [],
        "segments": [],
    }
    assert (await web.delete("/scopes/demo/readergroups/billing")).status_code == 204
    assert (await web.delete("/scopes/demo/readergroups/billing")).status_code == 404
    assert (await web.get("/scopes/demo/readergroups/billing")).status_code == 404
    assert (await web.get("/scopes/nowhere/readergroups")).status_code == 404


async def test_readers_of_a_group_are_those_that_its_stream_says(web, controller):
    request = group_config("billing", ["audit"])
    request.scope = "demo"
    await make(web)
    await controller.handlers["create_reader_group"](request)
    first, second = (SegmentAddress("demo", "audit", number) for number in range(2))
    begun = StateInit(ReaderGroupConfig(starts={"demo/audit": UNBOUNDED}), {first: 5, second: 7})
    entries = (
        encode_state(encode_update(begun)),
        encode_updates(
            [
                encode_update(each)
                for each in (AddReader("j1"), AddReader("p.py"), AcquireSegment("p.py", first))
            ]
        ),
    )
    framed = b"".join(struct.pack(">ii", 0, len(entry)) + entry for entry in entries)
    segment = segment_name("demo", "_RGbilling", 0)
    assert await controller.context.segments.append(segment, framed, 0)
    shown = (await web.get("/scopes/demo/readergroups/billing")).json()
    assert shown["onlineReaderIds"] == ["j1", "p.py"]
    assert shown["segments"] == [
        {"segment": first.name, "readerId": "p.py", "offset": 5},
        {"segment": second.name, "offset": 7},
    ]


async def test_health_is_told_as_a_whole_and_by_part(web):
    whole = (await web.get("/health")).json()
    assert (whole["name"], whole["status"], whole["readiness"]) == ("", "UP", True)
    assert whole["children"]["GRPCServer"]["status"] == "UP"
    assert (await web.get("/health/GRPCServer")).json()["name"] == "GRPCServer"
    assert (await web.get("/health/nobody")).status_code == 404
    assert (await web.get("/health/readiness")).json() is True
    assert (await web.get("/health/liveness/GRPCServer")).json() is True
    assert (await web.get("/health/status")).json() == "UP"
    assert isinstance((await web.get("/health/details/transactions")).json()["OPEN"], str)
    assert (await web.get("/health/details/nobody")).status_code == 404


async def test_a_stopped_controller_is_down(world):
    async with world.running() as controller:
        routes = RestRoutes(controller).application()
    transport = httpx.ASGITransport(app=routes)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/v1") as client:
        assert (await client.get("/health/readiness")).json() is False
        assert (await client.get("/health/status")).json() == "DOWN"
        assert (await client.get("http://localhost/ping")).status_code == 200
        answer = await client.post("/scopes", json={"scopeName": "late"})
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        assert "try again" in answer.json()["error"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "words", "field"),
    [
        ("POST", "/scopes", "{", 400, "not JSON", None),
        ("POST", "/scopes", "[]", 400, "no JSON object", None),
        ("POST", "/scopes", '{"scopeName": "\\ud800"}', 400, "not JSON", None),
        ("POST", "/scopes", b'{"scopeName": "\xff"}', 400, "not JSON", None),
        ("POST", "/scopes", "{}", 400, "scopeName is missing", "scopeName"),
        ("POST", "/scopes", {"scopeName": "_a"}, 400, "scopeName is 1 to 255", "scopeName"),
        ("POST", "/scopes", {"scopeName": None}, 400, "a string, not null", "scopeName"),
        ("POST", "/scopes", {"scopeName": "demo"}, 409, "demo", None),
        (
            "POST",
            "/scopes/demo/streams",
            {"scalingPolicy": FIXED},
            400,
            "streamName is missing",
            "streamName",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "_a", "scalingPolicy": FIXED},
            400,
            "illegal stream name '_a'",
            "streamName",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "a"},
            400,
            "scalingPolicy is missing",
            "scalingPolicy",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "a", "scalingPolicy": {"type": []}},
            400,
            "type is a string, not an array",
            "scalingPolicy.type",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "a", "scalingPolicy": {**FIXED, "minSegments": 1 << 31}},
            400,
            "minSegments is at most 2147483647",
            "scalingPolicy.minSegments",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "a", "scalingPolicy": {**FIXED, "minSegments": 0}},
            400,
            "1 to ",
            "scalingPolicy",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {
                "streamName": "a",
                "scalingPolicy": FIXED,
                "retentionPolicy": {"type": "LIMITED_DAYS", "timeBasedRetention": {"days": -1}},
            },
            400,
            "days is at least 0",
            "retentionPolicy.timeBasedRetention.days",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {
                "streamName": "a",
                "scalingPolicy": FIXED,
                "retentionPolicy": {"type": "LIMITED_DAYS", "timeBasedRetention": {"day": 7}},
            },
            400,
            "how much LIMITED_DAYS retains is missing",
            "retentionPolicy.value",
        ),
        (
            "POST",
            "/scopes/demo/streams",
            {"streamName": "a", "scalingPolicy": FIXED, "streamTags": [""]},
            400,
            "tags",
            "streamTags",
        ),
        ("PUT", "/scopes/demo/streams/s/state", {}, 400, "streamState is missing", "streamState"),
        ("DELETE", "/scopes/demo/streams/s", None, 412, "s", None),
        ("DELETE", "/scopes/demo", None, 412, "demo", None),
        ("GET", "/scopes/demo/streams/none", None, 404, "none", None),
        ("GET", "/scopes/demo/streams/s/scaling-events?from=x&to=1", None, 400, "'x'", "from"),
        ("PUT", "/scopes/demo/streams/s/truncation", {}, 400, "cut is missing", "cut"),
        ("PUT", "/scopes/demo/streams/s/truncation", {"cut": 7}, 400, "a string or an object", "cut"),
        ("PUT", "/scopes/demo/streams/s/truncation", {"cut": "x"}, 400, "not a stream cut", "cut"),
        ("PUT", "/scopes/demo/streams/s/truncation", {"cut": "UNBOUNDED"}, 400, "no cut of demo/s", "cut"),
        ("PUT", "/scopes/demo/streams/s/truncation", {"cut": {"a": 1}}, 400, "by segment id", "cut.a"),
        (
            "PUT",
            "/scopes/demo/streams/s/truncation",
            {"cut": {"0": "1"}},
            400,
            "a whole number, not a string",
            "cut",
        ),
        ("PUT", "/scopes/demo/streams/s/truncation", {"cut": {"0": -2}}, 400, "whole numbers", "cut.0"),
        ("GET", "/scopes/demo/streams/s/cut?at=noon", None, 400, "'noon'", "at"),
        (
            "GET",
            "/scopes/demo/streams/s/cut?at=1700000000",
            None,
            400,
            "is 1970-01-20T16:13:20Z, before",
            "at",
        ),
        ("GET", "/scopes/demo/streams/s/cut?at=2900000000000", None, 400, "2061-11-23T19:33:20Z is in", "at"),
        ("GET", f"/scopes/demo/streams/s/scaling-events?from=1&to={'1' * 5000}", None, 400, "to is a", "to"),
        ("GET", "/scopes/demo/readergroups/none", None, 404, "none", None),
        ("GET", f"/scopes/{'x' * 10_000}/streams/s", None, 404, "xxx", None),
        ("GET", "/health/nobody", None, 404, "no part 'nobody'; there are GRPCServer", None),
        ("GET", "/debug/statistics?container=9", None, 404, "container '9'", "container"),
        ("GET", "/nothing", None, 404, "/v1/nothing: there is no such path", None),
        ("PUT", "/scopes/demo", None, 405, "PUT is not allowed here", None),
    ],
)
async def test_a_refusal_says_what_is_wrong_and_where(web, verb, path, body, status, words, field):
    await make(web, "s")
    given = {"content": body} if isinstance(body, str | bytes) else {"json": body} if body is not None else {}
    answer = await web.request(verb, path, headers=JSON, **given)
    document = answer.json()
    assert answer.status_code == status, document
    assert words in document["error"]
    assert document.get("field") == field
    assert document.keys() <= {"error", "field"}
    if status == 405:
        assert set(answer.headers["Allow"].split(", ")) == {"GET", "HEAD", "DELETE"}


async def test_a_maximum_that_no_message_can_hold_is_none(web, controller):
    retention = {"type": "LIMITED_DAYS", "value": 1, "maxValue": (1 << 63) - 1}
    assert (await make(web, retentionPolicy=retention)).status_code == 201
    stream = await controller.context.directory.get("demo", "audit")
    assert stream.row.config.retention.maximum == (1 << 63) - 1


async def test_a_body_beyond_the_bound_is_refused(web):
    answer = await web.post("/scopes", content=b'{"scopeName": "' + b"x" * (1 << 20) + b'"}', headers=JSON)
    assert (answer.status_code, answer.json()) == (
        413,
        {"error": "the body of a request has at most 1048576 bytes"},
    )


@asynccontextmanager
async def listening(controller):
    server = WebServer(RestRoutes(controller).application, "127.0.0.1", 0)
    port = await server.start()
    server.serve()
    try:
        yield port
    finally:
        await server.stop()


async def talk(port, *pieces):
    """Send pieces on a connection of its own, and return what the server answers until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


TEN_MEGABYTES = 10 << 20
BEGIN = "Host: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("POST /v1/scopes", 413),
        ("POST /v1/nothing", 404),
        ("PUT /v1/scopes/demo", 405),
        ("POST /v1/health", 405),
    ],
)
async def test_a_client_that_sends_too_much_reads_why_it_is_refused(controller, target, status):
    head = f"{target} HTTP/1.1\r\n{BEGIN}Connection: close\r\nContent-Length: {TEN_MEGABYTES}\r\n\r\n"
    async with listening(controller) as port:
        answer = await talk(port, head.encode(), *[bytes(1 << 20)] * 10)
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b'{"error":' in answer


async def test_a_client_that_waits_for_permission_is_refused_before_it_sends(controller):
    head = (
        f"POST /v1/nothing HTTP/1.1\r\n{BEGIN}Connection: close\r\nExpect: 100-continue\r\n"
        f"Content-Length: {TEN_MEGABYTES}\r\n\r\n"
    )
    async with listening(controller) as port:
        answer = await talk(port, head.encode())
    assert answer.startswith(b"HTTP/1.1 404 ")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["POST /v1/scopes", "PUT /v1/scopes/a/streams/b", "POST /v1/nothing"])
async def test_a_client_that_leaves_within_its_body_leaves_no_trace(controller, target, caplog):
    head = f"{target} HTTP/1.1\r\n{BEGIN}Content-Length: 100\r\n\r\n{{"
    async with listening(controller) as port:
        for _ in range(5):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(head.encode())
            await writer.drain()
            writer.transport.abort()
        assert (await talk(port, b"no request\r\n\r\n")).startswith(b"HTTP/1.1 400 ")
        async with httpx.AsyncClient() as client:
            assert (await client.get(f"http://127.0.0.1:{port}/ping")).status_code == 200
    assert [record for record in caplog.records if record.levelname in {"WARNING", "ERROR"}] == []


async def test_members_may_be_null_where_they_may_be_absent(web):
    optional = ("retentionPolicy", "streamTags", "timestampAggregationTimeout", "rolloverSizeBytes")
    scaling = {**FIXED, "targetRate": None, "scaleFactor": None}
    answer = await make(web, **dict.fromkeys(optional), scalingPolicy=scaling)
    assert (answer.status_code, answer.json()["scalingPolicy"]) == (201, FIXED)
    retention = {"type": "LIMITED_DAYS", "value": 1, "maxValue": None, "timeBasedRetention": None}
    answer = await make(web, "other", retentionPolicy=retention | {"maxTimeBasedRetention": None})
    assert (answer.status_code, answer.json()["retentionPolicy"]["value"]) == (201, 1)
    retention = {"type": "LIMITED_DAYS", "value": None, "timeBasedRetention": {"days": None, "hours": 3}}
    shown = (await make(web, "third", retentionPolicy=retention)).json()["retentionPolicy"]
    assert shown["timeBasedRetention"] == {"days": 0, "hours": 3, "minutes": 0}

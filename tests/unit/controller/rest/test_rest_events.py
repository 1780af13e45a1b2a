"""Events and listings for programs that have HTTP and no client."""

import struct

import httpx
import pytest

from headrace.controller.rest.event_preview import preview
from headrace.controller.rest.event_reading import PREVIEW_BYTES
from headrace.controller.rest.routes import RestRoutes
from headrace.controller.rest.tail_frames import last_frames
from headrace.controller.workflows.scale_stream import request_scale
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import segment_name
from tests.unit.controller.calls import eventually

EVENTS = "/scopes/demo/streams/orders/events"


@pytest.fixture
async def controller(world):
    async with world.running() as running:
        yield running


@pytest.fixture
async def web(controller):
    transport = httpx.ASGITransport(app=RestRoutes(controller).application())
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost/v1") as client:
        await client.post("/scopes", json={"scopeName": "demo"})
        await make(client, "orders")
        yield client


async def make(web, name, segments=1, tags=()):
    scaling = {"type": "FIXED_NUM_SEGMENTS", "minSegments": segments}
    body = {"streamName": name, "scalingPolicy": scaling, "streamTags": list(tags)}
    assert (await web.post("/scopes/demo/streams", json=body)).status_code == 201


def frame(data):
    return struct.pack(">q", len(data)) + data


async def append(web, data, **members):
    return await web.post(EVENTS, json={"data": data, **members})


async def split(controller, sealed, pieces=2):
    stream = await controller.context.directory.get("demo", "orders")
    before = stream.row.epoch.epoch
    ranges = split_evenly(FULL_RANGE, pieces)
    await request_scale(controller.context, stream, sealed, ranges, controller.context.clock.now_ms())

    async def done():
        return (await stream.refresh()).epoch.epoch > before

    await eventually(done)


async def test_what_is_appended_is_read_in_its_order_a_page_at_a_time(web, world):
    for number in range(5):
        answer = await append(web, f"event {number}", key="k")
        assert (answer.status_code, answer.json()["segment"]) == (201, "0#0")
    data = bytes(world.segments.segments[segment_name("demo", "orders", 0)].data)
    assert data == b"".join(frame(f"event {n}".encode()) for n in range(5))
    found, query = [], {"limit": 2}
    for _ in range(3):
        page = (await web.get(EVENTS, params=query)).json()
        found += [each["data"] for each in page["events"]]
        query = {"limit": 2, "cut": page["nextCut"]}
    assert (found, page["endedBy"]) == ([f"event {n}" for n in range(5)], "tail")
    assert (await web.get(EVENTS, params={"cut": page["nextCut"]})).json()["events"] == []


async def test_reading_goes_on_through_splits_and_ends_with_a_sealed_stream(web, controller):
    await append(web, "before")
    await split(controller, [0])
    for number in range(6):
        await append(web, f"{number}", key=f"k{number}")
    found, cut = [], None
    for _ in range(20):
        page = (await web.get(EVENTS, params={"limit": 1, **({"cut": cut} if cut else {})})).json()
        found += [each["data"] for each in page["events"]]
        cut = page["nextCut"]
        if page["endedBy"] == "tail":
            break
    assert (found[0], sorted(found[1:])) == ("before", [f"{n}" for n in range(6)])
    await web.put("/scopes/demo/streams/orders/state", json={"streamState": "SEALED"})
    whole = (await web.get(EVENTS)).json()
    assert (len(whole["events"]), whole["endedBy"]) == (7, "end")
    answer = await append(web, "late")
    assert (answer.status_code, "sealed" in answer.json()["error"]) == (412, True)


async def test_a_merge_waits_for_all_that_it_follows(web, controller, world):
    await split(controller, [0])
    for number in range(40):
        await append(web, f"{number}", key=f"k{number}")
    stream = await controller.context.directory.get("demo", "orders")
    await split(controller, stream.row.epoch.segment_ids(), 1)
    await append(web, "last")
    found, query = [], {"limit": 3}
    for _ in range(30):
        page = (await web.get(EVENTS, params=query)).json()
        found += [each["data"] for each in page["events"]]
        query = {"limit": 3, "cut": page["nextCut"]}
        if page["endedBy"] == "tail":
            break
    assert (sorted(found), found[-1]) == (sorted([*(f"{n}" for n in range(40)), "last"]), "last")


async def test_the_last_events_are_found_from_the_end(web, world):
    name = segment_name("demo", "orders", 0)
    world.segments.write(name, frame(b"x" * 100_000))
    for number in range(50):
        world.segments.write(name, frame(b"%d" % number * 300))
    page = (await web.get(EVENTS, params={"from": "tail", "limit": 3})).json()
    assert [each["data"][:2] for each in page["events"]] == ["47", "48", "49"]
    assert (await web.get(EVENTS, params={"cut": page["nextCut"]})).json()["events"] == []


async def test_the_last_events_of_a_stream_that_has_just_split_are_those_before(web, controller):
    await append(web, "before")
    await split(controller, [0])
    await append(web, "after")
    page = (await web.get(EVENTS, params={"from": "tail"})).json()
    assert [each["data"] for each in page["events"]] == ["before", "after"]
    assert (await web.get(EVENTS, params={"cut": page["nextCut"]})).json()["events"] == []


async def test_of_a_large_event_the_beginning_is_shown(web, world):
    name = segment_name("demo", "orders", 0)
    world.segments.write(name, frame(b"x" * 3_000_000) + frame(b"next"))
    first, second = (await web.get(EVENTS)).json()["events"]
    assert (first["bytes"], len(first["data"]), first["isWhole"]) == (3_000_000, PREVIEW_BYTES, False)
    assert (second["data"], second["isWhole"]) == ("next", True)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"from": "middle"}, "from"),
        ({"cut": "x"}, "cut"),
        ({"at": "x"}, "at"),
        ({"decode": "x"}, "decode"),
    ],
)
async def test_a_question_that_is_none_is_refused(web, query, field):
    answer = await web.get(EVENTS, params=query)
    assert (answer.status_code, answer.json()["field"].split(".")[0]) == (400, field)


async def test_a_cut_inside_an_event_is_refused(web):
    from headrace.model.stream_cut import StreamCut

    await append(web, "hello, hello")
    cut = StreamCut.from_offsets("demo", "orders", {0: 9}).as_text()
    answer = await web.get(EVENTS, params={"cut": cut})
    assert (answer.status_code, answer.json()["field"]) == (400, "cut")


@pytest.mark.parametrize(
    "body", [{}, {"data": ""}, {"data": "zz", "encoding": "hex"}, {"data": "x", "encoding": "y"}, {"data": 1}]
)
async def test_an_event_that_is_none_is_refused(web, world, body):
    assert (await web.post(EVENTS, json=body)).status_code == 400
    assert world.segments.segments[segment_name("demo", "orders", 0)].length == 0


async def test_streams_of_all_scopes_are_listed_in_pages(web):
    await web.post("/scopes", json={"scopeName": "shop"})
    for name in ("audit", "clicks"):
        await make(web, name, 3, tags=["eu"])
    await append(web, "hello")
    found, token = [], ""
    for _ in range(10):
        page = (await web.get("/streams", params={"limit": 1, "token": token})).json()
        assert len(page["streams"]) <= 1
        found += page["streams"]
        token = page["token"]
        if not token:
            break
    known = {each["streamName"]: (each["segments"], each["bytes"], each["state"]) for each in found}
    assert known == {
        "orders": (1, len(frame(b"hello")), "ACTIVE"),
        "audit": (3, 0, "ACTIVE"),
        "clicks": (3, 0, "ACTIVE"),
    }
    listed = (await web.get("/streams", params={"search": "EU"})).json()["streams"]
    assert {each["streamName"] for each in listed} == {"audit", "clicks"}
    for query in ({"token": "demo:xyz"}, {"limit": "0"}):
        assert (await web.get("/streams", params=query)).status_code == 400


def test_events_inside_an_event_are_not_taken_for_its_neighbours():
    inner = frame(b"a") + frame(b"bc")
    data = frame(b"first") + frame(inner)
    whole = [(0, 13), (13, len(data))]
    assert last_frames(data, from_start=True) == whole
    assert last_frames(data, from_start=False) == whole
    assert last_frames(b"st" + frame(inner), from_start=False) == [(2, 2 + len(frame(inner)))]
    assert last_frames(b"no events at all", from_start=False) == []
    assert last_frames(bytes(100), from_start=False) == []


@pytest.mark.parametrize(
    ("data", "decode", "expected"),
    [
        (b"text", "auto", ("text", "text")),
        (b'{"a": 1}', "auto", ("json", {"a": 1})),
        (b'{"a": 1}', "text", ("text", '{"a": 1}')),
        (b"17", "auto", ("text", "17")),
        (b"17", "json", ("json", 17)),
        (b"NaN", "json", ("text", "NaN")),
        (b"\xff\x00", "auto", ("hex", "ff00")),
        (b"\x00a", "auto", ("hex", "0061")),
        (b"text", "hex", ("hex", "74657874")),
        (b"[" * 100_000, "json", ("text", "[" * 100_000)),
    ],
)
def test_bytes_are_shown_as_what_they_are(data, decode, expected):
    found = preview(data, decode)
    assert (found.encoding, found.data) == expected

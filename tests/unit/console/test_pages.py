import sys

import pytest

from headrace.model.names import segment_name
from tests.unit.console.conftest import append, browsing, open_console, token_of

PLACES = ["", "/", "/streams", "/streams/demo/orders", "/streams/demo/orders/events", "/groups", "/health"]


@pytest.mark.slow
async def test_every_page_is_whole_and_may_ask_nobody_else(world):
    async with open_console(world, orders=2) as controller, browsing(controller) as web:
        for place in PLACES:
            page = await web.get(f"/console{place}")
            assert page.status_code == 200, place
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert page.headers["cache-control"] == "no-store"
            assert page.text.rstrip().endswith("</html>")
            for inline in (" style=", "<style", " onclick", "<script>", "http://", "https://"):
                assert inline not in page.text, (place, inline)
            for name in ("console.css", "console.js", "icon.svg"):
                address = next(part for part in page.text.split('"') if part.endswith(name))
                file = await web.get(address)
                assert (file.status_code, file.headers["x-content-type-options"]) == (200, "nosniff")
                assert "immutable" in file.headers["cache-control"]


async def test_nothing_of_the_pages_is_loaded_before_the_first(world):
    loaded = [name for name in sys.modules if name.startswith(("headrace.console.application", "jinja2"))]
    for name in loaded:
        del sys.modules[name]
    async with world.running() as controller, browsing(controller) as web:
        await web.get("/v1/scopes")
        assert "headrace.console.application" not in sys.modules
        assert (await web.get("/console/")).status_code == 200
        assert "headrace.console.application" in sys.modules


async def test_what_is_not_there_is_said_on_a_page(world):
    async with open_console(world) as controller, browsing(controller) as web:
        for place in ("/nowhere", "/streams/demo/none", "/streams/demo/none/events", "/groups/demo/none"):
            page = await web.get(f"/console{place}")
            assert (page.status_code, "</html>" in page.text) == (404, True), place


async def test_streams_are_sorted_and_searched(world):
    async with open_console(world, orders=2, audit=3, clicks=1) as controller, browsing(controller) as web:
        await append(web, "clicks", "x" * 100)

        async def names(query):
            page = (await web.get(f"/console/streams{query}")).text
            return sorted(("orders", "audit", "clicks"), key=lambda name: page.find(f'/demo/{name}"'))

        assert await names("") == ["audit", "clicks", "orders"]
        assert await names("?sort=-segments") == ["audit", "orders", "clicks"]
        assert (await names("?sort=-bytes"))[0] == "clicks"
        found = (await web.get("/console/streams?search=ORD")).text
        assert ("/demo/orders" in found, "/demo/audit" in found) == (True, False)
        assert "1 stream" in found
        assert "/demo/audit" in (await web.get("/console/streams?search=eu")).text
        page = await web.get("/console/streams?search=<b>none</b>&sort=nothing&page=7")
        assert (page.status_code, "<b>none" in page.text) == (200, False)


async def test_a_stream_shows_its_segments_and_its_configuration(world):
    async with open_console(world, orders=2) as controller, browsing(controller) as web:
        await append(web, "orders", "hello")
        page = (await web.get("/console/streams/demo/orders")).text
        assert page.count('<rect class="segment') == 2
        assert page.count("<title>segment ") == 2
        assert "<code>0#0</code>" in page
        assert "2 segments, fixed" in page
        live = await web.get("/console/streams/demo/orders/now")
        assert live.text.count('<rect class="segment') == 2


async def test_events_are_shown_as_text_whatever_they_hold(world):
    async with open_console(world, orders=1) as controller, browsing(controller) as web:
        await append(web, "orders", '<script>alert("1")</script>')
        await append(web, "orders", '{"who": "<b>x</b>"}')
        for query in ("", "?from=tail", "?decode=text", "?decode=json"):
            page = (await web.get(f"/console/streams/demo/orders/events{query}")).text
            assert "<b>x</b>" not in page
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert" in page
            assert "&lt;b&gt;x" in page
        page = (await web.get("/console/streams/demo/orders/events?decode=hex")).text
        assert "3c736372" in page


async def test_a_question_that_is_none_leaves_the_form(world):
    async with open_console(world, orders=1) as controller, browsing(controller) as web:
        for query in ("cut=<b>", "at=x", "at=99999999999999", "limit=0", "decode=x", "from=x"):
            page = await web.get(f"/console/streams/demo/orders/events?{query}")
            assert (page.status_code, 'role="alert"' in page.text) == (400, True), query
            assert 'name="cut"' in page.text
            assert "<b>" not in page.text


@pytest.mark.parametrize("change", ["seal", "truncate", "delete", "split", "nothing"])
async def test_a_form_of_another_page_changes_nothing(world, change):
    async with open_console(world, orders=1) as controller, browsing(controller) as web:
        fields = {"change": change, "name": "demo/orders", "segment": "0#0", "pieces": "2"}
        for token in ("", "0" * 32):
            answer = await web.post("/console/streams/demo/orders/change", data=fields | {"token": token})
            assert answer.status_code == 403
        stream = await controller.context.directory.get("demo", "orders")
        assert (stream.row.state.name, stream.row.epoch.epoch) == ("ACTIVE", 0)


async def test_a_page_of_another_origin_changes_nothing(world):
    async with open_console(world, orders=1) as controller, browsing(controller) as web:
        page = await web.get("/console/streams/demo/orders")
        fields = {"token": token_of(page), "change": "seal", "name": "demo/orders"}
        for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
            answer = await web.post("/console/streams/demo/orders/change", data=fields, headers=headers)
            assert answer.status_code == 403
        answer = await web.post("/console/streams/demo/orders/change", json=fields)
        assert answer.status_code == 415
        answer = await web.post("/v1/scopes", data={"scopeName": "evil"})
        assert answer.status_code == 415


async def test_a_stream_is_split_truncated_sealed_and_deleted_by_forms(world):
    async with open_console(world, orders=1) as controller, browsing(controller) as web:
        await append(web, "orders", "hello")
        place = "/console/streams/demo/orders"

        async def change(what, **fields):
            given = {"token": token_of(await web.get(place)), "change": what, **fields}
            return await web.post(f"{place}/change", data=given)

        assert (await change("seal", name="orders")).status_code == 400
        answer = await change("split", segment="0#0", pieces="3")
        assert (answer.status_code, answer.headers["location"]) == (303, place)
        page = (await web.get(place)).text
        assert page.count('<rect class="segment') == 4 or page.count("<code>") == 3
        head = (await web.get("/v1/scopes/demo/streams/orders/events")).json()["nextCut"]
        assert (await change("truncate", name="demo/orders", cut=head)).status_code == 303
        assert (await change("delete", name="demo/orders")).status_code == 412
        assert (await change("seal", name="demo/orders")).status_code == 303
        assert "sealed" in (await web.get(place)).text
        answer = await change("delete", name="demo/orders")
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/streams")
        assert (await web.get(place)).status_code == 404


async def test_a_stream_of_many_segments_has_a_page_of_bounded_size(world):
    async with open_console(world, orders=500) as controller, browsing(controller) as web:
        world.segments.write(segment_name("demo", "orders", 3), b"x")
        page = await web.get("/console/streams/demo/orders")
        assert (page.status_code, len(page.content) < 300_000) == (200, True)
        assert "300 more are left out" in page.text


async def test_a_search_looks_beyond_streams_that_do_not_match(world, monkeypatch):
    monkeypatch.setattr("headrace.controller.rest.stream_listing.ROWS_MAX", 2)
    names = {f"a{number}": 1 for number in range(12)} | {"wanted": 1}
    async with open_console(world, **names) as controller, browsing(controller) as web:
        assert "/demo/wanted" in (await web.get("/console/streams?search=wanted")).text

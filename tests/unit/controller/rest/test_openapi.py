"""The OpenAPI document describes every route, and what it describes exists; the page shows all of it."""

import re
from html.parser import HTMLParser

import httpx
import pytest

from headrace.controller.rest import operations, rules
from headrace.controller.rest.openapi import need_of
from headrace.controller.rest.routes import RestRoutes


@pytest.fixture
async def web(world):
    async with world.running() as controller:
        transport = httpx.ASGITransport(app=RestRoutes(controller).application())
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            yield client


def references(value):
    """Yield every reference of a document."""
    if isinstance(value, dict):
        if "$ref" in value:
            yield value["$ref"]
        for each in value.values():
            yield from references(each)
    elif isinstance(value, list):
        for each in value:
            yield from references(each)


async def test_every_route_is_described(web):
    assert set(operations.OPERATIONS) == set(rules.RULES)
    document = (await web.get("/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    described = {
        (verb.upper(), path): operation
        for path, verbs in document["paths"].items()
        for verb, operation in verbs.items()
        if verb != "parameters"
    }
    assert set(described) == set(rules.RULES)
    names = [operation["operationId"] for operation in described.values()]
    assert len(set(names)) == len(names)
    schemas = document["components"]["schemas"]
    found = set(references(document))
    assert found == {f"#/components/schemas/{name}" for name in schemas}
    assert all(schema["description"] for schema in schemas.values())
    for path, verbs in document["paths"].items():
        assert [each["name"] for each in verbs.get("parameters", ())] == re.findall(r"{(\w+)}", path)
    for (verb, path), operation in described.items():
        assert ("401" in operation["responses"]) == bool(need_of(verb, path)), path
        for status in ("413", "415"):
            assert ("requestBody" in operation) == (status in operation["responses"]), path
        assert (path in {"/ping", "/live", "/ready"}) == ("421" not in operation["responses"]), path
        assert verb == "GET" or "403" in operation["responses"], path


def test_needs_are_told_in_words():
    assert need_of("GET", "/ping") == ""
    stream = "/v1/scopes/{scope}/streams/{stream}"
    assert need_of("PUT", stream) == "READ_UPDATE on prn::/scope:{scope}/stream:{stream}"


async def test_names_are_those_that_clients_know(web):
    schemas = (await web.get("/openapi.json")).json()["components"]["schemas"]
    create = schemas["CreateStreamRequest"]
    assert set(create["required"]) == {"scalingPolicy", "streamName"}
    assert set(create["properties"]) == {
        "streamName",
        "scalingPolicy",
        "retentionPolicy",
        "streamTags",
        "timestampAggregationTimeout",
        "rolloverSizeBytes",
    }
    assert schemas["ScalingConfig"]["properties"]["type"]["enum"][0] == "FIXED_NUM_SEGMENTS"
    assert set(schemas["Refusal"]["properties"]) == {"error", "field"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.links, self.targets, self.fetched = set(), set(), []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.targets.add(given.get("id"))
        if tag == "a":
            self.links.add(given["href"])
        elif "src" in given or "href" in given:
            self.fetched.append(given)


async def test_the_page_shows_every_operation_and_fetches_nothing_but_its_style(web):
    answer = await web.get("/docs")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    page = Page(answer.text)
    assert page.fetched == [{"rel": "stylesheet", "href": "/docs.css"}]
    style = await web.get("/docs.css")
    assert style.headers["content-type"] == "text/css; charset=utf-8"
    assert "color-scheme" in style.text
    assert {link[1:] for link in page.links if link.startswith("#")} <= page.targets
    assert page.links - {link for link in page.links if link.startswith("#")} == {"/openapi.json"}
    for verb, path in rules.RULES:
        assert f'<b class="verb">{verb}</b> <code>{path}</code>' in answer.text

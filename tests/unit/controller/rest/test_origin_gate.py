"""What a browser is made to ask, at the port itself: pages of other origins change and read nothing."""

import asyncio
from contextlib import asynccontextmanager
from html.parser import HTMLParser

import httpx
import pytest

from headrace.controller.rest.routes import RestRoutes
from headrace.controller.rest.rules import RULES
from headrace.web.server import WebServer

JSON = {"content-type": "application/json"}
SCOPE = b'{"scopeName": "made"}'


@asynccontextmanager
async def listening(world, hosts):
    async with world.running() as controller:
        server = WebServer(RestRoutes(controller, hosts=hosts).application, "127.0.0.1", 0)
        port = await server.start()
        server.serve()
        try:
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as web:
                yield web
        finally:
            await server.stop()


@pytest.fixture
async def web(world):
    async with listening(world, ["stream-1.example.org"]) as web:
        yield web


async def scopes(web):
    found = [scope["scopeName"] for scope in (await web.get("/v1/scopes")).json()["scopes"]]
    return [name for name in found if name != "_system"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "origin": "http://a.example"}, 403),
        ({"sec-fetch-site": "same-site", "origin": "http://localhost:3000"}, 403),
        ({"origin": "http://a.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "attacker.example", "sec-fetch-site": "same-origin"}, 421),
        ({"content-type": "text/plain;charset=UTF-8"}, 415),
        ({"content-type": "application/x-www-form-urlencoded"}, 415),
    ],
)
async def test_a_foreign_request_changes_nothing_and_is_told_what_to_do(web, headers, status):
    answer = await web.post("/v1/scopes", content=SCOPE, headers=JSON | headers)
    assert answer.status_code == status
    assert len(answer.json()["error"]) > 60
    assert answer.json().keys() == {"error"}
    assert await scopes(web) == []


@pytest.mark.slow
async def test_every_verb_that_changes_is_refused_to_pages_of_other_origins(web):
    await web.post("/v1/scopes", json={"scopeName": "s"})
    foreign = {"sec-fetch-site": "cross-site"}
    for verb, path in RULES:
        if verb != "GET":
            answer = await web.request(verb, path.format(scope="s", stream="t", group="g"), headers=foreign)
            assert answer.status_code == 403, (verb, path)
    assert (await web.patch("/v1/scopes", headers=foreign)).status_code == 403
    assert await scopes(web) == ["s"]


async def test_programs_people_and_pages_of_ours_go_on(web):
    own = str(web.base_url).rstrip("/")
    for number, headers in enumerate(
        (
            {},
            {"sec-fetch-site": "none"},
            {"sec-fetch-site": "same-origin", "origin": own},
            {"origin": own},
            {"host": "stream-1.example.org:443"},
            {"content-type": "application/json; charset=utf-8"},
        )
    ):
        body = b'{"scopeName": "made-%d"}' % number
        assert (await web.post("/v1/scopes", content=body, headers=JSON | headers)).status_code == 201, (
            headers
        )
        answer = await web.delete(f"/v1/scopes/made-{number}", headers=headers)
        assert answer.status_code == 204, headers


@pytest.mark.slow
async def test_no_name_of_somebody_else_is_answered(web):
    foreign = {"host": "attacker.example"}
    for verb, path in RULES:
        named = path.format(scope="s", stream="t", group="g", part="transactions")
        expected = 200 if path in {"/ping", "/live", "/ready"} else 421
        assert (await web.request(verb, named, headers=foreign)).status_code == expected, (verb, path)
    assert (await web.head("/v1/scopes", headers=foreign)).status_code == 421
    answer = await web.get("/metrics", headers=foreign)
    assert "'attacker.example'" in answer.json()["error"]
    assert "rest_hosts" in answer.json()["error"]


async def test_a_request_without_the_header_is_answered(web):
    reader, writer = await asyncio.open_connection("127.0.0.1", web.base_url.port)
    writer.write(b"GET /v1/scopes HTTP/1.0\r\n\r\n")
    assert (await reader.readline()).split()[1] == b"200"
    writer.close()


async def test_a_preflight_is_granted_nothing(web):
    asked = {
        "origin": "http://a.example",
        "sec-fetch-site": "cross-site",
        "access-control-request-method": "PUT",
        "access-control-request-headers": "content-type",
    }
    for path in ("/v1/scopes", "/v1/scopes/s", "/docs", "/nothing"):
        answers = [await web.options(path, headers=asked), await web.get(path, headers=asked)]
        assert answers[0].status_code in {404, 405}
        for answer in answers:
            assert [name for name in answer.headers if name.startswith("access-control")] == []


async def test_a_web_socket_is_an_ordinary_question(web):
    headers = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    assert (await web.get("/v1/scopes", headers=headers)).status_code == 200
    assert (await web.get("/v1/scopes", headers=headers | {"host": "a.example"})).status_code == 421


class Inline(HTMLParser):
    """Finds what the content policy forbids."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag in {"style", "script"}:
            self.found.append(tag)
        self.found += [name for name, _ in attrs if name == "style" or name.startswith("on")]


async def test_pages_run_no_code_and_stand_in_no_frame(web):
    for verb in ("GET", "HEAD"):
        page = await web.request(verb, "/docs")
        policy = dict(part.split(" ", 1) for part in page.headers["content-security-policy"].split("; "))
        assert policy == {
            "default-src": "'none'",
            "style-src": "'self'",
            "base-uri": "'none'",
            "form-action": "'none'",
            "frame-ancestors": "'none'",
        }
        assert page.headers["referrer-policy"] == "no-referrer"
        assert page.headers["x-content-type-options"] == "nosniff"
    assert Inline((await web.get("/docs")).text).found == []
    assert (await web.get("/docs.css")).headers["content-type"].startswith("text/css")


async def test_nobody_guesses_what_an_answer_is(web):
    for path, headers in (("/v1/scopes", {}), ("/nothing", {}), ("/v1/scopes", {"host": "a.example"})):
        answer = await web.get(path, headers=headers)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" not in answer.headers

"""Every route, for callers that have what it needs and for others."""

import httpx
import pytest

from headrace.controller.rest import rules
from headrace.controller.rest.routes import RestRoutes
from headrace.security.permission import Permission
from headrace.security.resources import ROOT
from headrace.web.server import WebServer
from tests.unit.controller.api.test_access import inhabited
from tests.unit.controller.api.test_extreme_requests import idle, watch_effects
from tests.unit.controller.conftest import World, serve
from tests.unit.controller.known_users import EVERYTHING, NOT_AUTHENTICATED, KnownUsers, basic, users_for

READ, UPDATE = Permission.READ, Permission.READ_UPDATE
NAMES = {"scope": "s", "stream": "t", "group": "g", "part": "transactions"}
FIXED = {"type": "FIXED_NUM_SEGMENTS", "minSegments": 1}
BODIES = {
    ("POST", "/v1/scopes"): {"scopeName": "new"},
    ("POST", "/v1/scopes/{scope}/streams"): {"streamName": "new", "scalingPolicy": FIXED},
    ("PUT", "/v1/scopes/{scope}/streams/{stream}"): {"scalingPolicy": FIXED},
    ("PUT", "/v1/scopes/{scope}/streams/{stream}/state"): {"streamState": "SEALED"},
    ("PUT", "/v1/scopes/{scope}/streams/{stream}/truncation"): {"cut": {"0": 0, "1": 0}},
    ("POST", "/v1/scopes/{scope}/streams/{stream}/events"): {"data": "hello"},
    ("PUT", "/v1/storage/optimiser"): {"paused": True},
}
OPTIONS = {"from": 0, "to": 1, "at": 1_700_000_000_000}
SCOPE, STREAM, GROUP = "prn::/scope:s", "prn::/scope:s/stream:t", "prn::/scope:s/reader-group:g"

TABLE_OF_THE_PROTOCOL = {
    (None, None): """GET /ping     GET /health     GET /ready     GET /live
        GET /docs     GET /docs.css     GET /openapi.json
        GET /v1/health                GET /v1/health/{part}
        GET /v1/health/readiness      GET /v1/health/readiness/{part}
        GET /v1/health/liveness       GET /v1/health/liveness/{part}
        GET /v1/health/status         GET /v1/health/status/{part}""",
    (ROOT, READ): "GET /v1/scopes GET /v1/streams GET /metrics",
    (ROOT, UPDATE): """POST /v1/scopes                DELETE /v1/scopes/{scope}
        GET /v1/health/details        GET /v1/health/details/{part}
        GET /v1/cluster/health
        GET /v1/storage/optimiser     PUT /v1/storage/optimiser
        GET /v1/debug/statistics      GET /v1/debug/failed-events""",
    (SCOPE, READ): """GET /v1/scopes/{scope}      GET /v1/scopes/{scope}/streams
        GET /v1/scopes/{scope}/readergroups""",
    (SCOPE, UPDATE): "POST /v1/scopes/{scope}/streams",
    (STREAM, READ): """GET /v1/scopes/{scope}/streams/{stream}
        GET /v1/scopes/{scope}/streams/{stream}/scaling-events
        GET /v1/scopes/{scope}/streams/{stream}/events
        GET /v1/scopes/{scope}/streams/{stream}/cut""",
    (STREAM, UPDATE): """PUT /v1/scopes/{scope}/streams/{stream}
        DELETE /v1/scopes/{scope}/streams/{stream}
        PUT /v1/scopes/{scope}/streams/{stream}/state
        PUT /v1/scopes/{scope}/streams/{stream}/truncation
        POST /v1/scopes/{scope}/streams/{stream}/events
        POST /v1/scopes/{scope}/streams/{stream}/purge""",
    (GROUP, READ): "GET /v1/scopes/{scope}/readergroups/{group}",
    (GROUP, UPDATE): "DELETE /v1/scopes/{scope}/readergroups/{group}",
}
OPEN = set(zip(*[iter(TABLE_OF_THE_PROTOCOL[None, None].split())] * 2, strict=True))


def operations_of(controller):
    """Return (verb, path) of every route of the application."""
    return {
        (verb, route.path) for route in RestRoutes(controller).routes() for verb in route.methods - {"HEAD"}
    }


def client_of(controller, users):
    transport = httpx.ASGITransport(app=RestRoutes(controller, None, users).application())
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


async def send(web, verb, path, *headers):
    return await web.request(
        verb,
        path.format(**NAMES),
        headers=[(b"authorization", value.encode()) for value in headers],
        json=BODIES.get((verb, path.rstrip("/"))),
        params=OPTIONS,
    )


async def ask(controller, users, verb, path, *headers):
    async with client_of(controller, users) as web:
        return await send(web, verb, path, *headers)


async def test_every_route_has_its_rule(world):
    async with world.running() as controller:
        routes = {(verb, path.rstrip("/")) for verb, path in operations_of(controller)}
    assert routes == set(rules.RULES)


def test_operations_need_what_the_protocol_says():
    seen = set()
    for (resource, permission), operations in TABLE_OF_THE_PROTOCOL.items():
        for verb, path in zip(*[iter(operations.split())] * 2, strict=True):
            need = rules.RULES[verb, path](NAMES)
            wanted = ((resource,), permission) if resource else ((), Permission.NONE)
            assert (need.resources, need.permission) == wanted, (verb, path)
            seen.add((verb, path))
    assert seen == set(rules.RULES)


@pytest.mark.slow
async def test_a_caller_that_lacks_something_is_refused_and_nothing_changes():
    async with inhabited() as (service, _):
        effects = watch_effects(service)
        faults = []
        for verb, path in operations_of(service.controller):
            operation = verb, path.rstrip("/")
            if operation in OPEN:
                continue
            users = users_for(rules.RULES[operation](NAMES))
            cases = {what: (values, 401) for what, values in NOT_AUTHENTICATED.items()}
            cases |= {who: ((basic(who),), 403) for who in ("less", "elsewhere")}
            async with client_of(service.controller, users) as web:
                for asked in ["GET", "HEAD"] if verb == "GET" else [verb]:
                    for what, (values, status) in cases.items():
                        answer = await send(web, asked, path, *values)
                        challenge = answer.headers.get("www-authenticate")
                        wanted = 'Basic realm="headrace"' if status == 401 else None
                        if (answer.status_code, challenge) != (status, wanted):
                            faults.append(f"{asked} {path}, {what}: {answer.status_code} {challenge}")
                        if asked != "HEAD" and not answer.json()["error"]:
                            faults.append(f"{asked} {path}, {what}: no reason")
        await idle(service)
        assert (faults, effects) == ([], [])


@pytest.mark.slow
@pytest.mark.parametrize("tail", ["", "/"])
async def test_a_caller_with_exactly_what_an_operation_needs_may_ask_for_it(tail):
    async with inhabited() as (service, _):
        for verb, path in sorted(rules.RULES, key=lambda operation: operation[0] == "DELETE"):
            users = users_for(rules.RULES[verb, path](NAMES)) if (verb, path) not in OPEN else KnownUsers()
            headers = () if (verb, path) in OPEN else (basic("enough"),)
            for asked in ("HEAD", "GET") if verb == "GET" else (verb,):
                answer = await ask(service.controller, users, asked, path + tail, *headers)
                assert answer.status_code < 400 or answer.status_code in {404, 409, 412}, (verb, path)


@pytest.mark.slow
async def test_a_route_without_a_rule_is_denied_to_everybody(monkeypatch):
    monkeypatch.setattr("headrace.controller.rest.routes.RULES", {})
    async with inhabited() as (service, _):
        users = KnownUsers(admin={EVERYTHING: UPDATE})
        for verb, path in operations_of(service.controller):
            answer = await ask(service.controller, users, verb, path, basic("admin"))
            assert (answer.status_code, "no rule" in answer.json()["error"]) == (403, True)


async def test_a_refusal_does_not_tell_what_exists(world):
    async with serve(world) as service:
        users = KnownUsers(ann={})
        for what, path in {"there": "/v1/scopes/{scope}", "not": "/v1/scopes/nowhere"}.items():
            answer = await ask(service.controller, users, "GET", path, basic("ann"))
            assert answer.status_code == 403, what


async def test_listings_show_what_may_be_read():
    async with inhabited() as (service, _):
        for name in ("u", "v"):
            await service.create_stream(name, tags=["x"])
        grants = dict.fromkeys([ROOT, SCOPE, "prn::/scope:s/stream:u", GROUP], READ)
        async with client_of(service.controller, KnownUsers(ann=grants)) as web:
            web.headers["authorization"] = basic("ann")
            scopes = (await web.get("/v1/scopes")).json()["scopes"]
            assert scopes == [{"scopeName": "s"}]
            for query in ("", "?filter_type=tag&filter_value=x"):
                streams = (await web.get(f"/v1/scopes/s/streams{query}")).json()["streams"]
                assert [each["streamName"] for each in streams] == ["u"]
            internal = (await web.get("/v1/scopes/s/streams?filter_type=showInternalStreams")).json()
            assert {each["streamName"] for each in internal["streams"]} == {"_RGg", "_MARKu"}
            groups = (await web.get("/v1/scopes/s/readergroups")).json()
            assert groups == {"readerGroups": [{"readerGroupName": "g"}]}
        del grants[GROUP]
        async with client_of(service.controller, KnownUsers(ann=grants)) as web:
            groups = await web.get("/v1/scopes/s/readergroups", headers={"authorization": basic("ann")})
            assert groups.json() == {"readerGroups": []}


async def test_credentials_come_before_the_start_is_over():
    controller = World().controller()
    users = KnownUsers(ann={SCOPE: READ})
    assert (await ask(controller, users, "GET", "/v1/scopes/{scope}")).status_code == 401
    assert (await ask(controller, users, "GET", "/v1/scopes/{scope}", basic("ann"))).status_code == 503
    assert (await ask(controller, users, "GET", "/v1/health/readiness")).json() is False


@pytest.mark.parametrize("path", ["/v1/health", "/v1/health/transactions"])
async def test_details_of_health_are_not_for_everybody(world, path):
    async with world.running() as controller:
        users = KnownUsers(ann={ROOT: UPDATE})
        shown = (await ask(controller, users, "GET", path)).json()
        assert shown["status"] == "UP"
        parts = [shown, *shown["children"].values()]
        assert [part["details"] for part in parts] == [{}] * len(parts)
        details = await ask(controller, users, "GET", "/v1/health/details/transactions", basic("ann"))
        assert details.json() != {}
        shown = (await ask(controller, None, "GET", "/v1/health/transactions")).json()
        assert shown["details"] == details.json()


async def test_over_the_network_credentials_are_asked_for(world):
    async with world.running() as controller:
        server = WebServer(
            RestRoutes(controller, None, KnownUsers(ann={ROOT: READ})).application, "127.0.0.1", 0
        )
        port = await server.start()
        server.serve()
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as web:
            assert (await web.get("/ping")).status_code == 200
            refused = await web.get("/v1/scopes")
            assert (refused.status_code, refused.headers["www-authenticate"]) == (
                401,
                'Basic realm="headrace"',
            )
            assert (await web.get("/v1/scopes", auth=("ann", "secret"))).json() == {"scopes": []}
            assert (await web.post("/v1/scopes", auth=("ann", "secret"))).status_code == 403
        await server.stop()

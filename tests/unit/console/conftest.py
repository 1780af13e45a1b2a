"""The console over a controller with fakes, as an application: no port, no browser."""

import re
from contextlib import asynccontextmanager

import httpx
import pytest

from headrace.console.entrance import ConsoleEntrance
from headrace.controller.rest.routes import RestRoutes
from tests.unit.controller.conftest import World

FIXED = {"type": "FIXED_NUM_SEGMENTS", "minSegments": 1}


@asynccontextmanager
async def browsing(controller, users=None, *, encrypted=False, stores=None):
    """Yield a client with cookies, that follows no redirections."""
    console = ConsoleEntrance(controller, stores, users, encrypted=encrypted)
    application = RestRoutes(controller, stores, users).application(console.routes())
    scheme = "https" if encrypted else "http"
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://localhost:10080") as client:
        yield client


@asynccontextmanager
async def open_console(world, **streams):
    """Yield a controller with streams of scope demo: their numbers of segments by name."""
    async with world.running() as controller:
        async with browsing(controller) as web:
            await web.post("/v1/scopes", json={"scopeName": "demo"})
            for name, segments in streams.items():
                scaling = FIXED | {"minSegments": segments}
                body = {"streamName": name, "scalingPolicy": scaling, "streamTags": ["eu"]}
                assert (await web.post("/v1/scopes/demo/streams", json=body)).status_code == 201
        yield controller


@pytest.fixture
def world():
    return World()


async def append(web, stream, data, key="k"):
    answer = await web.post(f"/v1/scopes/demo/streams/{stream}/events", json={"data": data, "key": key})
    assert answer.status_code == 201, answer.text
    return answer.json()


def token_of(page):
    return re.search(r'name="token" value="([0-9a-f]+)"', page.text)[1]


async def sign_in(web, user, password="secret", to=""):
    page = await web.get("/console/sign-in")
    fields = {"token": token_of(page), "user": user, "password": password}
    return await web.post("/console/sign-in", params={"to": to} if to else None, data=fields)

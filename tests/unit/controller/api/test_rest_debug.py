"""Statistics of the process, whoever counts them."""

from dataclasses import dataclass

import httpx
import pytest

from headrace.controller.api.rest_routes import RestRoutes


@dataclass(slots=True)
class Counted:
    reads: int


@pytest.fixture
async def controller(world):
    async with world.running() as running:
        yield running


def client_of(controller, statistics=None):
    transport = httpx.ASGITransport(app=RestRoutes(controller, statistics).application())
    return httpx.AsyncClient(transport=transport, base_url="http://test/v1/debug")


async def test_every_field_of_a_statistics_class_is_shown_by_itself(controller):
    def statistics():
        return {"cache": Counted(3), "containers": {0: {"log": Counted(1)}, 1: {"log": Counted(2)}}}

    async with client_of(controller, statistics) as web:
        found = (await web.get("/statistics")).json()
        assert found["cache"] == {"reads": 3}
        assert found["containers"] == {"0": {"log": {"reads": 1}}, "1": {"log": {"reads": 2}}}
        assert {"workflows", "transactions", "streams"} <= set(found["controller"])
        assert (await web.get("/statistics/")).status_code == 200
        one = (await web.get("/statistics?container=1")).json()
        assert one["containers"] == {"1": {"log": {"reads": 2}}}
        assert (await web.get("/statistics?container=2")).status_code == 404


async def test_a_controller_without_a_segment_store_tells_about_itself(controller):
    async with client_of(controller) as web:
        assert set((await web.get("/statistics")).json()) == {"controller"}
        assert (await web.get("/statistics?container=0")).status_code == 404

"""The storage optimisers in the REST interface: shown, paused and resumed."""

import httpx
import pytest

from headrace.controller.rest.routes import RestRoutes
from headrace.processes.optimiser_status import optimiser_status
from headrace.storage.chunks.optimiser import OptimiserStatistics
from headrace.storage.chunks.rewriter import RewriteStatistics


class Optimisers:
    paused = False

    async def optimisers(self):
        rewrites = RewriteStatistics(2, 16, 2, 16_000, 0, 0)
        state = "paused" if self.paused else "resting"
        found = {1: OptimiserStatistics(state, 7, 0, 9, 0, 3, rewrites)}
        return optimiser_status("auto", paused=self.paused, found=found)

    async def pause_optimisers(self, *, paused):
        self.paused = paused


@pytest.fixture
async def controller(world):
    async with world.running() as running:
        yield running


def client_of(controller, inside=None):
    transport = httpx.ASGITransport(app=RestRoutes(controller, inside).application())
    return httpx.AsyncClient(transport=transport, base_url="http://localhost/v1")


async def test_the_optimisers_are_shown_paused_and_resumed(controller):
    async with client_of(controller, Optimisers()) as web:
        found = (await web.get("/storage/optimiser")).json()
        assert (found["mode"], found["paused"]) == ("auto", False)
        assert found["containers"] == [
            {
                "container": 1,
                "state": "resting",
                "rounds": 7,
                "roundsFailed": 0,
                "candidatesLeft": 3,
                "rewrites": 2,
                "chunksReplaced": 16,
                "chunksMade": 2,
                "bytesRewritten": 16_000,
                "bytesGivenBack": 0,
            }
        ]
        for paused in (True, True, False):
            answer = await web.put("/storage/optimiser", json={"paused": paused})
            assert (answer.status_code, answer.json()["paused"]) == (200, paused)


@pytest.mark.parametrize("body", [{}, {"paused": 1}, {"paused": "yes"}])
async def test_a_request_that_is_neither_changes_nothing(controller, body):
    inside = Optimisers()
    inside.paused = True
    async with client_of(controller, inside) as web:
        answer = await web.put("/storage/optimiser", json=body)
        assert (answer.status_code, answer.json()["field"]) == (400, "paused")
    assert inside.paused


async def test_a_controller_without_a_segment_store_has_none(controller):
    async with client_of(controller) as web:
        assert (await web.get("/storage/optimiser")).status_code == 404
        assert (await web.put("/storage/optimiser", json={"paused": True})).status_code == 404

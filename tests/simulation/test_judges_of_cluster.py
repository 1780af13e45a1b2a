"""The judges of a cluster can convict: each bug here is a plausible one, and a few seeds find it."""

import asyncio
import contextlib
import logging

import pytest

from headrace.cluster import container_steps, placement_service
from headrace.cluster.container_steps import ContainerSteps
from headrace.cluster.lease_gate import LeaseGate
from headrace.cluster.map_node import ContainerMap
from headrace.cluster.node_reads import read_map
from headrace.cluster.observed import Phase
from headrace.cluster.placement_service import PlacementService
from headrace.cluster.planner import plan
from headrace.cluster.reconciler import Step, next_step
from headrace.cluster.watched_placement import WatchedPlacement
from headrace.errors import HeadraceError
from tests.effort import seeds
from tests.simulation.run_seeds import run_one


@pytest.fixture(autouse=True)
def _errors_only():
    logging.getLogger("headrace").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("headrace").setLevel(logging.NOTSET)


def skip_the_lease(monkeypatch):
    """A container answers as long as its store has heard nothing else."""
    monkeypatch.setattr(LeaseGate, "serves", lambda gate, container_id: container_id in gate._admitted)


def answer_before_the_claim(monkeypatch):
    """A container answers once it has recovered."""
    honest = ContainerSteps._begin_step

    def begin_step(steps, container_id, step):
        honest(steps, container_id, step)
        if step is Step.CLAIM:
            steps._gate.admit(container_id)

    monkeypatch.setattr(ContainerSteps, "_begin_step", begin_step)


def wait_for_no_claim(monkeypatch):
    """The claim of a store that lives is not awaited: it is fenced in the middle of its work."""

    def hasty(me, wanted, claim, local, now_s):
        step = next_step(me, wanted, claim, local, now_s)
        begins = local.phase in {Phase.NONE, Phase.FENCED, Phase.FAILED}
        return Step.GIVE if begins and step is Step.WAIT_FOR_CLAIM else step

    monkeypatch.setattr(container_steps, "next_step", hasty)


def keep_the_claim_after_a_take(monkeypatch):
    def forgetful(me, wanted, claim, local, now_s):
        step = next_step(me, wanted, claim, local, now_s)
        return Step.NOTHING if step is Step.DROP and not wanted else step

    monkeypatch.setattr(container_steps, "next_step", forgetful)


def take_fenced_for_mine(monkeypatch):
    """A store that was fenced keeps the claim: it believes that it has the container still."""

    def stubborn(me, wanted, claim, local, now_s):
        step = next_step(me, wanted, claim, local, now_s)
        return Step.NOTHING if local.phase is Phase.FENCED and step is Step.DROP else step

    monkeypatch.setattr(container_steps, "next_step", stubborn)


def apply_maps_in_any_order(monkeypatch):
    """Each notice is handled by a task of its own, and the last one that ends is believed."""
    tasks = set()

    async def handle(placement, session):
        with contextlib.suppress(HeadraceError):
            found = await read_map(session)
            await asyncio.sleep(3 * placement._entropy.random())
            if found is not None:
                placement.map = found[0]
                placement._changed()

    async def read(placement, session):
        placement._begun += 1
        placement._map_read = placement._begun
        task = asyncio.get_running_loop().create_task(handle(placement, session))
        tasks.add(task)

    monkeypatch.setattr(WatchedPlacement, "_read_map", read)


def forget_the_map_at_a_change_of_leaders(monkeypatch):
    """A new leader places all containers as if there were no map yet."""
    honest, leaders = PlacementService._place, set()

    def forgetful(present, stores, claims, now_ms, weights):
        new = plan(ContainerMap.empty(len(present.placements)), stores, claims, now_ms, weights)
        return ContainerMap(present.generation + 1, new.placements)

    async def place(service, session):
        is_new = session not in leaders
        leaders.add(session)
        monkeypatch.setattr(placement_service, "plan", forgetful if is_new else plan)
        await honest(service, session)

    monkeypatch.setattr(PlacementService, "_place", place)


#: Each with the number of seeds that find it, and the last seed that did: it goes first.
BUGS = [
    (skip_the_lease, 60, 40),
    (answer_before_the_claim, 60, 8),
    (wait_for_no_claim, 12, 0),
    (keep_the_claim_after_a_take, 12, 0),
    (take_fenced_for_mine, 20, 9),
    (apply_maps_in_any_order, 12, 3),
    (forget_the_map_at_a_change_of_leaders, 12, 1),
]


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "count", "first"), BUGS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_bug_is_found(plant, count, first, monkeypatch):
    plant(monkeypatch)
    for seed in (first, *seeds(count)):
        try:
            run_one("cluster", seed)
        except AssertionError:
            return
    pytest.fail(f"{count} seeds have not found it")

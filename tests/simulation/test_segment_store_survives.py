"""Whatever happens to the store, its answers are those of a correct segment."""

import asyncio
import gc
import logging
import os
import subprocess
import sys
import weakref
from collections import Counter
from typing import get_args

import pytest

from headrace.testing.disk import DiskConfig
from headrace.testing.disk_files import SimulatedFile, Survival
from headrace.testing.failures import TimeLimitError
from headrace.testing.faults.host_faults import HostFault
from headrace.testing.history import Outcome
from headrace.testing.linearizability import NotLinearizableError
from headrace.testing.segment_calls import AppendCall
from headrace.testing.simulation import simulate
from tests.effort import sampled, seeds, without_long
from tests.simulation.found_seeds import CROWDS, DATA_PLANE, LONG_CROWDS, LONG_DATA_PLANE
from tests.simulation.models.container_calls import ContainerCall, EnsureSealedCall, NextOwnerCall
from tests.simulation.models.table_model import TableCall
from tests.simulation.run_seeds import draw_time, main, run_one
from tests.simulation.scenarios.catalogue import SCENARIOS
from tests.simulation.scenarios.writers import storm


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*without_long(DATA_PLANE, LONG_DATA_PLANE), *seeds(5, 222)])
def test_clients_with_every_verb_are_told_what_a_correct_store_would_tell_them(seed):
    history = run_one("data_plane", seed).value
    assert history.judged > 50


@pytest.mark.parametrize("seed", [*without_long(CROWDS, LONG_CROWDS), *seeds(5, 222)])
def test_clients_that_ask_for_everything_at_once_are_told_the_same(seed):
    history = run_one("crowds", seed).value
    assert history.judged > 50


@pytest.mark.slow
def test_every_verb_happens_in_a_handful_of_seeds():
    happened = sum(
        (run_one("data_plane", seed).value.happened for seed in without_long((238, 244), (244,))), Counter()
    )
    verbs = {call.__name__ for call in (*get_args(ContainerCall), *get_args(TableCall))}
    assert verbs - set(happened) == {EnsureSealedCall.__name__, NextOwnerCall.__name__}  # no client's calls


@pytest.mark.parametrize("seed", seeds(4))
def test_clients_are_told_what_a_correct_segment_would_tell_them(seed):
    history, injected = run_one("writers", seed).value
    appended = [o for o in history.operations if isinstance(o.call, AppendCall) and o.outcome is Outcome.OK]
    assert len(appended) == 2 * 3 * 25
    assert sum(injected.values()) > 3


@pytest.fixture
def _unlogged():
    """What is logged holds errors, and these hold the loop."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(4, 2))
@pytest.mark.usefixtures("_unlogged")
def test_nothing_of_a_run_stays_behind(seed):
    """A store that died while it started begins to stop its containers when its tasks are buried."""
    worlds = []

    async def scenario(sim):
        worlds.append(weakref.ref(sim.loop))
        await storm(sim)

    simulate(seed, scenario, network=SCENARIOS["writers"].network, loop_time=draw_time(seed))
    gc.collect()
    assert worlds[0]() is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", sampled((9, 0, 1)))
def test_a_log_that_does_not_sync_is_convicted(seed, monkeypatch):
    """The test above can fail: one second after the start, this disk begins only to say that it wrote.

    Then clients see that something is missing, or the store sees it first and refuses to serve.
    """
    honest = SimulatedFile.write_durably

    def lie(file, offset, data):
        lies = asyncio.get_running_loop().elapsed_s() > 1
        (file.write if lies else honest.__get__(file))(offset, data)

    async def power_losses(sim):
        return await storm(sim, kinds=(HostFault.POWER_LOSS,))

    forgetful = DiskConfig(survival=Survival.NONE)
    simulate(seed, power_losses, limit_s=60, disk=forgetful)
    monkeypatch.setattr(SimulatedFile, "write_durably", lie)
    convicted = False
    try:
        simulate(seed, power_losses, limit_s=60, disk=forgetful)
    except* (NotLinearizableError, TimeLimitError):
        convicted = True
    assert convicted


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "seed"), sampled([("data_plane", 245), ("data_plane", 223), ("writers", 3)])
)
def test_the_same_seed_is_the_same_run_whatever_the_hash_seed_and_wherever_objects_lie(scenario, seed):
    command = [
        sys.executable,
        "-m",
        "tests.simulation.run_seeds",
        "--scenario",
        scenario,
        "--first",
        str(seed),
        "--trace",
    ]
    traces = [
        subprocess.run(
            command,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONMALLOC": allocator},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout.splitlines()
        for hash_seed, allocator in (("1", "pymalloc"), ("4242", "malloc"))
    ]
    for number, (one, other) in enumerate(zip(*traces, strict=False)):
        assert one == other, f"line {number} differs"
    assert len(traces[0]) == len(traces[1]) > 5_000


@pytest.mark.cluster
def test_many_seeds_are_counted_and_failures_decide_the_exit_code(capsys):
    assert main(["--seeds", "2", "--scenario", "two_owners", "--processes", "1"]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 runs" in said
    assert "seeds/minute" in said

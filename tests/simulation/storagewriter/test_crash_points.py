"""The process dies, or a call fails, at every single step of a scenario; storage ends up exact every time."""

import contextlib

import pytest

from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.testing.failures import ProcessGoneError
from headrace.testing.storage_faults import Fault, ModifyingCall
from tests.effort import stride
from tests.simulation.worlds.writer_world import QUICK, WriterWorld

DEATHS = [Fault.DIE_BEFORE, Fault.DIE_TORN, Fault.DIE_AFTER]
FAILURES = [Fault.FAIL, Fault.FULL, Fault.LOSE_REPLY, Fault.TEAR]


class NthCall:
    """Hits the n-th modifying call (from 0) with a fault; after a death nothing happens any more."""

    def __init__(self, n: int, fault: Fault) -> None:
        self.n = n
        self.fault = fault
        self.count = 0
        self.hit: ModifyingCall | None = None

    def __call__(self, call: ModifyingCall) -> Fault | None:
        self.count += 1
        if self.count == self.n + 1:
            self.hit = call
            return self.fault
        return Fault.DIE_BEFORE if self.count > self.n and self.fault in DEATHS else None


def perform(world: WriterWorld) -> None:
    """Creates, extends, rolls over, absorbs, truncates, seals, deletes; with checkpoints between."""
    world.append("s", b"0123456789" * 3)
    world.append("t", b"other")
    world.checkpoint()
    world.append("small#1", b"small transaction")
    world.seal("small#1")
    world.merge("s", "small#1")
    world.append("s", b"tail")
    world.truncate("s", 12)
    world.seal("none#1")
    world.merge("s", "none#1")
    world.checkpoint()
    world.append("gone", b"x" * 100)
    world.append("s", b"y" * 200)
    world.truncate("s", 100)
    world.delete("gone")
    world.seal("t")
    world.checkpoint()


async def perform_in_two_parts(world: WriterWorld) -> None:
    """Sources that were flushed before their merge came: one to be copied, one to be linked."""
    world.append("big#1", b"b" * 90)
    world.append("tiny#1", b"tiny")
    world.append("s", b"first")
    world.checkpoint()
    await world.run_until_stored()
    world.restart()
    world.append("big#1", b"c" * 30)
    world.seal("big#1")
    world.seal("tiny#1")
    world.merge("s", "big#1")
    world.checkpoint()
    world.append("s", b"between")
    world.merge("s", "tiny#1")
    world.append("s", b"last")
    world.checkpoint()


async def recover_and_check(world: WriterWorld) -> None:
    world.provider.inject = world.rows.inject = lambda _: None
    world.restart()
    world.append("s", b"after")
    world.checkpoint()
    await world.run_until_stored()
    await world.check_stored()
    assert world.acknowledged == world.sequence
    await world.check_no_garbage()


@pytest.mark.parametrize("supports_append", [True, False])
@pytest.mark.parametrize("death", DEATHS)
async def test_whenever_the_process_dies_recovery_stores_everything_once(death, supports_append):
    for n in range(1000):
        died = NthCall(n, death)
        world = WriterWorld(inject=died, supports_append=supports_append)
        perform(world)
        with contextlib.suppress(ProcessGoneError):
            await world.run_until_stored()
        await recover_and_check(world)
        if died.hit is None:
            break
    assert n > 10


@pytest.mark.parametrize("death", DEATHS)
async def test_a_merge_of_stored_sources_survives_death_at_any_step(death):
    for n in range(1000):
        world = WriterWorld()
        await perform_in_two_parts(world)
        died = NthCall(n, death)
        world.provider.inject = world.rows.inject = died
        with contextlib.suppress(ProcessGoneError):
            await world.run_until_stored()
        await recover_and_check(world)
        if died.hit is None:
            break
    assert n > 5


@pytest.mark.parametrize("failure", FAILURES)
async def test_after_any_failed_call_the_writer_goes_on_and_stores_everything_once(failure):
    for n in range(1000):
        failed = NthCall(n, failure)
        world = WriterWorld(inject=failed)
        perform(world)
        await world.run_until_stored()
        await world.check_stored()
        assert world.acknowledged == world.sequence
        await recover_and_check(world)
        if failed.hit is None:
            break
    assert n > 10


@pytest.mark.parametrize("failure", FAILURES)
async def test_a_merge_of_stored_sources_survives_any_failed_call(failure):
    for n in range(1000):
        world = WriterWorld()
        await perform_in_two_parts(world)
        failed = NthCall(n, failure)
        world.provider.inject = world.rows.inject = failed
        await world.run_until_stored()
        await world.check_stored()
        await recover_and_check(world)
        if failed.hit is None:
            break
    assert n > 5


@pytest.mark.parametrize("fault", [*DEATHS, *FAILURES])
async def test_two_faults_one_after_the_other_are_survived(fault):
    for n in range(0, 40, stride(3)):
        for m in range(0, 12, stride(2)):
            world = WriterWorld(inject=NthCall(n, Fault.DIE_AFTER))
            perform(world)
            with contextlib.suppress(ProcessGoneError):
                await world.run_until_stored()
            world.restart()
            world.append("s", b"between the two")
            world.provider.inject = world.rows.inject = NthCall(m, fault)
            with contextlib.suppress(ProcessGoneError):
                await world.run_until_stored()
            await recover_and_check(world)


async def test_the_garbage_of_a_dead_owner_is_collected_by_the_next():
    config = StorageWriterConfig(
        flush_age_s=0.0, take_timeout_s=0.001, acknowledge_interval_s=0.0, garbage_interval_s=1000.0
    )
    assert QUICK.garbage_interval_s < 1.0
    world = WriterWorld(writer_config=config)
    perform(world)
    await world.run_until_stored()
    assert world.storage.statistics().garbage_runs
    await recover_and_check(world)

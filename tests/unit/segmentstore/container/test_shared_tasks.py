"""Evictions and activations: work that several callers share, and that the end of the container ends."""

import asyncio
from types import SimpleNamespace

import pytest

from headrace.errors import ContainerOfflineError, NoSuchSegmentError, WalWriteError
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.container.config import EvictionConfig
from headrace.segmentstore.container.evictions import Evictions
from headrace.segmentstore.container.shared_tasks import SharedTasks
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_attributes import SegmentAttributes
from headrace.segmentstore.state.segment_state import SegmentState


def segment(number, **fields):
    return SegmentState(number, f"s/{number}", last_used=number, **fields)


def make_evictions(state, supervisor, log=None, **bounds):
    """Evictions that would fail if they came as far as the catalogue."""
    tables = SimpleNamespace(is_idle=lambda _: True)
    tiers = SimpleNamespace(is_storage_idle=lambda _: True, supervisor=supervisor)
    return Evictions(state, log, None, tables, tiers, None, EvictionConfig(), 1024, **bounds)


class Loader:
    """Answers an activation when the test says so."""

    def __init__(self):
        self.calls = 0
        self.answer = None

    async def __call__(self):
        self.calls += 1
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_caller_that_gives_up_leaves_the_activation_to_the_others():
    loader = Loader()
    activations = SharedTasks(Supervisor("test"), "activation of")
    calls = [asyncio.ensure_future(activations.join("a", loader)) for _ in range(3)]
    await settle()
    calls[0].cancel()
    await settle()
    found = segment(1)
    loader.answer.set_result(found)
    assert await asyncio.gather(*calls[1:]) == [found] * 2
    assert loader.calls == 1
    assert not len(activations)


async def test_a_failure_is_told_to_those_who_wait_and_to_nobody_later():
    loader = Loader()
    activations = SharedTasks(Supervisor("test"), "activation of")

    async def call():
        try:
            return await activations.join("a", loader)
        except NoSuchSegmentError:
            return await activations.join("a", loader)  # query, create, query again

    first = [asyncio.ensure_future(call()) for _ in range(3)]
    await settle()
    loader.answer.set_exception(NoSuchSegmentError("a"))
    await settle()
    assert loader.calls == 2
    found = segment(1)
    loader.answer.set_result(found)
    assert await asyncio.gather(*first) == [found] * 3
    assert activations.failed == 1


async def test_the_end_of_the_container_ends_those_who_wait():
    supervisor, loader = Supervisor("test"), Loader()
    activations = SharedTasks(supervisor, "activation of")
    waiting = asyncio.ensure_future(activations.join("a", loader))
    await settle()
    await supervisor.stop()
    with pytest.raises(ContainerOfflineError):
        await waiting
    with pytest.raises(ContainerOfflineError):
        await activations.join("a", loader)
    assert not len(activations)


async def test_the_end_of_the_container_before_an_activation_has_begun_ends_those_who_wait():
    supervisor, loader = Supervisor("test"), Loader()
    activations = SharedTasks(supervisor, "activation of")
    waiting = asyncio.ensure_future(activations.join("a", loader))
    await asyncio.sleep(0)  # the activation is a task now, and has not had its first step
    await supervisor.stop()
    assert not loader.calls
    with pytest.raises(ContainerOfflineError):
        await asyncio.wait_for(waiting, 60)
    assert not len(activations)


async def test_the_end_of_the_container_before_an_eviction_has_begun_ends_those_who_wait():
    supervisor = Supervisor("test")
    evictions = make_evictions(ContainerState(0), supervisor)
    waiting = [asyncio.ensure_future(evictions.evict()) for _ in range(2)]
    await asyncio.sleep(0)  # the run is a task now, and has not had its first step
    await supervisor.stop()
    assert not evictions.started
    for call in waiting:
        with pytest.raises(ContainerOfflineError):
            await asyncio.wait_for(call, 60)
    with pytest.raises(ContainerOfflineError):
        await evictions.evict()


async def test_who_asks_for_room_while_the_log_fails_is_told_to_ask_again():
    failed = WalWriteError("the log failed before the acknowledgement")

    class FailingLog:
        truncated_sequence = 0

        async def write_checkpoint(self):
            raise failed

    state = ContainerState(0)
    state.active_max, found = 1, segment(1)
    state.by_name[found.name] = state.by_id[1] = found
    supervisor = Supervisor("test")
    evictions = make_evictions(state, supervisor, log=FailingLog())
    with pytest.raises(ContainerOfflineError) as told:
        await evictions.free_slots()
    assert told.value.__cause__ is failed
    await supervisor.stop()


async def test_a_segment_whose_row_the_log_cannot_take_stays_in_memory():
    state = ContainerState(0)
    writers = {number.to_bytes(16): 1 for number in range(40)}
    found = segment(1, attributes=SegmentAttributes(writers))
    state.by_name[found.name] = state.by_id[1] = found
    supervisor = Supervisor("test")
    evictions = make_evictions(state, supervisor, row_bytes_max=300)
    assert await evictions._evict_before(1000, 10) == 0  # otherwise it would have asked the catalogue
    await supervisor.stop()

"""Groups of readers at the controller, by our calls against our controller."""

import pytest

from headrace.client.config import ClientConfig, ControllerAddress
from headrace.client.control.controller import Controller
from headrace.client.control.reader_groups import ReaderGroups
from headrace.errors import (
    InvalidArgumentError,
    NoSuchReaderGroupError,
    NoSuchScopeError,
    NoSuchStreamError,
    PreconditionError,
)
from headrace.model.reader_group import NO_GROUP_ID, Consumption, ReaderGroupConfig
from headrace.model.stream_cut import COMPLETED, UNBOUNDED, StreamCut
from headrace.runtime.entropy import SeededEntropy
from tests.unit.controller.conftest import service, world  # noqa: F401

ID = bytes(range(16))


@pytest.fixture
async def groups(service):  # noqa: F811
    address = ControllerAddress.parse(f"tcp://127.0.0.1:{service.port}")
    controller = Controller(address, ClientConfig(), SeededEntropy(1))
    await service.create_stream()
    await service.create_stream("u", segments=2)
    yield ReaderGroups(controller)
    await controller.close()


def config(consumption=Consumption.NOT_HELD, generation=0, group_id=ID, **more):
    more = {"starts": {"s/t": UNBOUNDED}} | more
    return ReaderGroupConfig(consumption=consumption, generation=generation, group_id=group_id, **more)


async def test_a_group_is_kept_as_it_was_given(groups):
    given = config(
        Consumption.HELD_UNTIL_CHECKPOINT,
        starts={"s/t": UNBOUNDED, "s/u": StreamCut("s", "u", {0: 10, 1: 0})},
        ends={"s/u": StreamCut("s", "u", {0: COMPLETED, 1: 7})},
        checkpoint_interval_ms=-1,
        refresh_ms=500,
        checkpoints_max=7,
    )
    for kept in (await groups.create("s", "g", given), await groups.config("s", "g")):
        assert kept == given
        assert (kept.group_id, kept.generation) == (ID, 0)


async def test_whoever_comes_second_learns_of_the_first(groups):
    await groups.create("s", "g", config())
    kept = await groups.create("s", "g", config(refresh_ms=1, group_id=NO_GROUP_ID))
    assert (kept, kept.group_id) == (config(), ID)


async def test_an_update_counts_generations_and_is_of_the_last_one(groups):
    await groups.create("s", "g", config())
    changed = config(starts={"s/u": UNBOUNDED})
    assert await groups.update("s", "g", changed) == 1
    assert await groups.config("s", "g") == changed
    with pytest.raises(PreconditionError):
        await groups.update("s", "g", config())


async def test_retention_hears_of_a_group_that_holds_data(groups):
    held = config(Consumption.HELD_UNTIL_TOLD)
    await groups.create("s", "g", held)
    assert await groups.subscribers("s", "t") == ["s/g"]
    assert await groups.subscribers("s", "u") == []
    cut = StreamCut("s", "t", {0: 0})
    await groups.release("s/g", held, cut)
    with pytest.raises(PreconditionError):
        await groups.release("s/g", config(generation=7), cut)
    with pytest.raises(NoSuchReaderGroupError):
        await groups.release("s/h", held, cut)


async def test_a_group_is_removed_by_its_id(groups):
    await groups.create("s", "g", config())
    assert await groups.delete("s", "g", ID)
    assert not await groups.delete("s", "g", ID)
    with pytest.raises(NoSuchReaderGroupError):
        await groups.config("s", "g")


async def test_what_is_not_there_is_named(groups):
    with pytest.raises(NoSuchScopeError):
        await groups.create("other", "g", config())
    with pytest.raises(NoSuchStreamError):
        await groups.subscribers("s", "other")
    with pytest.raises(NoSuchReaderGroupError):
        await groups.update("s", "g", config())


@pytest.mark.parametrize(
    "wrong",
    [
        {"starts": {}},
        {"starts": {"s/t": StreamCut("s", "u", {0: 0})}},
        {"checkpoints_max": 0},
        {"checkpoint_interval_ms": -2},
        {"refresh_ms": -1},
        {"group_id": b"short"},
    ],
)
def test_a_configuration_that_means_nothing_is_refused(wrong):
    with pytest.raises(InvalidArgumentError):
        config(**wrong)

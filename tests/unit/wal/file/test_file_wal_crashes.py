"""Power is lost, or the process killed, before, within and after every durable write of a log's life."""

import pytest

from headrace.testing.disk import DiskConfig, Moment
from headrace.testing.disk_files import Survival
from tests.effort import stride
from tests.unit.wal.world import History, Machine, MortalFilesystem, append_some, read_all

#: Each of the 36 combinations below looks at another of so many crash points; together they look at all.
STRIDE = stride(9)


def contents(start, count):
    return [b"%05d " % number + b"x" * (number * 37 % 400) for number in range(start, start + count)]


async def live(machine, history, filesystem=None):
    """Three owners: one ends well, one is left behind, one goes on; files fill and are recycled."""
    first = machine.make_wal(filesystem=filesystem)
    await first.open()
    await append_some(first, history, contents(0, 8))
    await truncate(first, history, 4)
    await append_some(first, history, contents(8, 6))
    await first.close()
    second = await open_and_check(machine, history, filesystem)
    await append_some(second, history, contents(14, 12))
    await truncate(second, history, 19)
    await append_some(second, history, contents(26, 6))
    third = await open_and_check(machine, history, filesystem)
    await append_some(third, history, contents(32, 12))
    await truncate(third, history, 40)
    await append_some(third, history, contents(44, 6))
    await second.close()
    await third.close()


async def truncate(wal, history, address):
    history.truncation_asked = max(history.truncation_asked, address)
    await wal.truncate(address)
    history.truncation_done = max(history.truncation_done, address)


async def open_and_check(machine, history, filesystem=None):
    wal = machine.make_wal(filesystem=filesystem)
    await wal.open()
    records = await read_all(wal)
    history.check(records)
    history.adopt(records)
    return wal


async def prove(machine, history):
    """Whatever happened: the log opens, holds what it must, goes on, and holds it again."""
    for round_number in range(2):
        wal = await open_and_check(machine, history)
        await append_some(wal, history, contents(100 + round_number * 10, 7))
        assert not history.errors
        await wal.close()
    wal = await open_and_check(machine, history)
    await wal.close()


def count_durable_writes(config, here):
    machine, history = Machine(config=config, loop_writes=here), History()
    machine.run(live(machine, history))
    assert len(history.acknowledged) == 50
    assert not history.errors
    count = machine.disk.statistics().durable_writes
    machine.run(prove(machine, history))
    return count


HERE = pytest.mark.parametrize("here", [False, True], ids=["in threads", "on the loop"])


@pytest.mark.slow
@HERE
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "fdatasync"])
@pytest.mark.parametrize("survival", list(Survival), ids=lambda survival: survival.value)
@pytest.mark.parametrize("moment", list(Moment), ids=lambda moment: moment.value)
def test_what_was_acknowledged_survives_a_power_loss_at_any_durable_write(moment, survival, direct, here):
    config = DiskConfig(survival=survival, direct=direct)
    last = count_durable_writes(config, here)
    assert last > 60
    start = 12 * list(Moment).index(moment) + 4 * list(Survival).index(survival) + 2 * direct + here
    for number in range(1 + start % STRIDE, last + 1, STRIDE):
        machine, history = Machine(config=config, loop_writes=here), History()
        machine.disk.plan_power_loss(number, moment)
        assert machine.run_until_power_loss(live(machine, history))
        machine.disk.restore_power()
        history.errors.clear()
        machine.run(prove(machine, history))
        assert not machine.loop.failures


def count_calls(config, here):
    machine, history = Machine(config=config, loop_writes=here), History()
    filesystem = MortalFilesystem(machine.disk, 0)
    machine.run(live(machine, history, filesystem))
    return filesystem.calls


@pytest.mark.slow
@HERE
@pytest.mark.parametrize("direct", [True, False], ids=["direct", "fdatasync"])
def test_what_was_acknowledged_survives_a_kill_at_any_call_and_a_power_loss_soon_after(direct, here):
    config = DiskConfig(survival=Survival.NONE, direct=direct)
    last = count_calls(config, here)
    assert last > 200
    for number in range(1 + (2 * direct + here) * STRIDE // 4, last + 1, STRIDE):
        machine, history = Machine(config=config, loop_writes=here), History()
        filesystem = MortalFilesystem(machine.disk, number)
        assert machine.run_until(
            live(machine, history, filesystem),
            lambda call, filesystem=filesystem: setattr(filesystem, "on_death", call),
        )
        history.errors.clear()
        survivor = machine.run(open_and_check(machine, history))
        machine.run(append_some(survivor, history, contents(200, 3)))
        machine.disk.lose_power()
        machine.disk.restore_power()
        assert not history.errors
        machine.run(prove(machine, history))
        assert not machine.loop.failures

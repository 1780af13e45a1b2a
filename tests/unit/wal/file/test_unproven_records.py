"""Records that no later one proves durable are durable, or gone, before an owner goes on behind them."""

from dataclasses import replace

import pytest

from headrace.limits import KIB
from headrace.testing.disk import DiskConfig
from headrace.testing.disk_files import Survival
from tests.unit.wal.world import SMALL, History, Machine, append_some, read_all

#: The only writes are those of records.
LAZY = replace(SMALL, zero_ahead_bytes=0)


def contents(start, count):
    return [b"%05d " % number + b"x" * (number * 37 % 400) for number in range(start, start + count)]


#: Direct writes are refused when a file is opened, or when it is written.
NOT_DIRECT = [
    DiskConfig(direct=False, survival=Survival.NONE),
    DiskConfig(alignment_bytes=32 * KIB, survival=Survival.NONE),
]


@pytest.mark.slow
@pytest.mark.parametrize("config", NOT_DIRECT)
@pytest.mark.parametrize("skip", range(8))
def test_a_record_whose_sync_failed_outlives_the_power_once_a_later_owner_has_found_it(config, skip):
    """The page cache shows it, as if it were stored, for as long as the machine runs."""
    machine, history = Machine(wal=LAZY, config=config), History()

    async def scenario():
        wal = await machine.open()
        await append_some(wal, history, contents(0, 2))
        fault = machine.disk.fail("fdatasync", path="/log/0", skip=skip)
        await append_some(wal, history, contents(2, 9))
        assert fault.met
        machine.disk.heal()
        await wal.close()
        history.errors.clear()
        again = await machine.open()
        records = await read_all(again)
        history.check(records)
        history.adopt(records)
        await append_some(again, history, contents(20, 3))
        machine.disk.lose_power()

    machine.run_until_power_loss(scenario())
    machine.disk.restore_power()

    async def look():
        wal = await machine.open()
        history.check(await read_all(wal))
        await wal.close()

    machine.run(look())
    assert history.errors == []

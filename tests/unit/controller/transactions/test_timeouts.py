import asyncio

from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.timeouts import Timeouts
from headrace.testing.simulation import simulate


def run(scenario):
    """Run a scenario of (timeouts, expired) on virtual time."""

    async def main(sim):
        expired = []
        timeouts = Timeouts(
            lambda txn, version: expired.append((txn.txn_id, asyncio.get_running_loop().time()))
        )
        running = asyncio.ensure_future(timeouts.run())
        await scenario(timeouts, expired)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    simulate(1, main)


def txn(number, version=1):
    return Txn(bytes(16), number, None, version)


def write(txn):
    """What the registry does with a row that was written here."""
    txn.version = txn.watched = txn.version + 1


def test_what_is_armed_expires_in_order_and_on_time():
    async def scenario(timeouts, expired):
        start = asyncio.get_running_loop().time()
        for number, delay_ms in ((1, 50_000), (2, 10_000), (3, 30_000)):
            timeouts.arm(txn(number), delay_ms)
        await asyncio.sleep(60)
        assert [number for number, _ in expired] == [2, 3, 1]
        for (_, at), due in zip(expired, (10, 30, 50), strict=True):
            assert due <= at - start <= due + 1

    run(scenario)


def test_a_row_that_was_written_again_does_not_expire():
    async def scenario(timeouts, expired):
        pinged = txn(1)
        timeouts.arm(pinged, 10_000)
        await asyncio.sleep(5)
        write(pinged)
        timeouts.arm(pinged, 10_000)
        await asyncio.sleep(7)
        assert expired == []
        await asyncio.sleep(7)
        assert [number for number, _ in expired] == [1]

    run(scenario)


def test_a_row_that_another_controller_wrote_is_looked_at_when_its_time_comes():
    async def scenario(timeouts, expired):
        pinged = txn(1)
        timeouts.arm(pinged, 10_000)
        pinged.version = 2  # read, not written here
        await asyncio.sleep(12)
        assert [number for number, _ in expired] == [1]

    run(scenario)


def test_a_shorter_deadline_that_comes_later_is_met():
    async def scenario(timeouts, expired):
        timeouts.arm(txn(1), 1_000_000)
        await asyncio.sleep(5)
        timeouts.arm(txn(2), 1_000)
        await asyncio.sleep(3)
        assert [number for number, _ in expired] == [2]

    run(scenario)


def test_a_million_short_transactions_leave_no_pile_of_entries():
    async def scenario(timeouts, expired):
        for number in range(20_000):
            finished = txn(number)
            timeouts.arm(finished, 600_000)
            write(finished)
        assert timeouts.statistics()["armed"] <= 1024

    run(scenario)

"""A log under load while bookies are killed, sleep, lose a disk and are repaired after; and take-overs."""

import asyncio
from random import Random

import pytest

from headrace.errors import FencedOutError, WalWriteError
from headrace.testing.conformance.wal import append_all, numbered, read_contents
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.config import WalConfig
from tests.bookies.real_logs import Load, ledgers_of, log_place, logs_at, opened
from tests.bookies.servers import BookKeeper

CONFIG = LedgerLogConfig(ledger_bytes_max=200_000, answer_s=2.0, full_check_s=0.5)
FRAMES = WalConfig(frame_bytes_max=1 << 20, frames_max=8)


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with BookKeeper(tmp_path_factory.mktemp("faults") / "run", 3) as found:
        yield found


async def until(condition, seconds=60):
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def told_to_repair(servers, ledgers):
    """Wait until the auditor has found one of the ledgers to lack copies."""
    async with asyncio.timeout(120):
        told = ""
        while not any(f"{ledger}\n" in told for ledger in ledgers):
            told = await asyncio.to_thread(servers.shell, "listunderreplicated")


@pytest.mark.parametrize("fault", ["kill", "sleep"])
async def test_a_bookie_that_fails_under_load_costs_no_event_and_is_used_again(servers, fault):
    place = log_place(servers, config=CONFIG)
    async with logs_at(place, FRAMES) as logs:
        wal = await opened(logs)
        load = Load(wal)
        await load.until(100)
        bookie = servers.bookies[0]
        bookie.kill() if fault == "kill" else bookie.suspend()
        await load.until(1000)
        await until(lambda: wal.statistics().degraded)
        if fault == "kill":
            bookie.start()
            await asyncio.to_thread(bookie.wait)
        else:
            bookie.resume()
        await until(lambda: not wal.statistics().degraded)
        await load.until(100)
        acknowledged = await load.end()
        await wal.close()
        again = await opened(logs)
        assert await read_contents(again) == acknowledged
        await again.close()


async def test_a_log_is_recovered_while_one_of_three_bookies_is_away(servers):
    place = log_place(servers, config=CONFIG)
    async with logs_at(place, FRAMES) as logs, logs_at(place, FRAMES) as others:
        wal = await opened(logs)
        first = await append_all(wal, numbered(200))
        servers.bookies[1].kill()
        second = await append_all(wal, numbered(100, start=200))
        taken = await opened(others)  # the owner never closed
        assert await read_contents(taken) == [*first.contents, *second.contents]
        third = await append_all(taken, numbered(10, start=300))
        assert third.errors == [None] * 10
        late = await append_all(wal, [b"late"])
        assert [type(error) for error in late.errors] == [FencedOutError]
        await wal.close()
        await taken.close()
        servers.bookies[1].start()
        await asyncio.to_thread(servers.bookies[1].wait)


async def test_repair_by_bookkeeper_takes_the_log_from_nobody(servers):
    place = log_place(servers, config=LedgerLogConfig(answer_s=2.0, full_check_s=3600))
    servers.start_recovery()
    try:
        async with logs_at(place, FRAMES) as logs:
            wal = await opened(logs)
            assert (await append_all(wal, numbered(50))).errors == [None] * 50
            servers.bookies[2].kill()
            load = Load(wal, 50)
            await told_to_repair(servers, await ledgers_of(place))
            await load.until(2000)
            acknowledged = await load.end()
            assert not await wal.is_fenced()
            await wal.close()
            again = await opened(logs)
            assert await read_contents(again) == [*numbered(50), *acknowledged]
            await again.close()
    finally:
        servers.stop_recovery()
        servers.bookies[2].start()
        await asyncio.to_thread(servers.bookies[2].wait)


async def test_too_few_bookies_stop_the_log_and_enough_of_them_go_on(servers):
    place = log_place(servers, config=LedgerLogConfig(answer_s=1.0, patience_s=3.0))
    async with logs_at(place, FRAMES) as logs:
        wal = await opened(logs)
        await append_all(wal, numbered(50))
        for bookie in servers.bookies[:2]:
            bookie.kill()
        failed = await append_all(wal, numbered(1, start=50))
        assert [type(error) for error in failed.errors] == [WalWriteError]
        await wal.close()
        for bookie in servers.bookies[:2]:
            bookie.start()
        for bookie in servers.bookies[:2]:
            await asyncio.to_thread(bookie.wait)
        again = await opened(logs)
        assert (await read_contents(again))[:50] == numbered(50)
        assert (await append_all(again, numbered(1, start=51))).errors == [None]
        await again.close()


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm(tmp_path, seed):
    """Four bookies; faults of one at a time, one lost disk among them, and owners that overlap."""
    random = Random(seed)
    loses_disk = random.randrange(8)
    with BookKeeper(tmp_path / "run", 4) as servers:
        place = log_place(servers, config=CONFIG)
        async with logs_at(place, FRAMES) as logs, logs_at(place, FRAMES) as others:
            kept, number, former = [], 0, None
            for round_number in range(8):
                wal = await opened((logs, others)[round_number % 2])
                found = await read_contents(wal)
                assert found[: len(kept)] == kept
                assert len(set(found)) == len(found)
                kept = found
                if former is not None:
                    late = await append_all(former, [b"late"])
                    assert [type(error) for error in late.errors] == [FencedOutError]
                    await former.close()
                load = Load(wal, number)
                await load.until(random.randrange(50, 300))
                bookie = random.choice(servers.bookies)
                fault = "disk" if round_number == loses_disk else random.choice(("kill", "sleep"))
                bookie.suspend() if fault == "sleep" else bookie.kill()
                await load.until(random.randrange(200, 1500))
                if fault == "sleep":
                    bookie.resume()
                else:
                    if fault == "disk":
                        bookie.lose_disk()
                    bookie.start()
                    await asyncio.to_thread(bookie.wait)
                acknowledged = await load.end()
                kept += acknowledged
                number += 100_000
                former = wal
            await former.close()
            last = await opened(logs)
            assert await read_contents(last) == kept
            await last.close()

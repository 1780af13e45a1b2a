"""A log over bookies that fail, are fenced by others, and come back."""

import asyncio

import pytest

from headrace.errors import DataCorruptionError, FencedOutError, StorageFullError, WalWriteError
from headrace.testing.conformance.wal import append_all, numbered, read_contents
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.entry_format import decode_entry
from headrace.wal.bookkeeper.ledger_io import recover_ledger
from headrace.wal.bookkeeper.ledger_metadata import LedgerState, decode_ledger
from headrace.wal.bookkeeper.ledger_nodes import ledger_path
from headrace.wal.bookkeeper.ledger_wal import BookKeeperWal
from headrace.wal.bookkeeper.log_changes import find_freed, truncate_log
from headrace.wal.bookkeeper.log_node import decode_log, encode_log
from headrace.wal.bookkeeper.looking import look_at_log
from tests.unit.wal.bookkeeper.memory_bookies import MemoryBookies, run_now
from tests.unit.wal.world import SMALL

CONFIG = LedgerLogConfig(
    pause_s=0.001, full_check_s=0.001, patience_s=0.05, answer_s=0.02, drain_s=0.02, behind_bytes_max=2000
)


async def opened(bookies, config=CONFIG):
    wal = BookKeeperWal(bookies.maker(), "logs/3", 3, SMALL, config)
    await wal.open()
    return wal


async def contents(bookies):
    wal = await opened(bookies)
    found = await read_contents(wal)
    await wal.close()
    return found


async def until(condition):
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.001)


def ledgers_of(bookies):
    node = run_now(bookies.session.read("logs/3"))
    return [each.ledger for each in decode_log(node.data, 3).ledgers]


def metadata_of(bookies, ledger):
    return decode_ledger(run_now(bookies.session.read(ledger_path(ledger))).data)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_bookie_that_dies_costs_nothing_but_the_third_copy_until_it_is_back(is_listed):
    bookies = MemoryBookies()
    wal = await opened(bookies)
    assert (await append_all(wal, numbered(10))).errors == [None] * 10
    assert wal.statistics().degraded == 0
    bookies.kill("b1:1", is_listed=is_listed)
    assert (await append_all(wal, numbered(10, start=10))).errors == [None] * 10
    await until(lambda: wal.statistics().degraded)
    assert (await append_all(wal, numbered(10, start=20))).errors == [None] * 10
    assert set(metadata_of(bookies, ledgers_of(bookies)[-1]).bookies) == {"b0:1", "b2:1"}
    await wal.close()
    assert await contents(bookies) == numbered(30)


async def test_a_log_goes_on_with_all_bookies_when_there_are_enough_again():
    bookies = MemoryBookies(4)
    for name in ("b0:1", "b1:1"):
        bookies.kill(name)
    wal = await opened(bookies)
    assert (await append_all(wal, numbered(5))).errors == [None] * 5
    assert wal.statistics().degraded == 1
    bookies.restart("b0:1")
    await until(lambda: not wal.statistics().degraded)
    assert (await append_all(wal, numbered(5, start=5))).errors == [None] * 5
    assert set(metadata_of(bookies, ledgers_of(bookies)[-1]).bookies) == {"b0:1", "b2:1", "b3:1"}
    await wal.close()
    assert await contents(bookies) == numbered(10)


async def test_a_bookie_that_is_silent_delays_nobody_and_is_left():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    bookies.bookies["b0:1"].is_paused = True
    assert (await append_all(wal, numbered(10))).errors == [None] * 10
    await until(lambda: wal.statistics().degraded)
    await wal.close()
    bookies.bookies["b0:1"].is_paused = False
    assert await contents(bookies) == numbered(10)


async def test_frames_wait_for_enough_bookies_and_go_on_with_them():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig(pause_s=0.001, answer_s=0.02))
    await append_all(wal, numbered(3))
    for name in ("b0:1", "b1:1"):
        bookies.kill(name)
    appending = asyncio.ensure_future(append_all(wal, numbered(3, start=3)))
    await asyncio.sleep(0.02)
    assert not appending.done()
    assert wal.statistics().frames_in_flight == wal.statistics().frames_queued == 3
    bookies.restart("b1:1")
    assert (await appending).errors == [None] * 3
    await wal.close()
    assert await contents(bookies) == numbered(6)


async def test_frames_fail_typed_when_too_few_bookies_are_alive_for_too_long_and_the_log_opens_again():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    await append_all(wal, numbered(3))
    for name in ("b0:1", "b1:1"):
        bookies.kill(name)
    failed = await append_all(wal, numbered(2, start=3))
    assert [type(error) for error in failed.errors] == [WalWriteError] * 2
    assert "ookie" in str(failed.errors[0])
    again = await append_all(wal, numbered(1))
    assert [type(error) for error in again.errors] == [WalWriteError]
    await wal.close()
    bookies.restart("b0:1")
    assert (await contents(bookies))[:3] == numbered(3)


async def test_a_ledger_that_somebody_repairs_is_left_and_the_log_stays_ours():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig())  # of which a busy machine is slow to no answer
    first = await append_all(wal, numbered(5))
    ended = await recover_ledger(bookies.maker().store, ledgers_of(bookies)[0])  # as AutoRecovery does
    assert ended.last_entry == 4
    second = await append_all(wal, numbered(5, start=5))
    assert second.errors == [None] * 5
    assert not await wal.is_fenced()
    assert len(ledgers_of(bookies)) == 2
    await wal.close()
    again = await opened(bookies)
    assert [(record.address, bytes(record.payload)) async for record in again.records()] == list(
        zip([*first.addresses, *second.addresses], numbered(10), strict=True)
    )
    await again.close()


async def test_no_frame_is_twice_in_the_log_whenever_its_ledger_is_repaired():
    for appended in range(1, 12):
        bookies = MemoryBookies()
        wal = await opened(bookies)
        await append_all(wal, numbered(1))
        appending = asyncio.ensure_future(append_all(wal, numbered(20, start=1)))
        for _ in range(appended):
            await asyncio.sleep(0)
        await recover_ledger(bookies.maker().store, ledgers_of(bookies)[0])
        assert (await appending).errors == [None] * 20
        await wal.close()
        assert await contents(bookies) == numbered(21)


async def test_a_slow_bookie_has_what_was_appended_although_the_frame_was_used_again():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig())
    slow = bookies.bookies["b2:1"]
    held = bookies.hold("b2:1")
    assert (await append_all(wal, numbered(20))).errors == [None] * 20
    held.release()
    await wal.close()
    (ledger,) = ledgers_of(bookies)
    found = [decode_entry(slow.entries[ledger, entry], ledger, entry).payload for entry in range(20)]
    assert found == numbered(20)


async def test_a_bookie_that_lags_too_many_bytes_is_left():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig(behind_bytes_max=300, full_check_s=0.001))
    held = bookies.hold("b2:1")
    assert (await append_all(wal, numbered(40))).errors == [None] * 40
    await until(lambda: wal.statistics().degraded)
    held.release()
    await wal.close()
    assert await contents(bookies) == numbered(40)


async def test_a_session_that_ended_is_begun_anew():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    await append_all(wal, numbered(3))
    for session in bookies.sessions:
        session.expire()
    await wal.separate()
    addresses = (await append_all(wal, numbered(3, start=3))).addresses
    await wal.truncate(addresses[0])
    assert not await wal.is_fenced()
    await wal.close()
    assert await contents(bookies) == numbered(3, start=3)


async def test_a_closed_log_needs_no_recovery_and_one_without_appends_makes_no_ledger():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    await append_all(wal, numbered(3))
    await wal.close()
    (ledger,) = ledgers_of(bookies)
    assert metadata_of(bookies, ledger).state is LedgerState.CLOSED
    assert await contents(bookies) == numbered(3)
    assert ledgers_of(bookies) == [ledger]


async def test_ledgers_that_are_truncated_are_deleted():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig(ledger_bytes_max=300))
    appended = await append_all(wal, numbered(50))
    before = ledgers_of(bookies)
    await wal.truncate(appended.addresses[40])
    after = ledgers_of(bookies)
    assert 0 < len(after) < len(before)
    for ledger in set(before) - set(after):
        assert run_now(bookies.session.read(ledger_path(ledger))) is None
    await wal.close()
    assert await contents(bookies) == numbered(50)[40:]


async def test_a_log_is_opened_whose_owner_died_between_the_deletion_of_ledgers_and_its_note_of_that():
    bookies = MemoryBookies()
    wal = await opened(bookies, config=LedgerLogConfig(ledger_bytes_max=300))
    appended = await append_all(wal, numbered(50))
    await wal.close()
    found = run_now(bookies.session.read("logs/3"))
    node = truncate_log(decode_log(found.data, 3), appended.addresses[40], appended.addresses[-1] + 1)
    run_now(bookies.session.write("logs/3", encode_log(node), found.version))
    freed = find_freed(node)
    run_now(bookies.maker().store.delete(freed[0]))
    seen = await look_at_log(bookies.maker().store, "logs/3", 3)
    assert seen.problem == ""
    assert await contents(bookies) == numbered(50)[40:]
    assert set(freed).isdisjoint(ledgers_of(bookies))
    assert run_now(bookies.session.read(ledger_path(freed[1]))) is None


async def test_a_log_that_lost_a_ledger_is_not_opened():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    await append_all(wal, numbered(3))
    await wal.close()
    run_now(bookies.maker().store.delete(ledgers_of(bookies)[0]))
    again = BookKeeperWal(bookies.maker(), "logs/3", 3, SMALL, CONFIG)
    with pytest.raises(DataCorruptionError):
        await again.open()
    await again.close()


async def test_an_owner_whose_log_was_deleted_is_fenced():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    run_now(bookies.session.delete("logs/3", 1))
    assert [type(error) for error in (await append_all(wal, numbered(1))).errors] == [FencedOutError]
    await wal.close()


async def test_full_bookies_are_told_from_dead_ones():
    bookies = MemoryBookies()
    wal = await opened(bookies)
    await append_all(wal, numbered(1))
    bookies.fill()
    appending = asyncio.ensure_future(append_all(wal, numbered(1, start=1)))
    await until(lambda: wal.statistics().space_waiting)
    wal.stop_waiting()
    assert [type(error) for error in (await appending).errors] == [StorageFullError]
    await wal.close()


async def test_a_log_on_two_bookies_is_recovered_from_one_of_them_when_a_third_is_back():
    """What one bookie was away for is on the two others; then one of these is lost for ever."""
    bookies = MemoryBookies()
    bookies.kill("b2:1")
    wal = await opened(bookies)
    first = await append_all(wal, numbered(20))
    bookies.restart("b2:1")
    bookies.kill("b0:1")
    again = await opened(bookies)
    assert await read_contents(again) == first.contents
    assert (await append_all(again, numbered(5, start=20))).errors == [None] * 5
    await wal.close()
    await again.close()

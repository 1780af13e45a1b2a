import asyncio
import random

import pytest

from headrace.errors import ClosedError, MailboxFullError
from headrace.runtime.mailbox import Mailbox


async def settle():
    for _ in range(5):
        await asyncio.sleep(0)


async def test_items_come_out_in_the_order_they_went_in():
    box = Mailbox(10)
    for item in range(10):
        box.put_nowait(item)
    assert [await box.get(), await box.get()] == [0, 1]
    assert box.get_many_nowait(3) == [2, 3, 4]
    assert box.get_many_nowait(100) == [5, 6, 7, 8, 9]
    assert box.get_many_nowait(1) == []


async def test_the_item_after_the_last_place_is_refused_and_counted():
    box = Mailbox(2)
    box.put_nowait(1)
    box.put_nowait(2)
    with pytest.raises(MailboxFullError):
        box.put_nowait(3)
    assert box.statistics().refused == 1
    assert box.get_many_nowait(9) == [1, 2]


async def test_bytes_are_bounded_as_well_and_an_oversized_item_goes_alone():
    box = Mailbox(100, bytes_max=10, size_of=len)
    box.put_nowait(b"x" * 6)
    with pytest.raises(MailboxFullError):
        box.put_nowait(b"y" * 5)
    box.put_nowait(b"z" * 4)
    box.check()
    assert box.get_many_nowait(2) == [b"xxxxxx", b"zzzz"]
    box.put_nowait(b"w" * 50)
    with pytest.raises(MailboxFullError):
        box.put_nowait(b"")
    box.check()
    assert await box.get() == b"w" * 50
    assert box.statistics().bytes == 0


async def test_those_who_wait_to_put_are_served_in_order_and_nobody_overtakes():
    box = Mailbox(1)
    box.put_nowait(0)
    async with asyncio.TaskGroup() as group:
        for item in range(1, 6):
            group.create_task(box.put(item))
        await settle()
        assert box.statistics().puts_waiting == 5
        with pytest.raises(MailboxFullError):
            box.put_nowait(99)
        assert [await box.get() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
    box.check()


async def test_a_cancelled_put_did_not_happen_and_frees_those_behind_it():
    box = Mailbox(9, bytes_max=10, size_of=len)
    box.put_nowait(b"12345678")
    async with asyncio.TaskGroup() as group:
        large = group.create_task(box.put(b"large"))
        small = group.create_task(box.put(b"s"))
        await settle()
        assert box.statistics().puts_waiting == 2
        large.cancel()
        await small
    assert box.get_many_nowait(9) == [b"12345678", b"s"]


async def test_an_item_is_not_lost_when_the_getter_is_cancelled_in_the_turn_it_arrives():
    box = Mailbox(4)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(box.get())
        second = group.create_task(box.get())
        await settle()
        box.put_nowait("item")
        first.cancel()
        assert await second == "item"
    assert first.cancelled()


async def test_a_closed_mailbox_is_drained_before_getters_fail():
    box = Mailbox(4)
    box.put_nowait(1)
    box.close()
    box.close()
    with pytest.raises(ClosedError):
        box.put_nowait(2)
    with pytest.raises(ClosedError):
        await box.put(2)
    assert await box.get() == 1
    with pytest.raises(ClosedError):
        await box.get()


async def test_closing_fails_everybody_who_waits():
    empty, full = Mailbox(1), Mailbox(1)
    full.put_nowait(0)

    async def expect_closed(awaitable):
        with pytest.raises(ClosedError):
            await awaitable

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(expect_closed(empty.get()))
            group.create_task(expect_closed(full.put(1)))
        await settle()
        empty.close()
        full.close()
    empty.check()
    full.check()
    assert full.get_many_nowait(9) == [0]


@pytest.mark.parametrize("seed", range(5))
async def test_under_random_cancellation_no_accepted_item_is_lost_doubled_or_reordered_per_producer(seed):
    chance = random.Random(seed)
    box = Mailbox(3, bytes_max=6, size_of=lambda item: item[1] % 4)
    put_ok, got = set(), []

    async def producer(me):
        for number in range(60):
            task = asyncio.ensure_future(box.put((me, number)))
            if chance.random() < 0.3:
                await asyncio.sleep(0)
                task.cancel()
            try:
                await task
                put_ok.add((me, number))
            except asyncio.CancelledError:
                pass
            box.check()

    async def consumer():
        while True:
            task = asyncio.ensure_future(box.get())
            if chance.random() < 0.3:
                await asyncio.sleep(0)
                task.cancel()
            try:
                got.append(await task)
            except asyncio.CancelledError:
                pass
            except ClosedError:
                return
            box.check()

    async with asyncio.TaskGroup() as group:
        group.create_task(consumer())
        async with asyncio.TaskGroup() as producers:
            for me in range(4):
                producers.create_task(producer(me))
        box.close()
    assert put_ok <= set(got)
    assert len(got) == len(set(got))
    for me in range(4):
        mine = [number for owner, number in got if owner == me]
        assert mine == sorted(mine)


async def test_ten_thousand_items_through_one_place():
    box = Mailbox(1)

    async def produce():
        for item in range(10_000):
            await box.put(item)

    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        assert [await box.get() for _ in range(10_000)] == list(range(10_000))
    assert box.statistics().count_peak == 1

import asyncio

import pytest

from headrace.client.writer.ack import Ack


async def test_an_ack_is_done_when_its_last_part_is():
    ack = Ack(2)
    told = []
    ack.add_done_callback(told.append)
    ack.settle_part()
    assert not ack.done()
    ack.add_parts(1)
    ack.settle_part()
    ack.settle_part()
    assert ack.done()
    assert told == [ack]
    await ack
    await ack


async def test_the_first_error_is_kept_until_all_parts_are_settled():
    ack = Ack(3)
    waiting = asyncio.ensure_future(_wait(ack))
    await asyncio.sleep(0)
    ack.settle_part(KeyError("first"))
    ack.settle_part(ValueError("second"))
    await asyncio.sleep(0)
    assert not waiting.done()
    ack.settle_part()
    with pytest.raises(KeyError):
        await waiting
    with pytest.raises(KeyError):
        await ack


async def test_an_ack_of_nothing_is_done():
    ack = Ack()
    assert ack.done()
    await ack
    told = []
    ack.add_done_callback(told.append)
    assert told == [ack]


async def test_a_callback_that_fails_harms_neither_its_neighbours_nor_who_settles():
    reported, told = [], []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    ack = Ack(1)
    ack.add_done_callback(lambda _: 1 // 0)
    ack.add_done_callback(told.append)
    ack.settle_part()
    assert told == [ack]
    ack.add_done_callback(lambda _: {}["late"])
    assert [type(error) for error in reported] == [ZeroDivisionError, KeyError]


async def _wait(ack):
    await ack

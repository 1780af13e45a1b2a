"""Work that goes on although its caller is cancelled."""

import asyncio

import pytest

from headrace.runtime.uninterrupted import uninterrupted


async def test_it_returns_what_the_work_returns_and_raises_what_it_raises():
    async def fail():
        raise KeyError("why")

    assert await uninterrupted(asyncio.sleep(0, "done")) == "done"
    with pytest.raises(KeyError, match="why"):
        await uninterrupted(fail())


@pytest.mark.parametrize("error", [None, KeyError("why")])
async def test_a_cancelled_caller_ends_behind_the_work(error):
    going, said = asyncio.Event(), []

    async def work():
        await going.wait()
        said.append("done")
        if error is not None:
            raise error

    caller = asyncio.ensure_future(uninterrupted(work()))
    await asyncio.sleep(0)
    caller.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not caller.done()
    going.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert said == ["done"]

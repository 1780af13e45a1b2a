import asyncio

import pytest

from headrace.errors import ContainerOfflineError, DataCorruptionError, FencedOutError, WalWriteError
from headrace.segmentstore.container.tenure import Tenure, describe_failure

CATALOGUE = "_system/containers/metadata_0"


class FencedLater:
    """A log of which somebody else is the owner once ``fenced`` is set."""

    fenced = False
    while_asked = None
    """What happens before the answer arrives."""

    async def is_fenced(self):
        fenced = self.fenced
        if self.while_asked is not None:
            self.while_asked()
        return fenced


def make_tenure():
    wal = FencedLater()
    return Tenure(0, wal, CATALOGUE), wal


def test_calls_are_accepted_from_the_beginning_to_the_leave_and_only_the_first_leave_counts():
    tenure, _ = make_tenure()
    with pytest.raises(ContainerOfflineError):
        tenure.check_online("s/a")
    tenure.begin()
    tenure.check_online("s/a")
    assert tenure.leave()
    assert not tenure.leave()
    with pytest.raises(ContainerOfflineError):
        tenure.check_online("s/a")


async def test_the_catalogue_alone_may_be_used_while_the_container_finishes():
    tenure, _ = make_tenure()
    tenure.begin()
    tenure.leave()
    async with tenure.finishing(10.0):
        tenure.check_online(CATALOGUE)
        for name in ("s/a", ""):
            with pytest.raises(ContainerOfflineError):
                tenure.check_online(name)
    with pytest.raises(ContainerOfflineError):
        tenure.check_online(CATALOGUE)


async def test_finishing_gives_up_after_its_limit():
    tenure, _ = make_tenure()
    with pytest.raises(TimeoutError):
        async with tenure.finishing(0.0):
            await asyncio.Event().wait()
    assert not tenure.is_finishing


async def test_the_end_of_a_tenure_ends_what_finishes_at_once_and_is_the_end_only_once():
    tenure, _ = make_tenure()
    ends = []

    async def finish():
        async with tenure.finishing(1e6):
            ends.extend((tenure.end(), tenure.end()))
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await finish()
    assert ends == [True, False]
    assert not tenure.is_finishing
    assert not tenure.end()


async def test_a_failure_of_the_last_work_is_told_as_it_is_and_ends_the_finishing():
    tenure, _ = make_tenure()
    with pytest.raises(WalWriteError):
        async with tenure.finishing(1e6):
            raise WalWriteError("the disk is gone")
    assert not tenure.is_finishing
    assert tenure.end()


async def test_a_stop_that_is_cancelled_while_it_finishes_is_cancelled_and_not_out_of_time():
    tenure, _ = make_tenure()

    async def finish():
        async with tenure.finishing(1e6):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(finish())
    await asyncio.sleep(0)
    assert tenure.is_finishing
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not tenure.is_finishing


@pytest.mark.parametrize("end", ["end", "close"])
async def test_an_owner_that_ends_while_it_is_asked_is_none(end):
    """Its log may have been closed, and does not know any more."""
    tenure, wal = make_tenure()
    tenure.begin()
    await tenure.check_owner()
    wal.while_asked = getattr(tenure, end)
    with pytest.raises(ContainerOfflineError):
        await tenure.check_owner()


def test_what_has_ended_before_it_begins_accepts_nothing():
    tenure, _ = make_tenure()
    tenure.end()
    tenure.begin()
    with pytest.raises(ContainerOfflineError):
        tenure.check_online("s/a")


async def test_damage_is_believed_only_while_nobody_else_owns_the_log():
    tenure, wal = make_tenure()
    damage, failure = DataCorruptionError("a chunk is missing"), WalWriteError("the disk is gone")
    assert await tenure.judge(damage) is damage
    wal.fenced = True
    assert isinstance(await tenure.judge(damage), FencedOutError)
    assert await tenure.judge(failure) is failure


def test_a_failure_that_is_none_of_ours_is_called_unexpected():
    assert describe_failure(WalWriteError("full")) == "WalWriteError: full"
    assert describe_failure(KeyError("x")) == "unexpected KeyError: 'x'"

import asyncio

import pytest

from headrace.errors import ContainerOfflineError, DataCorruptionError, FencedOutError, WalWriteError
from headrace.segmentstore.container.ownership_term import OwnershipTerm, describe_failure

OWN = ["_system/containers/metadata_0", "_system/containers/storage_metadata_0"]


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


def make_term():
    wal = FencedLater()
    return OwnershipTerm(0, wal), wal


def test_calls_are_accepted_from_the_beginning_to_the_leave_and_only_the_first_leave_counts():
    term, _ = make_term()
    with pytest.raises(ContainerOfflineError):
        term.check_online("s/a")
    term.begin()
    term.check_online("s/a")
    assert term.go_offline()
    assert not term.go_offline()
    with pytest.raises(ContainerOfflineError):
        term.check_online("s/a")


def check_own_alone(term):
    for name in OWN:
        term.check_online(name)
    for name in ("s/a", ""):
        with pytest.raises(ContainerOfflineError):
            term.check_online(name)


@pytest.mark.parametrize("end", ["end", "close"])
def test_its_own_segments_alone_are_used_before_it_is_online_and_until_its_log_is_closed(end):
    term, _ = make_term()
    for name in OWN:
        with pytest.raises(ContainerOfflineError):
            term.check_online(name)
    term.prepare()
    check_own_alone(term)
    term.begin()
    term.check_online("s/a")
    term.go_offline()
    check_own_alone(term)
    getattr(term, end)()
    for name in (*OWN, "s/a"):
        with pytest.raises(ContainerOfflineError):
            term.check_online(name)


def test_an_owner_that_ended_before_it_was_recovered_does_not_use_its_own_segments():
    term, _ = make_term()
    term.end()
    term.prepare()
    with pytest.raises(ContainerOfflineError):
        term.check_online(OWN[0])


async def test_finishing_gives_up_after_its_limit():
    term, _ = make_term()
    with pytest.raises(TimeoutError):
        async with term.finishing(0.0):
            await asyncio.Event().wait()
    assert not term.is_finishing


async def test_the_end_of_a_tenure_ends_what_finishes_at_once_and_is_the_end_only_once():
    term, _ = make_term()
    ends = []

    async def finish():
        async with term.finishing(1e6):
            ends.extend((term.end(), term.end()))
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await finish()
    assert ends == [True, False]
    assert not term.is_finishing
    assert not term.end()


async def test_a_failure_of_the_last_work_is_told_as_it_is_and_ends_the_finishing():
    term, _ = make_term()
    with pytest.raises(WalWriteError):
        async with term.finishing(1e6):
            raise WalWriteError("the disk is gone")
    assert not term.is_finishing
    assert term.end()


async def test_a_stop_that_is_cancelled_while_it_finishes_is_cancelled_and_not_out_of_time():
    term, _ = make_term()

    async def finish():
        async with term.finishing(1e6):
            await asyncio.Event().wait()

    task = asyncio.ensure_future(finish())
    await asyncio.sleep(0)
    assert term.is_finishing
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not term.is_finishing


@pytest.mark.parametrize("end", ["end", "close"])
async def test_an_owner_that_ends_while_it_is_asked_is_none(end):
    """Its log may have been closed, and does not know any more."""
    term, wal = make_term()
    term.begin()
    await term.check_owner()
    wal.while_asked = getattr(term, end)
    with pytest.raises(ContainerOfflineError):
        await term.check_owner()


def test_what_has_ended_before_it_begins_accepts_nothing():
    term, _ = make_term()
    term.end()
    term.begin()
    with pytest.raises(ContainerOfflineError):
        term.check_online("s/a")


async def test_damage_is_believed_only_while_nobody_else_owns_the_log():
    term, wal = make_term()
    damage, failure = DataCorruptionError("a chunk is missing"), WalWriteError("the disk is gone")
    assert await term.judge(damage) is damage
    wal.fenced = True
    assert isinstance(await term.judge(damage), FencedOutError)
    assert await term.judge(failure) is failure


def test_a_failure_that_is_none_of_ours_is_called_unexpected():
    assert describe_failure(WalWriteError("full")) == "WalWriteError: full"
    assert describe_failure(KeyError("x")) == "unexpected KeyError: 'x'"

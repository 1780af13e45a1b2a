"""Commits that are asked for at the same time go together, and share their fate."""

import asyncio

import pytest

from headrace.errors import FencedOutError, StorageWriteError, WalWriteError
from headrace.storage.metadata.joint_store import JointRowStore
from headrace.testing.memory_row_store import MemoryRowStore


class GatedRowStore(MemoryRowStore):
    """Commits wait until they are let through, each for a turn of its own."""

    def __init__(self):
        super().__init__()
        self.commits = []
        self.gate = asyncio.Semaphore(0)
        self.failure = None

    async def commit(self, changes):
        self.commits.append(sorted(changes))
        await self.gate.acquire()
        if self.failure is not None:
            raise self.failure
        await super().commit(changes)


async def turns(count=5):
    for _ in range(count):
        await asyncio.sleep(0)


def commit(store, *keys):
    return asyncio.ensure_future(store.commit(dict.fromkeys(keys, b"row")))


@pytest.fixture
def rows():
    return GatedRowStore()


async def test_a_commit_that_is_alone_does_not_wait_for_company(rows):
    store = JointRowStore(rows, 10_000)
    rows.gate.release()
    await store.commit({"a": b"1"})
    assert rows.commits == [["a"]]


async def test_commits_of_one_turn_go_together(rows):
    store = JointRowStore(rows, 10_000)
    rows.gate.release()
    await asyncio.gather(*(commit(store, f"{number}", f"{number}x") for number in range(5)))
    assert len(rows.commits) == 1
    assert len(rows.rows) == 10
    assert (store.statistics.asked, store.statistics.made) == (5, 1)


async def test_what_is_asked_for_while_a_commit_is_under_way_goes_behind_it_together(rows):
    store = JointRowStore(rows, 10_000)
    first = commit(store, "a")
    await turns()
    others = [commit(store, f"b{number}") for number in range(50)]
    await turns()
    assert rows.commits == [["a"]]
    rows.gate.release()
    await first
    assert not any(other.done() for other in others)
    rows.gate.release()
    await asyncio.gather(*others)
    assert [len(keys) for keys in rows.commits] == [1, 50]


async def test_a_joint_commit_is_bounded_and_the_rest_follows_in_order(rows):
    store = JointRowStore(rows, bytes_max=100)
    tasks = [commit(store, f"{number:03}") for number in range(50)]
    large = asyncio.ensure_future(store.commit({"large": b"x" * 1000}))
    for _ in range(60):
        rows.gate.release()
    await asyncio.gather(*tasks, large)
    sizes = [len(keys) for keys in rows.commits]
    assert max(sizes) == 4
    assert sum(sizes) == 51
    assert [key for keys in rows.commits for key in keys] == [f"{number:03}" for number in range(50)] + [
        "large"
    ]


@pytest.mark.parametrize("failure", [FencedOutError("x"), WalWriteError("x")])
async def test_a_failure_is_told_to_everybody_whose_rows_it_concerns_and_to_nobody_else(rows, failure):
    store = JointRowStore(rows, 10_000)
    first = commit(store, "a")
    await turns()
    joined = [commit(store, f"b{number}") for number in range(3)]
    await turns()
    rows.gate.release()
    await first
    await turns()
    later = commit(store, "c")
    await turns()
    rows.failure = failure
    rows.gate.release()
    assert [type(found) for found in await asyncio.gather(*joined, return_exceptions=True)] == [
        type(failure)
    ] * 3
    await turns()
    rows.failure = None
    rows.gate.release()
    await later
    assert sorted(rows.rows) == ["a", "c"]


async def test_if_the_one_who_commits_is_cancelled_the_others_learn_that_the_outcome_is_unknown(rows):
    store = JointRowStore(rows, 10_000)
    leader, follower = commit(store, "a"), commit(store, "b")
    await turns()
    leader.cancel()
    with pytest.raises(StorageWriteError):
        await follower
    rows.gate.release()
    await store.commit({"c": b"3"})
    assert rows.rows["c"] == b"3"


async def test_if_one_who_only_waits_is_cancelled_nobody_else_notices(rows):
    store = JointRowStore(rows, 10_000)
    leader, gone, follower = commit(store, "a"), commit(store, "b"), commit(store, "c")
    await turns()
    gone.cancel()
    rows.gate.release()
    await asyncio.gather(leader, follower)
    assert gone.cancelled()
    assert sorted(rows.rows) == ["a", "b", "c"]


async def test_one_who_is_cancelled_before_its_turn_leaves_room_for_the_next(rows):
    store = JointRowStore(rows, 10_000)
    first = commit(store, "a")
    await turns()
    second, joined = commit(store, "b"), commit(store, "c")
    await turns()
    second.cancel()
    with pytest.raises(StorageWriteError):
        await joined
    third = commit(store, "d")
    rows.gate.release()
    rows.gate.release()
    await asyncio.gather(first, third)
    assert sorted(rows.rows) == ["a", "d"]

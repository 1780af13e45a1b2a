"""The contract of every coordinator, one test per sentence of ``headrace.coordination.contract``.

Subclass :class:`CoordinatorContract` and provide ``make`` and ``expire``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from headrace.coordination.contract import Coordinator, Session
from headrace.coordination.node import DATA_BYTES_MAX, PATH_CHARS_MAX, Node
from headrace.errors import (
    InvalidArgumentError,
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    SessionExpiredError,
)

_WAIT_S = 30.0


class CoordinatorContract:
    """One coordinator without nodes, at the start of each test."""

    async def make(self) -> Coordinator:
        raise NotImplementedError

    async def expire(self, session: Session) -> None:
        """End the session at the coordinator, without its member."""
        raise NotImplementedError

    # ---------------------------------------------------------------------------------- nodes

    async def test_what_was_created_is_read_by_every_session(self) -> None:
        one, other = await self.pair()
        assert await one.create("a/b", b"x") == "a/b"
        assert await one.read("a/b") == await other.read("a/b") == Node(b"x", 0)
        assert await other.read("a") == Node(b"", 0)

    async def test_an_absent_node_is_an_answer(self) -> None:
        session, _ = await self.pair()
        assert await session.read("a") is None
        assert await session.children("a") == []

    async def test_of_many_that_create_a_node_one_does(self) -> None:
        one, other = await self.pair()
        tries = [session.create("a/b", b"%d" % n) for n, session in enumerate((one, other) * 10)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        (winner,) = [n for n, outcome in enumerate(outcomes) if outcome == "a/b"]
        assert sum(isinstance(outcome, NodeExistsError) for outcome in outcomes) == 19
        assert await one.read("a/b") == Node(b"%d" % winner, 0)

    async def test_children_are_names_in_order(self) -> None:
        session, other = await self.pair()
        for path in ("a/c", "a/b/x", "a/d", "b/e"):
            await session.create(path, b"")
        assert await other.children("a") == ["b", "c", "d"]
        assert await other.children("a/b") == ["x"]
        assert await other.children("a/c") == []

    async def test_sequential_names_grow_and_are_never_given_again(self) -> None:
        one, other = await self.pair()
        first = await one.create("leader/n", b"1", sequential=True)
        await one.delete(first, 0)
        rest = [await session.create("leader/n", b"", sequential=True) for session in (other, one, other)]
        assert [first, *rest] == sorted({first, *rest})
        assert await one.children("leader") == [path.removeprefix("leader/") for path in rest]
        assert all(len(path) == len("leader/n") + 10 for path in rest)

    async def test_a_write_needs_the_version_that_was_read(self) -> None:
        one, other = await self.pair()
        await one.create("a", b"0")
        assert await one.write("a", b"1", 0) == 1
        with pytest.raises(MetadataConflictError):
            await other.write("a", b"2", 0)
        assert await other.read("a") == Node(b"1", 1)
        assert await other.write("a", b"2", 1) == 2

    async def test_of_many_that_write_over_a_version_one_does(self) -> None:
        one, other = await self.pair()
        await one.create("a", b"")
        tries = [session.write("a", b"%d" % n, 0) for n, session in enumerate((one, other) * 10)]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        (winner,) = [n for n, outcome in enumerate(outcomes) if outcome == 1]
        assert sum(isinstance(outcome, MetadataConflictError) for outcome in outcomes) == 19
        assert await one.read("a") == Node(b"%d" % winner, 1)

    async def test_a_delete_needs_the_version_and_no_nodes_below(self) -> None:
        one, other = await self.pair()
        await one.create("a/b", b"")
        await one.write("a/b", b"1", 0)
        for path, version in (("a", 0), ("a/b", 0), ("a/b", 2)):
            with pytest.raises(MetadataConflictError):
                await other.delete(path, version)
        await other.delete("a/b", 1)
        assert await one.children("a") == []
        await one.delete("a", 0)
        assert await other.read("a") is None

    async def test_changing_an_absent_node_says_that_it_is_absent(self) -> None:
        session, _ = await self.pair()
        with pytest.raises(NoSuchNodeError):
            await session.write("a", b"", 0)
        with pytest.raises(NoSuchNodeError):
            await session.delete("a", 0)

    async def test_bad_input_changes_nothing(self) -> None:
        session, _ = await self.pair()
        for path in ("", "/a", "a/", "a//b", "a/../b", "é", "a" * (PATH_CHARS_MAX + 1)):
            with pytest.raises(InvalidArgumentError):
                await session.create(path, b"")
            with pytest.raises(InvalidArgumentError):
                await session.read(path)
            with pytest.raises(InvalidArgumentError):
                await session.children(path)
            with pytest.raises(InvalidArgumentError):
                await session.write(path, b"", 0)
            with pytest.raises(InvalidArgumentError):
                await session.delete(path, 0)
            for watch in (session.watch, session.watch_children):
                with pytest.raises(InvalidArgumentError):
                    watch(path)
        with pytest.raises(InvalidArgumentError):
            await session.create("a/b", bytes(DATA_BYTES_MAX + 1))
        await session.create("e", b"1", ephemeral=True)
        with pytest.raises(InvalidArgumentError):
            await session.create("e/f", b"")
        with pytest.raises(InvalidArgumentError):
            await session.write("e", bytes(DATA_BYTES_MAX + 1), 0)
        assert await session.read("a") is None
        assert await session.read("e") == Node(b"1", 0)

    async def test_a_version_that_no_node_can_have_is_none(self) -> None:
        session, _ = await self.pair()
        await session.create("a", b"1")
        for version in (-1, -(2**31), 2**31, 2**64):
            with pytest.raises(InvalidArgumentError):
                await session.write("a", b"2", version)
            with pytest.raises(InvalidArgumentError):
                await session.delete("a", version)
        assert await session.read("a") == Node(b"1", 0)

    async def test_the_largest_node_is_read_as_it_was_written(self) -> None:
        one, other = await self.pair()
        data = bytes(range(256)) * (DATA_BYTES_MAX // 256)
        await one.create("a" * PATH_CHARS_MAX, data)
        assert await other.read("a" * PATH_CHARS_MAX) == Node(data, 0)
        await one.create("b", b"")
        assert await one.write("b", data, 0) == 1
        assert await other.read("b") == Node(data, 1)

    # ---------------------------------------------------------------------------------- sessions

    async def test_ephemeral_nodes_end_with_their_session_and_others_stay(self) -> None:
        for end in (self.expire, close):
            coordinator = await self.make()
            one, other = await coordinator.open(), await coordinator.open()
            await one.create("m/one", b"", ephemeral=True)
            await one.create("m/stays", b"")
            await other.create("m/other", b"", ephemeral=True)
            assert await other.children("m") == ["one", "other", "stays"]
            await end(one)
            await eventually_children(other, "m", ["other", "stays"])

    async def test_a_session_that_is_over_does_nothing_and_says_so(self) -> None:
        for end in (self.expire, close):
            coordinator = await self.make()
            session, other = await coordinator.open(), await coordinator.open()
            await other.create("a", b"")
            await end(session)
            async with asyncio.timeout(_WAIT_S):
                await eventually_expired(session)
                await session.lease.lost.wait()
            assert not session.lease.is_valid
            for call in (
                session.create("b", b""),
                session.write("a", b"1", 0),
                session.delete("a", 0),
                session.read("a"),
                session.children("a"),
            ):
                with pytest.raises(SessionExpiredError):
                    await call
            assert await other.read("a") == Node(b"", 0)
            assert await other.read("b") is None

    async def test_a_new_session_inherits_nothing(self) -> None:
        coordinator = await self.make()
        session, other = await coordinator.open(), await coordinator.open()
        await session.create("m/a", b"", ephemeral=True)
        await self.expire(session)
        await session.close()
        await session.close()
        again = await coordinator.open()
        await eventually_children(other, "m", [])
        assert again.lease.is_valid
        await again.create("m/a", b"", ephemeral=True)
        assert await other.children("m") == ["a"]

    async def test_a_lease_is_valid_while_its_session_lives(self) -> None:
        session, other = await self.pair()
        assert session.lease.is_valid
        assert not session.lease.lost.is_set()
        await other.close()
        assert session.lease.is_valid
        assert not other.lease.is_valid

    # ---------------------------------------------------------------------------------- watches

    async def test_a_watch_yields_at_once_and_after_each_kind_of_change(self) -> None:
        one, other = await self.pair()
        changes = Changes(one.watch("a/b"))
        await changes.expect()
        await other.create("a/b", b"")
        await changes.expect()
        await other.write("a/b", b"1", 0)
        await changes.expect()
        await other.delete("a/b", 1)
        await changes.expect()
        await changes.close()

    async def test_a_watch_of_children_yields_when_a_name_comes_or_goes(self) -> None:
        one, other = await self.pair()
        changes = Changes(one.watch_children("a"))
        await changes.expect()
        await other.create("a/b", b"", ephemeral=True)
        await changes.expect()
        await other.close()
        await changes.expect()
        await changes.close()

    async def test_a_watch_that_is_not_looked_at_loses_no_last_change(self) -> None:
        one, other = await self.pair()
        await other.create("a", b"")
        changes = Changes(one.watch("a"))
        await changes.expect()
        for version in range(20):
            await other.write("a", b"%d" % (version + 1), version)
        await changes.expect()
        async with asyncio.timeout(_WAIT_S):
            while (node := await one.read("a")) != Node(b"20", 20):
                assert node is not None
                await changes.expect()
        await changes.close()

    async def test_a_watch_of_the_children_of_an_absent_node_waits_for_them(self) -> None:
        one, other = await self.pair()
        changes = Changes(one.watch_children("a"))
        await changes.expect()
        for path, names in (("a", []), ("a/b", ["b"])):
            await other.create(path, b"")
            async with asyncio.timeout(_WAIT_S):
                while await one.children("a") != names:
                    await changes.expect()
        await other.delete("a/b", 0)
        await other.delete("a", 0)
        await other.create("a/c", b"")
        async with asyncio.timeout(_WAIT_S):
            while await one.children("a") != ["c"]:
                await changes.expect()
        await changes.close()

    async def test_each_watch_of_a_node_is_notified(self) -> None:
        one, other = await self.pair()
        watches = [Changes(session.watch("a")) for session in (one, one, other)]
        for changes in watches:
            await changes.expect()
        await watches.pop(0).close()
        for version in range(3):
            await (other.write("a", b"", version - 1) if version else other.create("a", b""))
            for changes in watches:
                await changes.expect()
        for changes in watches:
            await changes.close()

    async def test_a_watch_ends_with_its_session(self) -> None:
        session, _ = await self.pair()
        changes = Changes(session.watch_children("a"))
        await changes.expect()
        await self.expire(session)
        with pytest.raises(SessionExpiredError):
            async with asyncio.timeout(_WAIT_S):
                await changes.expect_forever()

    async def pair(self) -> tuple[Session, Session]:
        """Return two sessions of one coordinator."""
        coordinator = await self.make()
        return await coordinator.open(), await coordinator.open()


class Changes:
    """Takes items of a watch, one by one."""

    def __init__(self, items: AsyncIterator[None]) -> None:
        self._items = items

    async def expect(self) -> None:
        async with asyncio.timeout(_WAIT_S):
            await anext(self._items)

    async def expect_forever(self) -> None:
        while True:
            await self.expect()

    async def close(self) -> None:
        if hasattr(self._items, "aclose"):
            await self._items.aclose()


async def close(session: Session) -> None:
    await session.close()


async def eventually_expired(session: Session) -> None:
    """Wait until the member knows that its session is over."""
    while True:
        try:
            await session.read("a")
        except SessionExpiredError:
            return


async def eventually_children(session: Session, path: str, names: list[str]) -> None:
    async with asyncio.timeout(_WAIT_S):
        async for _ in session.watch_children(path):
            if await session.children(path) == names:
                return

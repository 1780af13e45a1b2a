"""The contract of every metadata store, one test per sentence.

A store is tested by a subclass of :class:`MetadataStoreContract` whose ``make`` returns an empty one.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from headrace.controller.store.contract import ABSENT, ANY, MetadataStore, Row, Write
from headrace.errors import MetadataConflictError, NoSuchTableError, TableNotEmptyError


class MetadataStoreContract:
    """Subclass it and provide :meth:`make`."""

    async def make(self) -> MetadataStore:
        raise NotImplementedError

    async def store_with(self, *rows: tuple[bytes, bytes]) -> MetadataStore:
        store = await self.make()
        await store.create_table("t")
        if rows:
            await store.update("t", [Write(key, value, ABSENT) for key, value in rows])
        return store

    async def listing(self, store: MetadataStore, page: int = 100) -> dict[bytes, bytes]:
        seen: dict[bytes, bytes] = {}
        token = b""
        while True:
            found = await store.scan("t", token, page)
            if not found.rows:
                return seen
            assert len(found.rows) <= page
            assert not seen.keys() & {key for key, _ in found.rows}
            seen.update((key, row.value) for key, row in found.rows)
            token = found.token

    # ---- tables

    async def test_a_table_that_was_not_created_is_missed_by_every_call(self) -> None:
        store = await self.make()
        with pytest.raises(NoSuchTableError):
            await store.get("t", b"k")
        with pytest.raises(NoSuchTableError):
            await store.update("t", [Write(b"k", b"v")])
        with pytest.raises(NoSuchTableError):
            await store.scan("t", b"", 10)

    async def test_creating_a_table_again_keeps_its_rows(self) -> None:
        store = await self.store_with((b"k", b"v"))
        await store.create_table("t")
        assert await self.listing(store) == {b"k": b"v"}

    async def test_deleting_a_table_twice_succeeds_and_it_is_gone(self) -> None:
        store = await self.store_with((b"k", b"v"))
        await store.delete_table("t")
        await store.delete_table("t")
        with pytest.raises(NoSuchTableError):
            await store.get("t", b"k")

    async def test_a_table_that_must_be_empty_is_not_deleted_with_rows(self) -> None:
        store = await self.store_with((b"k", b"v"))
        with pytest.raises(TableNotEmptyError):
            await store.delete_table("t", must_be_empty=True)
        assert await self.listing(store) == {b"k": b"v"}
        await store.update("t", [Write(b"k", None)])
        await store.delete_table("t", must_be_empty=True)
        with pytest.raises(NoSuchTableError):
            await store.get("t", b"k")

    async def test_deleted_rows_leave_an_empty_table_whatever_they_were_deleted_with(self) -> None:
        store = await self.store_with((b"a", b"1"), (b"b", b"2"))
        await store.update("t", [Write(b"a", None), Write(b"c", b"3")])
        await store.update("t", [Write(b"b", None), Write(b"c", None)])
        await store.delete_table("t", must_be_empty=True)

    # ---- reading and writing

    async def test_an_absent_row_is_none(self) -> None:
        store = await self.store_with()
        assert await store.get("t", b"k") is None
        assert await store.get_many("t", [b"a", b"b"]) == [None, None]

    async def test_a_row_is_read_with_the_version_its_update_returned(self) -> None:
        store = await self.store_with()
        (version,) = await store.update("t", [Write(b"k", b"v", ABSENT)])
        assert await store.get("t", b"k") == Row(b"v", version)

    async def test_many_rows_are_read_in_the_order_asked_for(self) -> None:
        store = await self.store_with((b"a", b"1"), (b"b", b"2"))
        rows = await store.get_many("t", [b"b", b"x", b"a"])
        assert [row and row.value for row in rows] == [b"2", None, b"1"]

    async def test_versions_increase_within_a_table_in_the_order_of_writes(self) -> None:
        store = await self.store_with()
        first = await store.update("t", [Write(b"a", b"1"), Write(b"b", b"2")])
        second = await store.update("t", [Write(b"b", b"3"), Write(b"a", b"4")])
        versions = first + second
        assert versions[0] >= 0
        assert all(left < right for left, right in pairwise(versions))

    async def test_a_deleted_row_is_absent_and_can_be_created_again(self) -> None:
        store = await self.store_with((b"k", b"v"))
        row = await store.get("t", b"k")
        assert row is not None
        await store.update("t", [Write(b"k", None, row.version)])
        assert await store.get("t", b"k") is None
        (version,) = await store.update("t", [Write(b"k", b"w", ABSENT)])
        assert version > row.version

    async def test_deleting_an_absent_row_unconditionally_succeeds(self) -> None:
        store = await self.store_with()
        await store.update("t", [Write(b"k", None, ANY)])
        assert await store.get("t", b"k") is None

    # ---- conditions

    async def test_a_stale_version_conflicts_and_changes_nothing(self) -> None:
        store = await self.store_with((b"k", b"v"))
        row = await store.get("t", b"k")
        assert row is not None
        await store.update("t", [Write(b"k", b"w", row.version)])
        for value in (b"x", None):
            with pytest.raises(MetadataConflictError):
                await store.update("t", [Write(b"k", value, row.version)])
        assert (await store.get("t", b"k") or row).value == b"w"

    async def test_a_row_that_must_be_absent_conflicts_with_a_present_one(self) -> None:
        store = await self.store_with((b"k", b"v"))
        with pytest.raises(MetadataConflictError):
            await store.update("t", [Write(b"k", b"w", ABSENT)])

    async def test_a_condition_on_an_absent_row_conflicts(self) -> None:
        store = await self.store_with()
        for value in (b"x", None):
            with pytest.raises(MetadataConflictError):
                await store.update("t", [Write(b"k", value, 1)])

    async def test_one_stale_row_refuses_the_whole_update(self) -> None:
        store = await self.store_with((b"a", b"1"), (b"b", b"2"))
        row = await store.get("t", b"a")
        assert row is not None
        with pytest.raises(MetadataConflictError):
            await store.update(
                "t", [Write(b"a", b"9", row.version), Write(b"c", b"9", ABSENT), Write(b"b", b"9", ABSENT)]
            )
        assert await self.listing(store) == {b"a": b"1", b"b": b"2"}

    async def test_an_update_that_puts_and_deletes_does_both_or_neither(self) -> None:
        store = await self.store_with((b"a", b"1"), (b"b", b"2"))
        with pytest.raises(MetadataConflictError):
            await store.update("t", [Write(b"a", None), Write(b"b", b"3", ABSENT)])
        assert await self.listing(store) == {b"a": b"1", b"b": b"2"}
        await store.update("t", [Write(b"a", None), Write(b"b", b"3"), Write(b"c", b"4", ABSENT)])
        assert await self.listing(store) == {b"b": b"3", b"c": b"4"}

    async def test_a_row_deleted_beside_a_put_can_be_created_again(self) -> None:
        store = await self.store_with((b"a", b"1"))
        await store.update("t", [Write(b"a", None), Write(b"b", b"2")])
        await store.update("t", [Write(b"a", b"3", ABSENT)])
        assert await self.listing(store) == {b"a": b"3", b"b": b"2"}

    # ---- at the same time

    async def test_of_many_that_create_a_row_at_once_exactly_one_wins(self) -> None:
        store = await self.store_with()
        outcomes = await asyncio.gather(
            *(store.update("t", [Write(b"k", b"%d" % n, ABSENT)]) for n in range(20)), return_exceptions=True
        )
        winners = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, BaseException)]
        assert len(winners) == 1
        losers = [each for n, each in enumerate(outcomes) if n != winners[0]]
        assert all(isinstance(each, MetadataConflictError) for each in losers)
        row = await store.get("t", b"k")
        assert row == Row(b"%d" % winners[0], outcomes[winners[0]][0])  # type: ignore[index]

    async def test_a_conflict_harms_none_of_the_updates_made_at_the_same_time(self) -> None:
        store = await self.store_with((b"taken", b"v"))
        outcomes = await asyncio.gather(
            *(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(10)),
            store.update("t", [Write(b"taken", b"w", ABSENT)]),
            *(store.update("t", [Write(b"%d" % n, b"v", ABSENT)]) for n in range(10, 20)),
            return_exceptions=True,
        )
        assert [n for n, outcome in enumerate(outcomes) if isinstance(outcome, BaseException)] == [10]
        assert len(await self.listing(store)) == 21

    async def test_updates_of_one_row_at_once_count_every_success(self) -> None:
        store = await self.store_with((b"n", b"0"))

        async def increment() -> None:
            while True:
                row = await store.get("t", b"n")
                assert row is not None
                try:
                    await store.update("t", [Write(b"n", b"%d" % (int(row.value) + 1), row.version)])
                except MetadataConflictError:
                    continue
                return

        await asyncio.gather(*(increment() for _ in range(20)))
        assert await self.listing(store) == {b"n": b"20"}

    # ---- listing

    async def test_pages_show_every_row_exactly_once(self) -> None:
        rows = [(b"key-%04d" % n, b"value-%d" % n) for n in range(257)]
        store = await self.store_with(*rows)
        for page in (1, 7, 256, 257, 1000):
            assert await self.listing(store, page) == dict(rows)

    async def test_an_exhausted_token_answers_an_empty_page_again_and_again(self) -> None:
        store = await self.store_with((b"a", b"1"))
        found = await store.scan("t", b"", 10)
        for _ in range(2):
            after = await store.scan("t", found.token, 10)
            assert after.rows == []
            found = after if after.token else found

    async def test_rows_that_stay_are_seen_once_while_others_come_and_go(self) -> None:
        stay = {b"stay-%03d" % n: b"v" for n in range(100)}
        store = await self.store_with(*stay.items(), *((b"go-%03d" % n, b"v") for n in range(100)))
        seen: list[bytes] = []
        token, page_number = b"", 0
        while (page := await store.scan("t", token, 10)).rows:
            seen += [key for key, _ in page.rows if key in stay]
            token = page.token
            suffix = b"%03d" % page_number
            await store.update("t", [Write(b"go-" + suffix, None), Write(b"new-" + suffix, b"v")])
            page_number += 1
            assert page_number < 100
        assert sorted(seen) == sorted(stay)

    async def test_large_rows_and_strange_keys_survive(self) -> None:
        rows = {bytes(range(256)): b"\x00", b"\x00": b"x" * 500_000, b"\xff" * 300: b"\xff"}
        store = await self.store_with(*rows.items())
        assert await self.listing(store) == rows

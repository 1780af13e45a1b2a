"""The contract of every row store, one test per sentence of ``headrace.storage.metadata.contract``.

Subclass :class:`RowStoreContract` and provide ``make``; ``reopen`` too if what was committed outlives an
instance.
"""

from __future__ import annotations

import asyncio

from headrace.storage.metadata.contract import RowStore


class RowStoreContract:
    """One store without rows, at the start of each test."""

    async def make(self) -> RowStore:
        raise NotImplementedError

    async def reopen(self, store: RowStore) -> RowStore:
        """Return a store that has what ``store`` had committed, as after a restart."""
        return store

    async def test_a_row_that_was_never_put_is_none(self) -> None:
        store = await self.make()
        assert store.get("k") is None
        assert list(store.keys("")) == []

    async def test_committed_rows_are_read_back_byte_for_byte(self) -> None:
        store = await self.make()
        rows = {"a": b"1", "b/ü☃": b"", "c": bytes(range(256)), "d" * 900: b"x" * 5000}
        await store.commit(rows)
        for again in (store, await self.reopen(store)):
            assert {key: again.get(key) for key in rows} == rows

    async def test_a_commit_puts_replaces_and_deletes_together(self) -> None:
        store = await self.make()
        await store.commit({"replaced": b"old", "deleted": b"old", "kept": b"old"})
        await store.commit({"replaced": b"new", "deleted": None, "added": b"new", "never there": None})
        for again in (store, await self.reopen(store)):
            assert again.keys("") == ["added", "kept", "replaced"]
            assert [again.get(key) for key in again.keys("")] == [b"new", b"old", b"new"]
            assert again.get("deleted") is None

    async def test_deleting_what_is_not_there_and_committing_nothing_is_fine(self) -> None:
        store = await self.make()
        await store.commit({"k": None})
        await store.commit({})
        assert store.keys("") == []

    async def test_keys_are_those_with_the_prefix_in_order(self) -> None:
        store = await self.make()
        await store.commit(dict.fromkeys(["s/b", "s/a", "c/a", "s", "s/a/x", "t"], b""))
        assert store.keys("s/") == ["s/a", "s/a/x", "s/b"]
        assert store.keys("s") == ["s", "s/a", "s/a/x", "s/b"]
        assert store.keys("x") == []
        assert len(store.keys("")) == 6

    async def test_a_store_keeps_its_own_copy_of_what_was_committed(self) -> None:
        store = await self.make()
        changes: dict[str, bytes | None] = {"k": b"1"}
        await store.commit(changes)
        changes["k"] = b"2"
        changes["l"] = b"3"
        assert store.get("k") == b"1"
        assert store.get("l") is None

    async def test_commits_at_the_same_time_all_happen(self) -> None:
        store = await self.make()
        await asyncio.gather(*(store.commit({f"k/{n:03}": b"%d" % n, "last": b"%d" % n}) for n in range(50)))
        for again in (store, await self.reopen(store)):
            assert len(again.keys("k/")) == 50
            assert again.get("last") in {b"%d" % n for n in range(50)}

    async def test_ten_thousand_rows_in_one_commit_are_all_there(self) -> None:
        store = await self.make()
        await store.commit({f"k/{n}": b"%d" % n for n in range(10_000)})
        assert len(store.keys("k/")) == 10_000
        await store.commit({f"k/{n}": None for n in range(10_000)})
        assert (await self.reopen(store)).keys("") == []

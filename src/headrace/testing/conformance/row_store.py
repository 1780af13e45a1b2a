"""The contract of every row store, one test per sentence of ``headrace.storage.metadata.contract``.

Subclass :class:`RowStoreContract` and provide ``make``; ``reopen`` too if what was committed outlives an
instance.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from headrace.storage.metadata.contract import RowStore, with_rows


async def read(store: RowStore, *keys: str) -> list[bytes | None]:
    """Return rows, loaded if they are not in memory."""
    return await with_rows(store.load, lambda: [store.get(key) for key in keys])


class RowStoreContract:
    """One store without rows, at the start of each test."""

    async def make(self) -> RowStore:
        raise NotImplementedError

    async def reopen(self, store: RowStore) -> RowStore:
        """Return a store that has what ``store`` had committed, as after a restart."""
        return store

    async def owners(self, store: RowStore) -> AsyncIterator[RowStore]:
        """Yield the store, and then what has the same rows after a restart."""
        yield store
        yield await self.reopen(store)

    async def test_a_row_that_was_never_put_is_none(self) -> None:
        store = await self.make()
        assert await read(store, "k") == [None]
        assert await store.find_existing(["k"]) == set()

    async def test_committed_rows_are_read_back_byte_for_byte(self) -> None:
        store = await self.make()
        rows = {"a": b"1", "b/ü☃": b"", "c": bytes(range(256)), "d" * 900: b"x" * 5000}
        await store.commit(rows)
        async for again in self.owners(store):
            assert await read(again, *rows) == list(rows.values())

    async def test_a_commit_puts_replaces_and_deletes_together(self) -> None:
        store = await self.make()
        await store.commit({"replaced": b"old", "deleted": b"old", "kept": b"old"})
        await store.commit({"replaced": b"new", "deleted": None, "added": b"new", "never there": None})
        async for again in self.owners(store):
            keys = ["added", "kept", "replaced", "deleted", "never there"]
            assert await again.find_existing(keys) == set(keys[:3])
            assert await read(again, *keys) == [b"new", b"old", b"new", None, None]

    async def test_deleting_what_is_not_there_and_committing_nothing_is_fine(self) -> None:
        store = await self.make()
        await store.commit({"k": None})
        await store.commit({})
        assert await read(store, "k") == [None]

    async def test_rows_that_are_loaded_are_there_at_once(self) -> None:
        store = await self.make()
        await store.commit({f"k/{n}": b"%d" % n for n in range(300)})
        again = await self.reopen(store)
        for _ in range(3):
            keys = [f"k/{n}" for n in range(20)]
            await again.load(keys)
            assert [again.get(key) for key in keys] == [b"%d" % n for n in range(20)]

    async def test_a_store_keeps_its_own_copy_of_what_was_committed(self) -> None:
        store = await self.make()
        changes: dict[str, bytes | None] = {"k": b"1"}
        await store.commit(changes)
        changes["k"] = b"2"
        changes["l"] = b"3"
        assert await read(store, "k", "l") == [b"1", None]

    async def test_commits_at_the_same_time_all_happen(self) -> None:
        store = await self.make()
        await asyncio.gather(*(store.commit({f"k/{n:03}": b"%d" % n, "last": b"%d" % n}) for n in range(50)))
        async for again in self.owners(store):
            assert len(await again.find_existing([f"k/{n:03}" for n in range(50)])) == 50
            assert set(await read(again, "last")) <= {b"%d" % n for n in range(50)}

    async def test_ten_thousand_rows_in_one_commit_are_all_there(self) -> None:
        store = await self.make()
        await store.commit({f"k/{n}": b"%d" % n for n in range(10_000)})
        keys = [f"k/{n}" for n in range(10_000)]
        assert len(await store.find_existing(keys)) == 10_000
        await store.commit(dict.fromkeys(keys))
        assert await (await self.reopen(store)).find_existing(keys) == set()

"""A log can be copied while it grows, and while it is cut."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from headrace.errors import SnapshotLostError
from headrace.testing.conformance.wal.log_use import WalKit, append_all, numbered
from headrace.wal.contract import Wal


async def _copy(wal: Wal) -> list[bytes]:
    copied: list[bytes] = []
    async with aclosing(wal.copy_records()) as pieces:
        async for piece in pieces:
            copied += piece
    return copied


class CopyRules(WalKit):
    """What a copy has, whatever happens meanwhile."""

    async def test_a_new_log_has_an_empty_copy(self) -> None:
        wal = await self.open_wal()
        assert await _copy(wal) == []
        await wal.close()

    async def test_a_copy_has_everything_that_was_acknowledged_before_it_and_is_not_truncated(self) -> None:
        wal = await self.open_wal()
        addresses = (await append_all(wal, numbered(30))).addresses
        assert await _copy(wal) == numbered(30)
        await wal.truncate(addresses[20])
        assert await _copy(wal) == numbered(30)[20:]
        await wal.close()
        again = await self.open_wal()
        await append_all(again, numbered(10, start=30))
        assert await _copy(again) == numbered(40)[20:]
        await again.close()

    async def test_a_copy_of_a_log_that_grows_is_a_prefix_of_it(self) -> None:
        wal = await self.open_wal()
        await append_all(wal, numbered(20))
        appending = asyncio.ensure_future(append_all(wal, numbered(60, start=20)))
        lengths = []
        while not appending.done():
            copied = await _copy(wal)
            assert copied == numbered(80)[: len(copied)]
            lengths.append(len(copied))
            await asyncio.sleep(0)
        assert lengths == sorted(lengths)
        assert lengths[0] >= 20
        assert await _copy(wal) == numbered(80)
        await wal.close()

    async def test_a_copy_of_a_log_that_is_cut_is_whole_or_lost(self) -> None:
        wal = await self.open_wal()
        addresses = (await append_all(wal, numbered(60))).addresses
        for index in range(0, 60, 4):
            cutting = asyncio.ensure_future(wal.truncate(addresses[index]))
            try:
                copied = await _copy(wal)
            except SnapshotLostError:
                copied = numbered(60)[index:]
            await cutting
            assert copied == numbered(60)[60 - len(copied) :]
            assert len(copied) >= 60 - index
        await wal.close()

    async def test_a_copy_that_is_given_up_prevents_nothing(self) -> None:
        wal = await self.open_wal()
        await append_all(wal, numbered(20))
        async with aclosing(wal.copy_records()) as pieces:
            async for _ in pieces:
                break
        await append_all(wal, numbered(5, start=20))
        await wal.close()

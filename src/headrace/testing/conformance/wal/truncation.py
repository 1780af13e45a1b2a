"""A log is cut from its beginning, at any address, at any time."""

from __future__ import annotations

import asyncio

from headrace.testing.conformance.wal.log_use import WalKit, append_all, numbered, read_all, read_contents


class TruncationRules(WalKit):
    """What truncation retains and drops."""

    async def test_the_log_can_be_cut_at_every_address_and_opened_after_each(self) -> None:
        wal = await self.open_wal()
        contents = numbered(23)
        addresses = (await append_all(wal, contents)).addresses
        for index, address in enumerate([*addresses, addresses[-1] + 1]):
            await wal.truncate(address)
            await wal.close()
            wal = await self.open_wal()
            assert await read_all(wal) == list(zip(addresses, contents, strict=True))[index:]
        await wal.close()

    async def test_the_log_can_be_cut_while_it_grows(self) -> None:
        wal = await self.open_wal()
        first = await append_all(wal, numbered(30))
        appending = asyncio.ensure_future(append_all(wal, numbered(60, start=30)))
        for address in first.addresses[::5]:
            await wal.truncate(address)
        assert (await appending).errors == [None] * 60
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(90)[25:]
        await again.close()

    async def test_truncated_records_do_not_come_back(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(200))
        await wal.truncate(appended.addresses[150])
        await wal.close()
        again = await self.open_wal()
        records = await read_all(again)
        assert [content for address, content in records if address >= appended.addresses[150]] == numbered(
            200
        )[150:]
        assert records[0][0] >= appended.addresses[150]
        await again.close()

    async def test_what_truncations_have_freed_can_be_removed(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(200))
        await wal.truncate(appended.addresses[150])
        count = 200
        while not await wal.purge_freed():
            assert count < 210
            await wal.separate()
            more = await append_all(wal, numbered(1, start=count))
            await wal.truncate(more.addresses[0])
            count += 1
        await append_all(wal, numbered(50, start=count))
        await wal.close()
        again = await self.open_wal()
        kept = await read_contents(again)
        assert kept == numbered(count + 50)[-len(kept) :]
        assert len(kept) >= 50
        await again.close()

    async def test_truncating_everything_leaves_a_log_that_goes_on(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(100))
        await wal.truncate(appended.addresses[-1] + 1)
        await wal.close()
        again = await self.open_wal()
        assert await read_all(again) == []
        more = await append_all(again, numbered(3, start=100))
        assert more.addresses[0] > appended.addresses[-1]
        await again.close()
        last = await self.open_wal()
        assert await read_contents(last) == numbered(3, start=100)
        await last.close()

    async def test_truncating_again_or_lower_or_too_high_does_no_harm(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(20))
        await wal.truncate(appended.addresses[10])
        await wal.truncate(appended.addresses[10])
        await wal.truncate(appended.addresses[3])
        await wal.truncate(0)
        await append_all(wal, numbered(1, start=20))
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(21)[10:]
        await again.truncate(appended.addresses[-1] + 1_000_000)
        await append_all(again, numbered(1, start=21))
        await again.close()
        last = await self.open_wal()
        assert await read_contents(last) == numbered(1, start=21)
        await last.close()

    async def test_a_log_that_is_truncated_as_it_grows_stays_small(self) -> None:
        wal = await self.open_wal()
        sizes = []
        for start in range(0, 400, 40):
            appended = await append_all(wal, numbered(40, start=start))
            await wal.truncate(appended.addresses[-1])
            sizes.append(wal.statistics().log_bytes)
        assert max(sizes[5:]) <= max(sizes[:5]) + self.truncation_granularity_bytes
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(1, start=399)
        await again.close()

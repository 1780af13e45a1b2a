"""What was acknowledged is read: every record, whole, in order, at its address."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from headrace.testing.conformance.wal.log_use import WalKit, append_all, numbered, read_all, read_contents


class RecordRules(WalKit):
    """Records, and the end of a log's use."""

    async def test_a_new_log_is_empty(self) -> None:
        wal = await self.open_wal()
        assert await read_all(wal) == []
        await wal.close()

    async def test_records_come_back_in_order_with_their_addresses(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(20))
        await wal.close()
        again = await self.open_wal()
        assert await read_all(again) == list(zip(appended.addresses, appended.contents, strict=True))
        await again.close()

    async def test_records_survive_an_owner_that_never_closed(self) -> None:
        first = await self.open_wal()
        await append_all(first, numbered(20))
        second = await self.open_wal()
        assert await read_contents(second) == numbered(20)
        await second.close()
        await first.close()

    async def test_the_log_continues_behind_what_was_recovered(self) -> None:
        contents = numbered(30)
        addresses: list[int] = []
        for start in range(0, 30, 10):
            wal = await self.open_wal()
            assert await read_contents(wal) == contents[:start]
            addresses += (await append_all(wal, contents[start : start + 10])).addresses
            await wal.close()
        wal = await self.open_wal()
        assert await read_all(wal) == list(zip(addresses, contents, strict=True))
        assert addresses == sorted(set(addresses))
        await wal.close()

    @pytest.mark.parametrize("length", [0, 1, 63, 255])
    async def test_every_length_comes_back(self, length: int) -> None:
        wal = await self.open_wal()
        await append_all(wal, [bytes(range(length))])
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == [bytes(range(length))]
        await again.close()

    async def test_a_full_frame_comes_back(self) -> None:
        wal = await self.open_wal()
        content = bytes(i & 255 for i in range(wal.frame_bytes_max))
        await append_all(wal, [content] * 3)
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == [content] * 3
        await again.close()

    async def test_a_reused_frame_shows_nothing_of_its_past(self) -> None:
        wal = await self.open_wal()
        contents = [b"x" * 200, b"", b"y", b"z" * 100, b"12"]
        await append_all(wal, contents)
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == contents
        await again.close()

    async def test_records_can_be_given_up_halfway(self) -> None:
        wal = await self.open_wal()
        await append_all(wal, numbered(10))
        await wal.close()
        again = await self.open_wal()
        async with aclosing(again.records()) as records:
            async for record in records:
                if bytes(record.payload) == numbered(10)[4]:
                    break
        assert (await append_all(again, numbered(1, start=10))).errors == [None]
        await again.close()
        last = await self.open_wal()
        assert await read_contents(last) == numbered(11)
        await last.close()

    # ---- ending

    async def test_close_answers_what_is_in_flight_and_may_be_called_again(self) -> None:
        wal = await self.open_wal()
        answers: list[Exception | None] = []
        frames = [frame for frame in (wal.acquire_frame(), wal.acquire_frame()) if frame is not None]
        for frame in frames:
            wal.append(frame, lambda _frame, error: answers.append(error))
        await wal.close()
        assert answers == [None, None]
        await wal.close()

    async def test_close_without_open_is_harmless(self) -> None:
        await self.make_wal().close()

"""One owner at a time: the last one to open fences all former ones."""

from __future__ import annotations

import asyncio

import pytest

from headrace.errors import FencedOutError
from headrace.testing.conformance.wal.log_use import WalKit, append_all, numbered, read_contents
from headrace.wal.contract import Wal


class OwnershipRules(WalKit):
    """Epochs and fencing."""

    async def test_every_open_has_a_higher_epoch(self) -> None:
        epochs = []
        for _ in range(5):
            wal = await self.open_wal()
            epochs.append(wal.epoch)
            await wal.close()
        assert epochs == sorted(set(epochs))
        assert epochs[0] >= 1

    async def test_a_fenced_owner_fails_at_its_next_append_and_stays_failed(self) -> None:
        old = await self.open_wal()
        await append_all(old, numbered(5))
        new = await self.open_wal()
        for _ in range(2):
            appended = await append_all(old, numbered(3, start=100))
            assert [type(error) for error in appended.errors] == [FencedOutError] * 3
        assert (await read_contents(new))[:5] == numbered(5)
        await new.close()
        await old.close()

    async def test_an_owner_can_ask_whether_it_was_fenced_and_knows_as_soon_as_the_newer_one_is_open(
        self,
    ) -> None:
        old = await self.open_wal()
        assert not await old.is_fenced()
        new = await self.open_wal()
        assert await old.is_fenced()
        assert not await new.is_fenced()
        await old.close()
        await new.close()
        assert not await new.is_fenced()

    async def test_a_frame_in_flight_while_the_owner_changes_is_never_acknowledged_and_lost(self) -> None:
        old = await self.open_wal()
        frames = [frame for frame in (old.acquire_frame(), old.acquire_frame()) if frame is not None]
        answers: list[Exception | None] = []
        for number, frame in enumerate(frames):
            frame.view[:1] = b"%d" % number
            frame.length = 1
            old.append(frame, lambda _frame, error: answers.append(error))
        new = await self.open_wal()
        recovered = await read_contents(new)
        await append_all(new, [b"new"])
        await old.close()
        acknowledged = sum(error is None for error in answers)
        assert len(answers) == 2
        assert all(error is None or isinstance(error, FencedOutError) for error in answers)
        assert recovered == [b"0", b"1"][: len(recovered)]
        assert acknowledged <= len(recovered)
        await new.close()
        last = await self.open_wal()
        assert await read_contents(last) == [*recovered, b"new"]
        await last.close()

    async def test_what_a_fenced_owner_tried_to_write_is_not_in_the_log(self) -> None:
        old = await self.open_wal()
        await append_all(old, numbered(5))
        new = await self.open_wal()
        recovered = await read_contents(new)
        await append_all(old, [b"stale"] * 3)
        await append_all(new, [b"fresh"])
        await append_all(old, [b"stale"] * 3)
        await old.close()
        await new.close()
        last = await self.open_wal()
        assert await read_contents(last) == [*recovered, b"fresh"]
        await last.close()

    async def test_a_fenced_owner_cannot_truncate(self) -> None:
        old = await self.open_wal()
        appended = await append_all(old, numbered(5))
        new = await self.open_wal()
        with pytest.raises(FencedOutError):
            await old.truncate(appended.addresses[-1])
        assert await read_contents(new) == numbered(5)
        await old.close()
        await new.close()

    async def test_of_many_openers_at_once_one_can_append(self) -> None:
        wals = [self.make_wal() for _ in range(5)]
        results = await asyncio.gather(*(wal.open() for wal in wals), return_exceptions=True)
        opened = [wal for wal, result in zip(wals, results, strict=True) if result is None]
        assert all(result is None or isinstance(result, FencedOutError) for result in results)
        assert len({wal.epoch for wal in opened}) == len(opened)
        winners = []
        for wal in opened:
            appended = await append_all(wal, [b"x"])
            winners += [wal] if appended.errors == [None] else []
        assert winners == [max(opened, key=lambda wal: wal.epoch)]
        for wal in wals:
            await wal.close()

    async def test_owners_that_overlap_hand_the_log_on_whole(self) -> None:
        owners: list[Wal] = []
        expected: list[bytes] = []
        for round_number in range(5):
            wal = await self.open_wal()
            assert await read_contents(wal) == expected
            owners.append(wal)
            appended = await append_all(wal, numbered(7, start=100 * round_number))
            assert appended.errors == [None] * 7
            expected += appended.contents
            for former in owners[:-1]:
                refused = await append_all(former, [b"late"])
                assert [type(error) for error in refused.errors] == [FencedOutError]
        for wal in owners:
            await wal.close()
        last = await self.open_wal()
        assert await read_contents(last) == expected
        await last.close()

    async def test_an_owner_may_be_replaced_before_it_has_read_or_written_anything(self) -> None:
        first = await self.open_wal()
        appended = await append_all(first, numbered(5))
        second, third = await self.open_wal(), await self.open_wal()
        assert await read_contents(third) == appended.contents
        refused = await append_all(second, [b"late"])
        assert [type(error) for error in refused.errors] == [FencedOutError]
        more = await append_all(third, [b"next"])
        assert more.addresses[0] > appended.addresses[-1]
        for wal in (second, third, first):
            await wal.close()
        last = await self.open_wal()
        assert await read_contents(last) == [*numbered(5), b"next"]
        await last.close()

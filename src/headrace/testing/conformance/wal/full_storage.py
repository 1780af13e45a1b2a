"""Frames wait while the disk is full, and none is lost."""

from __future__ import annotations

import asyncio

import pytest

from headrace.errors import FencedOutError, StorageFullError
from headrace.testing.conformance.wal.log_use import Appended, WalKit, append_all, numbered, read_contents
from headrace.wal.contract import Wal


class FullStorageRules(WalKit):
    """Space that is exhausted and then free again."""

    async def _fill_up(self, wal: Wal) -> asyncio.Task[Appended]:
        """Append until the log waits for space; return the task that waits for its answers."""
        await append_all(wal, numbered(5))
        if not self.fill_storage():
            await wal.close()
            pytest.skip("this storage cannot be filled")
        loop = asyncio.get_running_loop()
        appending = loop.create_task(append_all(wal, numbered(200, start=5)))
        deadline = loop.time() + 20
        while not wal.statistics().space_waiting:
            assert not appending.done(), "the storage was not full"
            assert loop.time() < deadline
            await asyncio.sleep(0.001)
        return appending

    async def test_full_storage_holds_frames_up_until_there_is_room(self) -> None:
        wal = await self.open_wal()
        appending = await self._fill_up(wal)
        await asyncio.sleep(0.02)
        assert not appending.done()
        statistics = wal.statistics()
        assert statistics.space_waits >= 1
        assert 1 <= statistics.frames_queued <= statistics.frames_in_flight
        self.free_storage()
        assert (await appending).errors == [None] * 200
        assert wal.statistics().space_waiting == 0
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(205)
        await again.close()

    async def test_truncation_goes_on_while_storage_is_full(self) -> None:
        wal = await self.open_wal()
        first = await append_all(wal, numbered(5))
        appending = await self._fill_up(wal)
        await wal.truncate(first.addresses[-1] + 1)
        self.free_storage()
        assert (await appending).errors == [None] * 200
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(205)
        await again.close()

    @pytest.mark.parametrize("end", ["stop_waiting", "close"])
    async def test_frames_that_nobody_waits_for_any_more_are_answered_typed(self, end: str) -> None:
        wal = await self.open_wal()
        appending = await self._fill_up(wal)
        acknowledged = wal.statistics().frames_written
        if end == "stop_waiting":
            wal.stop_waiting()
            errors = (await appending).errors
            assert {type(error) for error in errors} - {type(None)} == {StorageFullError}
            assert errors == sorted(errors, key=lambda error: error is not None)  # none is skipped
            await wal.close()
        else:
            await wal.close()
            assert wal.statistics().frames_in_flight == 0
            appending.cancel()
            await asyncio.gather(appending, return_exceptions=True)
        self.free_storage()
        again = await self.open_wal()
        contents = await read_contents(again)
        assert contents == numbered(len(contents))
        assert len(contents) >= acknowledged
        assert (await append_all(again, [b"goes on"])).errors == [None]
        await again.close()

    async def test_an_owner_that_waits_for_room_notices_its_successor(self) -> None:
        old = await self.open_wal()
        appending = await self._fill_up(old)
        self.free_storage()
        new = await self.open_wal()
        recovered = await read_contents(new)
        errors = (await appending).errors
        acknowledged = errors.count(None)
        assert {type(error) for error in errors} - {type(None)} == {FencedOutError}
        assert recovered == numbered(len(recovered))
        assert len(recovered) >= 5 + acknowledged
        await append_all(new, [b"new"])
        await old.close()
        await new.close()
        last = await self.open_wal()
        assert await read_contents(last) == [*recovered, b"new"]
        await last.close()

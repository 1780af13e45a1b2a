"""Frames are lent, answered and released; statistics say how many and how fast."""

from __future__ import annotations

import asyncio

from headrace.runtime.latency import LATENCY_EDGES_S
from headrace.testing.conformance.wal.log_use import WalKit, append_all, numbered, read_all, read_contents
from headrace.wal.contract import WalFrame


class FrameRules(WalKit):
    """Answers, frames, statistics."""

    # ---- answers

    async def test_answers_come_in_the_order_of_submission(self) -> None:
        wal = await self.open_wal()
        appended = await append_all(wal, numbered(200))
        assert appended.contents == numbered(200)
        assert appended.errors == [None] * 200
        assert appended.addresses == sorted(set(appended.addresses))
        await wal.close()

    async def test_an_answer_never_comes_from_within_append(self) -> None:
        wal = await self.open_wal()
        answers: list[Exception | None] = []
        frame = wal.acquire_frame()
        assert frame is not None
        wal.append(frame, lambda _frame, error: answers.append(error))
        assert answers == []
        await wal.close()
        assert answers == [None]
        wal.release_frame(frame)

    async def test_appending_from_an_answer_is_allowed(self) -> None:
        wal = await self.open_wal()
        left = numbered(50)
        finished = asyncio.get_running_loop().create_future()

        def give(frame: WalFrame, _error: Exception | None = None) -> None:
            if not left:
                wal.release_frame(frame)
                finished.set_result(None)
                return
            content = left.pop(0)
            frame.view[: len(content)] = content
            frame.length = len(content)
            wal.append(frame, give)

        frame = wal.acquire_frame()
        assert frame is not None
        give(frame)
        await finished
        await wal.close()
        again = await self.open_wal()
        assert await read_contents(again) == numbered(50)
        await again.close()

    # ---- lending

    async def test_frames_are_bounded_and_their_return_is_announced(self) -> None:
        wal = await self.open_wal()
        returned: list[bool] = []
        wal.set_on_frame_free(lambda: returned.append(True))
        frames = []
        while (frame := wal.acquire_frame()) is not None:
            frames.append(frame)
            assert len(frames) <= 10_000
        assert wal.statistics().frames_free == 0
        wal.release_frame(frames.pop())
        assert returned == [True]
        assert wal.acquire_frame() is not None
        assert wal.acquire_frame() is None
        wal.set_on_frame_free(None)
        await wal.close()

    async def test_frames_that_are_prepared_are_not_lent(self) -> None:
        wal = await self.open_wal()
        free = wal.frames_free
        for count in (0, 1, 2 * free):
            wal.prepare_frames(count)
            assert wal.frames_free == free
        assert len([True for _ in range(2 * free) if wal.acquire_frame() is not None]) == free
        await wal.close()

    async def test_a_frame_may_be_appended_again_and_becomes_another_record(self) -> None:
        wal = await self.open_wal()
        frame = wal.acquire_frame()
        assert frame is not None
        frame.view[:3] = b"two"
        frame.length = 3
        addresses = []
        errors: list[Exception | None] = []
        answered = asyncio.Event()

        def done(_frame: WalFrame, error: Exception | None) -> None:
            errors.append(error)
            answered.set()

        for _ in range(3):
            answered.clear()
            wal.append(frame, done)
            addresses.append(frame.address)
            await answered.wait()
        assert errors == [None] * 3
        wal.release_frame(frame)
        await append_all(wal, [b"two"] * 3)
        await wal.close()
        again = await self.open_wal()
        records = await read_all(again)
        assert [content for _, content in records] == [b"two"] * 6
        assert [address for address, _ in records[:3]] == addresses == sorted(set(addresses))
        await again.close()

    async def test_slots_are_taken_by_frames_in_flight_and_come_back(self) -> None:
        wal = await self.open_wal()
        slots = wal.slots_free
        assert slots >= 1
        frame = wal.acquire_frame()
        assert frame is not None
        answered = asyncio.get_running_loop().create_future()
        wal.append(frame, lambda _frame, error: answered.set_result(error))
        assert wal.slots_free == slots - 1
        assert wal.statistics().frames_in_flight == 1
        assert await answered is None
        assert wal.slots_free == slots
        wal.release_frame(frame)
        await wal.close()

    async def test_statistics_count_what_was_written(self) -> None:
        wal = await self.open_wal()
        await append_all(wal, numbered(10))
        statistics = wal.statistics()
        assert statistics.frames_written == 10
        assert statistics.bytes_written == sum(map(len, numbered(10)))
        assert statistics.frames_in_flight == 0
        assert statistics.log_bytes >= statistics.bytes_written
        assert statistics.write_seconds_total >= statistics.write_seconds_max >= 0
        assert statistics.write_seconds_max >= statistics.write_seconds_last >= 0
        assert wal.write_seconds_last == statistics.write_seconds_last
        assert len(statistics.write_by_bucket) == len(LATENCY_EDGES_S) + 1
        assert sum(statistics.write_by_bucket) == 10
        assert sum(statistics.disk_by_bucket) == statistics.disk_writes <= 10
        assert (statistics.space_waits, statistics.space_waiting) == (0, 0)
        await append_all(wal, numbered(1))
        assert statistics.frames_written == sum(statistics.write_by_bucket) == 10  # they are of that moment
        await wal.close()

    async def test_statistics_show_the_queue(self) -> None:
        wal = await self.open_wal()
        free = wal.frames_free
        assert wal.statistics().frames_free == free >= 3
        frames = [wal.acquire_frame() for _ in range(3)]
        assert wal.frames_free == wal.statistics().frames_free == free - 3
        for number, frame in enumerate(frames, start=1):
            assert frame is not None
            frame.length = 10 * number
            wal.append(frame, lambda frame, _error: wal.release_frame(frame))
        statistics = wal.statistics()
        assert (statistics.frames_in_flight, statistics.bytes_in_flight) == (3, 60)
        assert 0 <= statistics.frames_queued <= 3
        await wal.close()
        statistics = wal.statistics()
        assert (statistics.frames_in_flight, statistics.frames_queued, statistics.bytes_in_flight) == (
            0,
            0,
            0,
        )
        assert wal.frames_free == free

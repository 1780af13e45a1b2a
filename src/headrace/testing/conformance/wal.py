"""What every write-ahead log must do: one method per sentence of ``headrace.wal.contract``.

Subclass, override :meth:`WalContract.make_wal`, and let pytest collect the class::

    class TestMemoryWal(WalContract):
        def make_wal(self) -> Wal:
            return MemoryWal(self.store, "log")

Each call must return a new, unopened instance on the *same* log, with frames of at least 256 bytes and at
least three of them. Storage belongs to one test: make it in a fixture of the subclass. Where it can be
filled, override :meth:`WalContract.fill_storage` and :meth:`WalContract.make_room` too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from headrace.errors import FencedOutError, StorageFullError
from headrace.wal.contract import LATENCY_EDGES_S, Wal, WalFrame


@dataclass
class Appended:
    """What became of frames given to a log."""

    addresses: list[int] = field(default_factory=list)
    errors: list[Exception | None] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)

    @property
    def acknowledged(self) -> list[bytes]:
        return [content for content, error in zip(self.contents, self.errors, strict=True) if error is None]


async def append_all(wal: Wal, contents: Sequence[bytes]) -> Appended:
    """Append ``contents``, as many in flight as the log lends frames; wait for all answers."""
    loop = asyncio.get_running_loop()
    result = Appended()
    answered = 0
    changed = loop.create_future()

    def done(frame: WalFrame, error: Exception | None) -> None:
        nonlocal answered
        answered += 1
        result.addresses.append(frame.address)
        result.errors.append(error)
        result.contents.append(bytes(frame.view[: frame.length]))
        wal.release_frame(frame)
        if not changed.done():
            changed.set_result(None)

    for content in contents:
        while (frame := wal.acquire_frame()) is None:
            await changed
            changed = loop.create_future()
        frame.view[: len(content)] = content
        frame.length = len(content)
        wal.append(frame, done)
    while answered < len(contents):
        await changed
        changed = loop.create_future()
    return result


def read_all(wal: Wal) -> list[tuple[int, bytes]]:
    """Return address and content of every record."""
    return [(record.address, bytes(record.payload)) for record in wal.records()]


def read_contents(wal: Wal) -> list[bytes]:
    """Return the content of every record."""
    return [bytes(record.payload) for record in wal.records()]


def numbered(count: int, start: int = 0, size: int = 40) -> list[bytes]:
    """Return ``count`` different contents."""
    return [
        b"%08d-" % number + bytes((number + i) & 255 for i in range(size))
        for number in range(start, start + count)
    ]


class WalContract:
    """The kit. Every test leaves its logs closed."""

    truncation_granularity_bytes = 0
    """How much a log may keep in front of its truncation point."""

    def make_wal(self) -> Wal:
        """Return a new, unopened log on the same storage."""
        raise NotImplementedError

    def fill_storage(self) -> bool:
        """Take all free room away from the storage; return False if that cannot be done."""
        return False

    def make_room(self) -> None:
        """Give plenty of room back."""
        raise NotImplementedError

    async def _open(self) -> Wal:
        wal = self.make_wal()
        await wal.open()
        return wal

    # ---- records

    async def test_a_new_log_is_empty(self) -> None:
        wal = await self._open()
        assert read_all(wal) == []
        await wal.close()

    async def test_records_come_back_in_order_with_their_addresses(self) -> None:
        wal = await self._open()
        appended = await append_all(wal, numbered(20))
        await wal.close()
        again = await self._open()
        assert read_all(again) == list(zip(appended.addresses, appended.contents, strict=True))
        await again.close()

    async def test_records_survive_an_owner_that_never_closed(self) -> None:
        first = await self._open()
        await append_all(first, numbered(20))
        second = await self._open()
        assert read_contents(second) == numbered(20)
        await second.close()
        await first.close()

    async def test_the_log_continues_behind_what_was_recovered(self) -> None:
        contents = numbered(30)
        addresses: list[int] = []
        for start in range(0, 30, 10):
            wal = await self._open()
            assert read_contents(wal) == contents[:start]
            addresses += (await append_all(wal, contents[start : start + 10])).addresses
            await wal.close()
        wal = await self._open()
        assert read_all(wal) == list(zip(addresses, contents, strict=True))
        assert addresses == sorted(set(addresses))
        await wal.close()

    @pytest.mark.parametrize("length", [0, 1, 63, 255])
    async def test_every_length_comes_back(self, length: int) -> None:
        wal = await self._open()
        await append_all(wal, [bytes(range(length))])
        await wal.close()
        again = await self._open()
        assert read_contents(again) == [bytes(range(length))]
        await again.close()

    async def test_a_full_frame_comes_back(self) -> None:
        wal = await self._open()
        content = bytes(i & 255 for i in range(wal.frame_bytes_max))
        await append_all(wal, [content] * 3)
        await wal.close()
        again = await self._open()
        assert read_contents(again) == [content] * 3
        await again.close()

    async def test_a_reused_frame_shows_nothing_of_its_past(self) -> None:
        wal = await self._open()
        contents = [b"x" * 200, b"", b"y", b"z" * 100, b"12"]
        await append_all(wal, contents)
        await wal.close()
        again = await self._open()
        assert read_contents(again) == contents
        await again.close()

    async def test_records_can_be_given_up_halfway(self) -> None:
        wal = await self._open()
        await append_all(wal, numbered(10))
        await wal.close()
        again = await self._open()
        for record in again.records():
            if bytes(record.payload) == numbered(10)[4]:
                break
        assert (await append_all(again, numbered(1, start=10))).errors == [None]
        await again.close()
        last = await self._open()
        assert read_contents(last) == numbered(11)
        await last.close()

    # ---- answers

    async def test_answers_come_in_the_order_of_submission(self) -> None:
        wal = await self._open()
        appended = await append_all(wal, numbered(200))
        assert appended.contents == numbered(200)
        assert appended.errors == [None] * 200
        assert appended.addresses == sorted(set(appended.addresses))
        await wal.close()

    async def test_an_answer_never_comes_from_within_append(self) -> None:
        wal = await self._open()
        answers: list[Exception | None] = []
        frame = wal.acquire_frame()
        assert frame is not None
        wal.append(frame, lambda _frame, error: answers.append(error))
        assert answers == []
        await wal.close()
        assert answers == [None]
        wal.release_frame(frame)

    async def test_appending_from_an_answer_is_allowed(self) -> None:
        wal = await self._open()
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
        again = await self._open()
        assert read_contents(again) == numbered(50)
        await again.close()

    # ---- frames

    async def test_frames_are_bounded_and_their_return_is_announced(self) -> None:
        wal = await self._open()
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

    async def test_a_frame_may_be_appended_again_and_becomes_another_record(self) -> None:
        wal = await self._open()
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
        again = await self._open()
        records = read_all(again)
        assert [content for _, content in records] == [b"two"] * 6
        assert [address for address, _ in records[:3]] == addresses == sorted(set(addresses))
        await again.close()

    async def test_slots_are_taken_by_frames_in_flight_and_come_back(self) -> None:
        wal = await self._open()
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
        wal = await self._open()
        await append_all(wal, numbered(10))
        statistics = wal.statistics()
        assert statistics.frames_written == 10
        assert statistics.bytes_written == sum(map(len, numbered(10)))
        assert statistics.frames_in_flight == 0
        assert statistics.log_bytes >= statistics.bytes_written
        assert statistics.write_seconds_total >= statistics.write_seconds_max >= 0
        assert statistics.write_seconds_max >= statistics.write_seconds_last >= 0
        assert len(statistics.write_by_bucket) == len(LATENCY_EDGES_S) + 1
        assert sum(statistics.write_by_bucket) == 10
        assert sum(statistics.disk_by_bucket) == statistics.disk_writes <= 10
        assert (statistics.space_waits, statistics.space_waiting) == (0, 0)
        await append_all(wal, numbered(1))
        assert statistics.frames_written == sum(statistics.write_by_bucket) == 10  # they are of that moment
        await wal.close()

    async def test_statistics_show_the_queue(self) -> None:
        wal = await self._open()
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

    # ---- ownership

    async def test_every_open_has_a_higher_epoch(self) -> None:
        epochs = []
        for _ in range(5):
            wal = await self._open()
            epochs.append(wal.epoch)
            await wal.close()
        assert epochs == sorted(set(epochs))
        assert epochs[0] >= 1

    async def test_a_fenced_owner_fails_at_its_next_append_and_stays_failed(self) -> None:
        old = await self._open()
        await append_all(old, numbered(5))
        new = await self._open()
        for _ in range(2):
            appended = await append_all(old, numbered(3, start=100))
            assert [type(error) for error in appended.errors] == [FencedOutError] * 3
        assert read_contents(new)[:5] == numbered(5)
        await new.close()
        await old.close()

    async def test_a_frame_in_flight_while_the_owner_changes_is_never_acknowledged_and_lost(self) -> None:
        old = await self._open()
        frames = [frame for frame in (old.acquire_frame(), old.acquire_frame()) if frame is not None]
        answers: list[Exception | None] = []
        for number, frame in enumerate(frames):
            frame.view[:1] = b"%d" % number
            frame.length = 1
            old.append(frame, lambda _frame, error: answers.append(error))
        new = await self._open()
        recovered = read_contents(new)
        await append_all(new, [b"new"])
        await old.close()
        acknowledged = sum(error is None for error in answers)
        assert len(answers) == 2
        assert all(error is None or isinstance(error, FencedOutError) for error in answers)
        assert recovered == [b"0", b"1"][: len(recovered)]
        assert acknowledged <= len(recovered)
        await new.close()
        last = await self._open()
        assert read_contents(last) == [*recovered, b"new"]
        await last.close()

    async def test_what_a_fenced_owner_tried_to_write_is_not_in_the_log(self) -> None:
        old = await self._open()
        await append_all(old, numbered(5))
        new = await self._open()
        recovered = read_contents(new)
        await append_all(old, [b"stale"] * 3)
        await append_all(new, [b"fresh"])
        await append_all(old, [b"stale"] * 3)
        await old.close()
        await new.close()
        last = await self._open()
        assert read_contents(last) == [*recovered, b"fresh"]
        await last.close()

    async def test_a_fenced_owner_cannot_truncate(self) -> None:
        old = await self._open()
        appended = await append_all(old, numbered(5))
        new = await self._open()
        with pytest.raises(FencedOutError):
            await old.truncate(appended.addresses[-1])
        assert read_contents(new) == numbered(5)
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
        for turn in range(5):
            wal = await self._open()
            assert read_contents(wal) == expected
            owners.append(wal)
            appended = await append_all(wal, numbered(7, start=100 * turn))
            assert appended.errors == [None] * 7
            expected += appended.contents
            for former in owners[:-1]:
                refused = await append_all(former, [b"late"])
                assert [type(error) for error in refused.errors] == [FencedOutError]
        for wal in owners:
            await wal.close()
        last = await self._open()
        assert read_contents(last) == expected
        await last.close()

    async def test_an_owner_may_be_replaced_before_it_has_read_or_written_anything(self) -> None:
        first = await self._open()
        appended = await append_all(first, numbered(5))
        second, third = await self._open(), await self._open()
        assert read_contents(third) == appended.contents
        refused = await append_all(second, [b"late"])
        assert [type(error) for error in refused.errors] == [FencedOutError]
        more = await append_all(third, [b"next"])
        assert more.addresses[0] > appended.addresses[-1]
        for wal in (second, third, first):
            await wal.close()
        last = await self._open()
        assert read_contents(last) == [*numbered(5), b"next"]
        await last.close()

    # ---- full storage

    async def _fill_up(self, wal: Wal) -> asyncio.Task[Appended]:
        """Append until the log is held up; return what waits for its answers."""
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
        wal = await self._open()
        appending = await self._fill_up(wal)
        await asyncio.sleep(0.02)
        assert not appending.done()
        statistics = wal.statistics()
        assert statistics.space_waits >= 1
        assert 1 <= statistics.frames_queued <= statistics.frames_in_flight
        self.make_room()
        assert (await appending).errors == [None] * 200
        assert wal.statistics().space_waiting == 0
        await wal.close()
        again = await self._open()
        assert read_contents(again) == numbered(205)
        await again.close()

    async def test_truncation_goes_on_while_storage_is_full(self) -> None:
        wal = await self._open()
        first = await append_all(wal, numbered(5))
        appending = await self._fill_up(wal)
        await wal.truncate(first.addresses[-1] + 1)
        self.make_room()
        assert (await appending).errors == [None] * 200
        await wal.close()
        again = await self._open()
        assert read_contents(again) == numbered(205)
        await again.close()

    @pytest.mark.parametrize("end", ["stop_waiting", "close"])
    async def test_frames_that_nobody_waits_for_any_more_are_answered_typed(self, end: str) -> None:
        wal = await self._open()
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
        self.make_room()
        again = await self._open()
        contents = read_contents(again)
        assert contents == numbered(len(contents))
        assert len(contents) >= acknowledged
        assert (await append_all(again, [b"goes on"])).errors == [None]
        await again.close()

    async def test_an_owner_that_waits_for_room_notices_its_successor(self) -> None:
        old = await self._open()
        appending = await self._fill_up(old)
        self.make_room()
        new = await self._open()
        recovered = read_contents(new)
        errors = (await appending).errors
        acknowledged = errors.count(None)
        assert {type(error) for error in errors} - {type(None)} == {FencedOutError}
        assert recovered == numbered(len(recovered))
        assert len(recovered) >= 5 + acknowledged
        await append_all(new, [b"new"])
        await old.close()
        await new.close()
        last = await self._open()
        assert read_contents(last) == [*recovered, b"new"]
        await last.close()

    # ---- truncation

    async def test_the_log_can_be_cut_at_every_address_and_opened_after_each(self) -> None:
        wal = await self._open()
        contents = numbered(23)
        addresses = (await append_all(wal, contents)).addresses
        for index, address in enumerate([*addresses, addresses[-1] + 1]):
            await wal.truncate(address)
            await wal.close()
            wal = await self._open()
            assert read_all(wal) == list(zip(addresses, contents, strict=True))[index:]
        await wal.close()

    async def test_the_log_can_be_cut_while_it_grows(self) -> None:
        wal = await self._open()
        first = await append_all(wal, numbered(30))
        appending = asyncio.ensure_future(append_all(wal, numbered(60, start=30)))
        for address in first.addresses[::5]:
            await wal.truncate(address)
        assert (await appending).errors == [None] * 60
        await wal.close()
        again = await self._open()
        assert read_contents(again) == numbered(90)[25:]
        await again.close()

    async def test_truncated_records_do_not_come_back(self) -> None:
        wal = await self._open()
        appended = await append_all(wal, numbered(200))
        await wal.truncate(appended.addresses[150])
        await wal.close()
        again = await self._open()
        records = read_all(again)
        assert [content for address, content in records if address >= appended.addresses[150]] == numbered(
            200
        )[150:]
        assert records[0][0] >= appended.addresses[150]
        await again.close()

    async def test_truncating_everything_leaves_a_log_that_goes_on(self) -> None:
        wal = await self._open()
        appended = await append_all(wal, numbered(100))
        await wal.truncate(appended.addresses[-1] + 1)
        await wal.close()
        again = await self._open()
        assert read_all(again) == []
        more = await append_all(again, numbered(3, start=100))
        assert more.addresses[0] > appended.addresses[-1]
        await again.close()
        last = await self._open()
        assert read_contents(last) == numbered(3, start=100)
        await last.close()

    async def test_truncating_again_or_lower_or_too_high_does_no_harm(self) -> None:
        wal = await self._open()
        appended = await append_all(wal, numbered(20))
        await wal.truncate(appended.addresses[10])
        await wal.truncate(appended.addresses[10])
        await wal.truncate(appended.addresses[3])
        await wal.truncate(0)
        await append_all(wal, numbered(1, start=20))
        await wal.close()
        again = await self._open()
        assert read_contents(again) == numbered(21)[10:]
        await again.truncate(appended.addresses[-1] + 1_000_000)
        await append_all(again, numbered(1, start=21))
        await again.close()
        last = await self._open()
        assert read_contents(last) == numbered(1, start=21)
        await last.close()

    async def test_a_log_that_is_truncated_as_it_grows_stays_small(self) -> None:
        wal = await self._open()
        sizes = []
        for start in range(0, 400, 40):
            appended = await append_all(wal, numbered(40, start=start))
            await wal.truncate(appended.addresses[-1])
            sizes.append(wal.statistics().log_bytes)
        assert max(sizes[5:]) <= max(sizes[:5]) + self.truncation_granularity_bytes
        await wal.close()
        again = await self._open()
        assert read_contents(again) == numbered(1, start=399)
        await again.close()

    # ---- ending

    async def test_close_answers_what_is_in_flight_and_may_be_called_again(self) -> None:
        wal = await self._open()
        answers: list[Exception | None] = []
        frames = [frame for frame in (wal.acquire_frame(), wal.acquire_frame()) if frame is not None]
        for frame in frames:
            wal.append(frame, lambda _frame, error: answers.append(error))
        await wal.close()
        assert answers == [None, None]
        await wal.close()

    async def test_close_without_open_is_harmless(self) -> None:
        await self.make_wal().close()

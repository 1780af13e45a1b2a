"""What the logs of a system must do, wherever they are kept: what ``headrace.wal.logs`` says, as tests.

Subclass, override :meth:`LogsContract.make_logs`, and let pytest collect the class. Each call must return the
logs of the *same* system, as another process on the same storage has them, with frames of at least 256 bytes.
"""

from __future__ import annotations

import pytest

from headrace.errors import DataCorruptionError, FencedOutError
from headrace.testing.conformance.wal.log_use import append_all, numbered, read_contents
from headrace.wal.contract import Wal
from headrace.wal.logs import Logs


async def _open(logs: Logs, container: int) -> Wal:
    wal = logs.make_wal(container)
    await wal.open()
    return wal


async def _write(logs: Logs, container: int, count: int, start: int = 0) -> list[int]:
    """Append so many contents as one owner; return their addresses."""
    wal = await _open(logs, container)
    appended = await append_all(wal, numbered(count, start))
    await wal.close()
    return appended.addresses


def _contents(logs: Logs, container: int) -> list[bytes]:
    return [bytes(frame.payload) for frame in logs.log(container).snapshot().frames()]


class LogsContract:
    """The kit."""

    def make_logs(self) -> Logs:
        """Return the logs of the system."""
        raise NotImplementedError

    async def test_a_new_system_has_no_logs(self) -> None:
        logs = self.make_logs()
        assert logs.numbers() == []
        assert not logs.log(0).is_begun()
        with pytest.raises(DataCorruptionError, match="missing"):
            logs.log(0).snapshot()

    async def test_looking_makes_no_log(self) -> None:
        logs = self.make_logs()
        await _write(logs, 1, 3)
        for container in range(3):
            logs.log(container).is_begun()
        assert self.make_logs().numbers() == [1]

    async def test_each_log_that_had_an_owner_is_found_in_order(self) -> None:
        logs = self.make_logs()
        for container in (10, 2, 0):
            await _write(logs, container, 0)
        found = self.make_logs()
        assert found.numbers() == [0, 2, 10]
        assert [found.log(container).is_begun() for container in range(4)] == [True, False, True, False]
        assert len({found.log(container).place for container in range(4)}) == 4

    async def test_each_container_has_a_log_of_its_own(self) -> None:
        logs = self.make_logs()
        await _write(logs, 0, 5)
        await _write(logs, 1, 5, start=50)
        again = [await _open(self.make_logs(), container) for container in (0, 1)]
        assert [await read_contents(wal) for wal in again] == [numbered(5), numbered(5, start=50)]
        for wal in again:
            await wal.close()

    async def test_a_later_owner_of_the_same_log_fences_the_earlier_one(self) -> None:
        one = await _open(self.make_logs(), 0)
        two = await _open(self.make_logs(), 0)
        appended = await append_all(one, numbered(1))
        assert [type(error) for error in appended.errors] == [FencedOutError]
        await one.close()
        await two.close()

    async def test_a_snapshot_is_what_the_next_owner_would_find(self) -> None:
        logs = self.make_logs()
        addresses = await _write(logs, 0, 20)
        addresses += await _write(logs, 0, 20, start=20)
        snapshot = self.make_logs().log(0).snapshot()
        assert (snapshot.problem, snapshot.place) == ("", logs.log(0).place)
        frames = [(frame.address, frame.epoch, bytes(frame.payload)) for frame in snapshot.frames()]
        epochs = [1] * 20 + [2] * 20
        assert frames == list(zip(addresses, epochs, numbered(40), strict=True))
        assert (snapshot.epoch, snapshot.first_address) == (2, addresses[0])
        assert snapshot.next_address == addresses[-1] + 1

    async def test_a_snapshot_begins_where_the_log_was_truncated(self) -> None:
        logs = self.make_logs()
        wal = await _open(logs, 0)
        appended = await append_all(wal, numbered(40))
        await wal.truncate(appended.addresses[30])
        await wal.close()
        assert _contents(self.make_logs(), 0) == numbered(40)[30:]
        assert self.make_logs().log(0).snapshot().first_address == appended.addresses[30]

    async def test_a_snapshot_takes_nothing_from_the_owner(self) -> None:
        wal = await _open(self.make_logs(), 0)
        await append_all(wal, numbered(10))
        snapshot = self.make_logs().log(0).snapshot()
        assert snapshot.epoch == wal.epoch
        more = await append_all(wal, numbered(10, start=10))
        assert more.errors == [None] * 10
        assert not await wal.is_fenced()
        assert [bytes(frame.payload) for frame in snapshot.frames()][:10] == numbered(10)
        assert _contents(self.make_logs(), 0) == numbered(20)
        await wal.close()

    async def test_a_log_that_is_made_for_a_rebuilt_system_begins_with_its_epoch(self) -> None:
        await self.make_logs().begin(3, 1000)
        logs = self.make_logs()
        assert logs.numbers() == [3]
        assert not logs.log(3).is_begun()
        wal = await _open(logs, 3)
        assert wal.epoch == 1000
        assert await read_contents(wal) == []
        await append_all(wal, numbered(3))
        await wal.close()
        assert self.make_logs().log(3).is_begun()
        assert _contents(self.make_logs(), 3) == numbered(3)

    async def test_of_a_deleted_log_nothing_is_left(self) -> None:
        logs = self.make_logs()
        for container in (0, 1):
            await _write(logs, container, 20)
        await logs.delete(0)
        found = self.make_logs()
        assert found.numbers() == [1]
        assert not found.log(0).is_begun()
        with pytest.raises(DataCorruptionError, match="missing"):
            found.log(0).snapshot()
        assert _contents(found, 1) == numbered(20)
        await _write(found, 0, 2, start=70)
        assert _contents(self.make_logs(), 0) == numbered(2, start=70)

    async def test_a_log_that_is_not_there_may_be_deleted(self) -> None:
        logs = self.make_logs()
        await logs.delete(0)
        await logs.begin(0, 1000)
        await logs.delete(0)
        await logs.delete(0)
        assert logs.numbers() == []

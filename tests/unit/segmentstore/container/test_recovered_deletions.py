"""Deletions that recovery hands to storage once more, beside what it writes into the log."""

import asyncio
import dataclasses

import pytest

from headrace.errors import FencedOutError
from headrace.segmentstore.durablelog import durable_log
from headrace.wal.config import WalConfig
from headrace.wal.memory import MemoryWal
from tests.unit.segmentstore.container.container_bench import Bench, append, until

_TURNS = 3


class DiskLikeWal(MemoryWal):
    """Stores one frame after the other, each takes some turns of the loop; drops whole files only."""

    keeps = False
    _asked = 0
    _busy = False

    async def truncate(self, address):
        if not self.keeps:
            await super().truncate(address)

    def _store_next(self):
        self._asked += 1
        if not self._busy:
            self._begin()

    def _begin(self):
        self._busy = self._asked > 0
        if self._busy:
            self._turn(_TURNS)

    def _turn(self, left):
        if left:
            asyncio.get_running_loop().call_soon(self._turn, left - 1)
            return
        self._asked -= 1
        super()._store_next()
        self._begin()


@pytest.mark.parametrize("count", range(172, 192, 3))
async def test_a_checkpoint_that_is_due_while_kept_segments_are_confirmed_ends_nothing(monkeypatch, count):
    """Deletions that recovery hands to storage get their place in the log's order before it does."""
    monkeypatch.setattr(durable_log, "_CONFIRMED_AT_ONCE", 10)
    bench, wals = Bench(active_segments_max=1000), []

    def make_wal(store, name, _):
        wals.append(DiskLikeWal(store, name, WalConfig(frames_max=24, frame_bytes_max=3100)))
        return wals[-1]

    bench.make_wal = make_wal
    container = await bench.start()
    gone = await container.create("s/gone", {})
    await append(container, "s/gone", b"x")
    await asyncio.gather(container.delete(gone), container.log.write_checkpoint())
    await until(lambda: gone.segment_id not in container.state.by_id)
    monkeypatch.setattr(DiskLikeWal, "keeps", True)  # from the checkpoint on that has the deleted segment
    for number in range(count):
        await container.seal(await container.create(f"s/{number:04}", {}))
    await bench.evict()
    assert len(container.state.by_name) == 1
    bench.config = dataclasses.replace(bench.config, checkpoint_frames=1)
    container = await bench.start()
    assert len(container.state.by_name) == count + 1, "all were kept"
    await until(lambda: container.log.statistics().checkpoints or not container.online)
    await container.log.flush()
    assert [error for error in bench.failures if not isinstance(error, FencedOutError)] == []
    assert container.online
    await bench.stop()

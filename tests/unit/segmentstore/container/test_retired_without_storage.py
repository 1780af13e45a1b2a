"""Segments that come and go while storage is away are forgotten, although the log cannot be cut."""

import asyncio
import dataclasses

import pytest

from headrace.errors import NoSuchSegmentError, StorageWriteError
from headrace.segmentstore.container import retired_segments
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all, until

MANY = 100
WAVES = 12


@pytest.fixture
def few(monkeypatch):
    monkeypatch.setattr(retired_segments, "_MANY", MANY)


@pytest.mark.slow
async def test_segments_that_never_were_in_storage_do_not_pile_up_while_it_is_away(few, monkeypatch):
    bench = Bench(active_segments_max=1000)
    bench.config = dataclasses.replace(bench.config, checkpoint_departures=200)
    container = await bench.start()
    create, append_to = bench.chunks.create, bench.chunks.append

    async def fail(*_, **__):
        raise StorageWriteError("storage is away")

    monkeypatch.setattr(bench.chunks, "create", fail)
    monkeypatch.setattr(bench.chunks, "append", fail)
    await container.create("s/stuck", {})
    await append(container, "s/stuck", b"data")
    most = 0
    for wave in range(WAVES):
        names = [f"s/{wave}-{number}" for number in range(MANY)]
        segments = await asyncio.gather(*(container.create(name, {}) for name in names))
        await asyncio.gather(*(append(container, name, b"x") for name in names))
        await asyncio.gather(*map(container.delete, segments))
        await until(lambda segments=segments: all(state.stored_deleted for state in segments))
        most = max(most, len(container.state.retired))
    assert most < 5 * MANY
    assert container.log.truncated_sequence <= 1, "a log that is cut is another test"

    container = await bench.start()  # meets all of them again
    for name in ("s/0-0", f"s/{WAVES - 1}-0"):
        with pytest.raises(NoSuchSegmentError):
            await container.resolve(name)
    monkeypatch.setattr(bench.chunks, "create", create)
    monkeypatch.setattr(bench.chunks, "append", append_to)
    await container.log.write_checkpoint()
    await until(lambda: not container.state.retired)
    assert await read_all(container, "s/stuck") == b"data"
    container = await bench.start()
    own = {"_system/containers/metadata_0", "_system/containers/storage_metadata_0"}
    assert set(container.state.by_name) == {"s/stuck", *own}
    assert await read_all(container, "s/stuck") == b"data"
    await bench.stop()

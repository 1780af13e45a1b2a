"""Segments leave memory in portions whose rows are bounded together, in bytes."""

import dataclasses

import pytest

from headrace.limits import KIB
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.container.evictions import Evictions
from tests.unit.segmentstore.container.container_bench import Bench

WRITERS = 2_400
COUNT = 40
NAMES = [f"s/{number:03}" for number in range(COUNT)]


@pytest.mark.slow
@pytest.mark.parametrize("batch_bytes", [32 * KIB, 150 * KIB, 256 * KIB])
async def test_rows_are_made_for_one_portion_at_a_time(batch_bytes, monkeypatch):
    bench = Bench(eviction_batch=10_000)
    bench.config = dataclasses.replace(bench.config, checkpoint_part_bytes=batch_bytes)
    container = await bench.start()
    writers = [
        AttributeUpdate(number.to_bytes(16, "big"), UpdateKind.REPLACE, number)
        for number in range(1 << 40, (1 << 40) + WRITERS)
    ]
    segments = {name: await container.create(name, {}) for name in NAMES}
    for segment in segments.values():
        await container.update_attributes(segment, writers)
    made, portions = [], []
    make_candidate, evict_batch = Evictions._make_candidate, Evictions._evict_batch

    def make(self, state):
        candidate = make_candidate(self, state)
        made.append(len(candidate.row))
        return candidate

    async def evict(self, batch):
        portions.append([each.state.name for each in batch])
        rows = [len(each.row) for each in batch]
        assert len(rows) == 1 or sum(rows) <= batch_bytes
        assert len(made) <= len(rows) + 1, "rows that were made, and have not left yet"
        del made[: len(rows)]
        await evict_batch(self, batch)

    monkeypatch.setattr(Evictions, "_make_candidate", make)
    monkeypatch.setattr(Evictions, "_evict_batch", evict)
    await bench.evict(*NAMES)
    assert [name for portion in portions for name in portion] == NAMES
    assert len(portions) == {32 * KIB: 40, 150 * KIB: 20, 256 * KIB: 10}[batch_bytes]
    found = await container.read_info(NAMES[7])
    assert found.attributes[writers[5].attribute_id] == writers[5].value
    await bench.stop()

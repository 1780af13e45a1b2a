"""A log whose storage is full, and of which nothing is needed, is cut: that makes room."""

import asyncio
import dataclasses

import pytest

from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from tests.unit.segmentstore.container.container_bench import Bench, append, until

A, B = "s/a", "s/b"


@pytest.mark.parametrize("has_row", [False, True])
async def test_a_full_log_of_which_nothing_is_needed_is_cut(has_row):
    """Also if a deleted segment has a row in the catalogue, whose removal goes through the log."""
    bench = Bench()
    bench.config = dataclasses.replace(
        bench.config,
        storage_writer=dataclasses.replace(
            bench.config.storage_writer, acknowledge_interval_s=0.3, change_age_s=0.0
        ),
    )
    container = await bench.start()
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"x" * 1000)
    if has_row:
        await bench.evict(A)
    a = await container.resolve(A)
    await container.delete(a)
    for _ in range(20):
        await append(container, B, bytes(10_000))
    b = await container.resolve(B)
    await until(lambda: b.stored_length == b.durable_length and a.stored_deleted)
    await container.flush_storage()  # so are the rows that say so
    await container.log.write_checkpoint()
    cut_before = container.log.truncated_sequence
    bench.logs.bytes_max = bench.logs.bytes_used  # full from here on
    async with asyncio.timeout(120):
        await append(container, B, b"y" * 1000)
    assert container.log.truncated_sequence > cut_before
    await bench.stop()


async def test_a_log_that_fills_up_before_a_row_leaves_the_catalogue_is_cut(monkeypatch):
    """The removal waits for space then; the next cut must not wait for the removal."""
    remove = SegmentCatalogue.remove

    async def remove_from_full(catalogue, segments):
        container = bench.container
        await container.log.write_checkpoint()
        bench.logs.bytes_max = bench.logs.bytes_used
        return await remove(catalogue, segments)

    bench = Bench()
    container = await bench.start()
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"x" * 1000)
    await bench.evict(A)
    a = await container.resolve(A)
    monkeypatch.setattr(SegmentCatalogue, "remove", remove_from_full)
    await container.delete(a)
    await append(container, B, bytes(10_000))
    await container.log.write_checkpoint()
    await until(lambda: bench.logs.bytes_max == bench.logs.bytes_used)
    async with asyncio.timeout(120):
        await append(container, B, b"y" * 1000)
        await until(lambda: not container.state.retired)
    await bench.stop()

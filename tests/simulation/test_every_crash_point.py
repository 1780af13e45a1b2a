"""Stops right before, within and right after every durable write of a busy scenario; recovers, twice.

Durable writes are those of the log, its owner record and its files, of chunks, and of directories (a file
made, renamed or removed); rows of storage's metadata and of the catalogue are writes of the log. The
scenario is the same each time, so each is met; what unsynced changes survive is drawn anew.
"""

import asyncio
import dataclasses

import pytest

from headrace.limits import KIB
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.segmentstore.container.config import ContainerConfig, EvictionConfig
from headrace.segmentstore.readindex.cache.eviction_policy import CacheConfig
from headrace.segmentstore.storagewriter.config import StorageWriterConfig
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.testing.disk import Moment
from headrace.testing.simulation import simulate
from headrace.wal.config import WalConfig
from tests.effort import stride
from tests.simulation.scenarios.container import start_clients, wait_for
from tests.simulation.scenarios.container_profile import ContainerProfile
from tests.simulation.scenarios.container_world import ContainerWorld

PROFILE = ContainerProfile(
    file_log=True,
    file_chunks=True,
    supports_append=True,
    wal=WalConfig(
        frame_bytes_max=1 * KIB,
        frames_max=16,
        segment_file_bytes=32 * KIB,
        zero_step_bytes=4 * KIB,
        zero_ahead_bytes=0,
        spare_files_max=1,
    ),
    container=ContainerConfig(
        checkpoint_frames=12,
        checkpoint_bytes=8 * KIB,
        checkpoint_part_bytes=2 * KIB,
        eviction=EvictionConfig(active_segments_max=16, eviction_interval_s=0.2),
        storage=SegmentStorageConfig(rollover_bytes=2 * KIB, block_bytes=64, garbage_delay_s=0.0),
        storage_writer=StorageWriterConfig(
            flush_bytes=512, flush_age_s=0.02, acknowledge_interval_s=0.01, garbage_interval_s=0.05
        ),
    ),
    cache=CacheConfig(bytes_max=256 * KIB, arena_bytes=64 * KIB, extent_bytes_max=16 * KIB),
    lives=1,
    clients=2,
    steps=8,
    streams=2,
    storage_faults_per_thousand=0,
    read_faults_per_thousand=0,
    cancels_per_thousand=0,
    storage_s_max=0.0,
    log_s_max=0.0,
    pause_s_max=0.02,
    troubles=frozenset(),
)

ATTRIBUTES = dataclasses.replace(
    PROFILE,
    attributes=True,
    container=dataclasses.replace(
        PROFILE.container,
        attributes=AttributesConfig(
            page_bytes=200, rollover_bytes=1 * KIB, space_factor=1.5, flush_values=1, cached_values=1
        ),
    ),
)
"""Values leave memory at once; writes of their indexes are durable writes as well."""

SEED = 2


async def work(sim, crash=None, profile=PROFILE):
    """One owner at work; answer how many durable writes it has made."""
    world = ContainerWorld(sim, profile)
    host = sim.host("store")
    if crash is not None:
        host.disk.plan_power_loss(*crash)
    owner = await world.start_owner(host)
    if host.is_up and owner.lives:
        clients = start_clients(world, owner, "a")
        await wait_for(owner, clients, 60.0)
        if owner.lives and crash is not None:
            await asyncio.sleep(5.0)
    if crash is None:
        await asyncio.sleep(1.0)
        return host.disk.statistics().durable_writes
    assert host.disk.statistics().power_losses == 1, f"there is no durable write {crash}"
    for _ in range(2):  # recover, recover what was recovered
        await world.start_owner(host)
        host.kill()
    owner = await world.start_owner(host)
    await world.run_in(owner, world.check_stored(owner))
    host.lose_power()
    await world.start_owner(host)
    return host.disk.statistics().durable_writes


@pytest.fixture(scope="module")
def durable_writes():
    return simulate(SEED, work).value


@pytest.mark.slow
@pytest.mark.parametrize(("moment", "every"), [(Moment.BEFORE, 2), (Moment.AFTER, 2), (Moment.WITHIN, 3)])
def test_whatever_was_acknowledged_is_there_after_a_stop_at_any_durable_write(durable_writes, moment, every):
    assert durable_writes > 80
    # What is there after a write is there before the next one: those two look at different ones.
    first = 1 + (stride(every) // 2 if moment is Moment.AFTER else 0)
    for number in range(first, durable_writes + 1, stride(every)):
        simulate(SEED, lambda sim, number=number: work(sim, (number, moment)))


@pytest.mark.slow
@pytest.mark.parametrize("moment", list(Moment))
def test_attributes_are_what_they_were_after_a_stop_at_any_durable_write_of_their_index(moment):
    durable_writes = simulate(SEED, lambda sim: work(sim, profile=ATTRIBUTES)).value
    assert durable_writes > 80
    for number in range(1 + list(Moment).index(moment), durable_writes + 1, stride(4)):
        simulate(SEED, lambda sim, number=number: work(sim, (number, moment), ATTRIBUTES))

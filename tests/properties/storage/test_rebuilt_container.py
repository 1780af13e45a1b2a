"""A container that is rebuilt from a storage checkpoint has the state that its own log had in that moment."""

import asyncio
import copy
import dataclasses
import tempfile
from contextlib import aclosing
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.limits import KIB
from headrace.repair.rebuild.rebuilt_log import RebuiltLog
from headrace.runtime.context import system_runtime
from headrace.storage.checkpoints.checkpoint_store import CheckpointStore
from headrace.storage.checkpoints.config import StorageCheckpointsConfig
from headrace.storage.checkpoints.listed import finished
from headrace.storage.checkpoints.manifest import SystemFacts
from headrace.storage.checkpoints.object_names import EPOCH_STEP
from headrace.storage.chunks.chunk_names import parse_chunk_name
from headrace.wal.config import WalConfig
from headrace.wal.stores import make_logs
from tests.effort import examples
from tests.unit.segmentstore.container.container_bench import Bench, append, read_all

NAMES = ("s/a", "s/b", "s/c")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(NAMES), st.integers(1, 3 * KIB)),
        st.tuples(st.just("large"), st.sampled_from(NAMES), st.just(80 * KIB)),
        st.tuples(st.sampled_from(("truncate", "seal", "delete", "flush", "copy")), st.sampled_from(NAMES)),
    ),
    max_size=25,
)


class Copied(Bench):
    def __init__(self):
        super().__init__()
        storage = dataclasses.replace(self.config.storage, garbage_delay_s=0.0, rollover_bytes=64 * KIB)
        writer = dataclasses.replace(self.config.storage_writer, garbage_interval_s=0.01)
        checkpoints = StorageCheckpointsConfig(interval_s=1e6, look_s=1e6, truncation_wait_s=0.5)
        self.config = dataclasses.replace(
            self.config, storage_checkpoints=checkpoints, storage=storage, storage_writer=writer
        )
        self.system = SystemFacts(1)

    async def live(self, steps):
        for number, (what, name, *size) in enumerate(steps):
            container = self.container
            segment = await container.resolve(name) if container.find_segment(name) else None
            if what == "copy":
                await container.tiers.checkpoints.write_now()
            elif what == "flush":
                await container.flush_storage()
            elif segment is None:
                await container.create(name, {})
            elif what in {"append", "large"} and not segment.accepted_sealed:
                await append(container, name, bytes([number % 256]) * size[0])
            elif what == "truncate" and segment.durable_length > segment.start_offset:
                await container.truncate(segment, segment.durable_length - 1)
            elif what == "seal" and not segment.accepted_sealed:
                await container.seal(segment)
            elif what == "delete":
                await container.delete(segment)

    async def state(self):
        """Return what a client could see of a container, of its segments by name."""
        found = {}
        for name in NAMES:
            if self.container.find_segment(name) is not None:
                segment = await self.container.resolve(name)
                content = await read_all(self.container, name)
                attributes = dict(segment.attributes.durable)
                found[name] = (segment.start_offset, content, segment.sealed, attributes)
        return found


async def rebuilt_log(directory, store):
    listed = await store.look()
    newest = finished(listed)[-1]
    manifest = await store.read_manifest(newest, listed[newest])
    runtime = system_runtime()
    log = RebuiltLog(make_logs(str(directory), runtime), 0, runtime.entropy, EPOCH_STEP)
    await log.open()
    async with aclosing(store.read_records(manifest)) as parts:
        async for records in parts:
            await log.write(records)
    await log.renew_incarnation()
    await log.close()
    return manifest


async def check(steps, more, directory):
    bench = Copied()
    await bench.start()
    await asyncio.sleep(0)  # its background tasks begin
    await bench.live(steps)
    await bench.container.tiers.checkpoints.write_now()
    expected = await bench.state()
    objects = copy.deepcopy(bench.chunks.objects)
    await bench.live(more)
    await bench.container.flush_storage()
    await bench.container.tiers.storage.garbage.collect()
    lost = {name for name in bench.chunks.objects if parse_chunk_name(name)} - objects.keys()
    await bench.stop()

    # The chunks are those of the end: what the checkpoint names must still be there.
    rebuilt = Copied()
    rebuilt.chunks = bench.chunks
    manifest = await rebuilt_log(directory, CheckpointStore(first_copies(bench, objects), 0, 10.0))
    rebuilt.make_wal = lambda *_: make_logs(
        str(directory), system_runtime(), WalConfig(frames_max=24)
    ).make_wal(0)
    container = await rebuilt.start()
    await asyncio.sleep(0)  # its background tasks begin
    assert container.state.epoch == EPOCH_STEP + 1
    assert await rebuilt.state() == expected
    assert container.tiers.storage.incarnation != manifest.incarnation
    await container.tiers.storage.garbage.collect_orphans()
    await rebuilt.live([("append", "s/a", 10), ("append", "s/a", 10), ("flush", "s/a")])
    assert lost <= rebuilt.chunks.objects.keys(), "it was made after the copy and is never an orphan"
    after = await rebuilt.state()
    await rebuilt.stop()
    rebuilt.container = None
    await rebuilt.start()
    assert await rebuilt.state() == after
    await rebuilt.stop()


def first_copies(bench, objects):
    """The store with the checkpoints of the moment of the copy, for a rebuild from that one."""
    former = copy.copy(bench.chunks)
    former.objects = objects
    return former


@pytest.mark.real_loop
@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@example([("large", "s/a", 80 * KIB)] * 5 + [("flush", "s/a")], [("truncate", "s/a"), ("flush", "s/a")])
@given(STEPS, STEPS.map(lambda steps: [step for step in steps if step[0] != "copy"]))
def test_a_rebuilt_container_is_what_it_was_when_it_was_copied(steps, more):
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory) / "log"
        log.mkdir()
        asyncio.run(asyncio.wait_for(check(steps, more, log), 60))

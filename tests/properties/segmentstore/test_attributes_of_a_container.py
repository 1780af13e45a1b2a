"""Attributes of a live container against dictionaries: they leave memory, come back, and survive crashes.

Values, segments and owners come and go after every step, storage fails, and the log ends at any write.
"""

import asyncio
import dataclasses

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import (
    AttributeMismatchError,
    HeadraceError,
    NoSuchSegmentError,
    SegmentSealedError,
    StorageReadError,
    StorageWriteError,
    ThrottledError,
)
from headrace.limits import KIB
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.segmentstore.attributes.config import AttributesConfig
from headrace.storage.providers.memory import MemoryChunkProvider
from tests.effort import examples
from tests.unit.segmentstore.container.container_bench import Bench, Owner
from tests.unit.segmentstore.container.test_eviction_crashes import EndingWal
from tests.virtual_time import make_loop

SEGMENTS = ("s/a", "s/b")
KEYS = tuple(bytes(15) + bytes((number,)) for number in range(12))

updates = st.lists(
    st.builds(
        AttributeUpdate,
        st.sampled_from(KEYS),
        st.sampled_from(list(UpdateKind)),
        st.integers(0, 4) | st.just(ATTRIBUTE_NULL),
        st.integers(0, 4) | st.just(ATTRIBUTE_NULL),
    ).filter(lambda update: update.kind is not UpdateKind.ACCUMULATE or update.value != ATTRIBUTE_NULL),
    min_size=1,
    max_size=8,
)
segments = st.sampled_from(SEGMENTS)


class FailingChunks(MemoryChunkProvider):
    """Refuses, or performs and hides, so many calls."""

    refused = 0
    hidden = 0

    async def _meet(self, call, error, *args, **options):
        if self.refused:
            self.refused -= 1
            raise error("refused")
        result = await call(*args, **options)
        if self.hidden:
            self.hidden -= 1
            raise error("whether it was done is unknown")
        return result

    async def read(self, *args, **options):
        return await self._meet(super().read, StorageReadError, *args, **options)

    async def write(self, *args, **options):
        return await self._meet(super().write, StorageWriteError, *args, **options)

    async def create(self, *args, **options):
        return await self._meet(super().create, StorageWriteError, *args, **options)


def evaluate(values, changes):
    """What a segment's attributes are behind all changes; AttributeMismatchError if one does not hold."""
    after = dict(values)
    for change in changes:
        key, new = change.attribute_id, change.value
        existing = after.get(key, ATTRIBUTE_NULL)
        absent = existing == ATTRIBUTE_NULL
        holds = {
            UpdateKind.SET_IF_ABSENT: absent,
            UpdateKind.REPLACE: True,
            UpdateKind.REPLACE_IF_GREATER: absent or new > existing,
            UpdateKind.ACCUMULATE: True,
            UpdateKind.REPLACE_IF_EQUALS: existing == change.expected,
        }[change.kind]
        if not holds:
            raise AttributeMismatchError("", key, change.expected, existing)
        if change.kind is UpdateKind.ACCUMULATE and not absent:
            new += existing
        after[key] = new
    return {key: value for key, value in after.items() if value != ATTRIBUTE_NULL}


class AttributesMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.loop = make_loop()
        self.model = {}
        """Attributes by segment, and whether it is sealed."""
        self.writers = 0

    def run(self, coroutine):
        return self.loop.run_until_complete(coroutine)

    @initialize(
        page_bytes=st.sampled_from([200, 400, 32 * KIB]),
        flush_values=st.sampled_from([1, 3, 10]),
        cached_values=st.sampled_from([1, 4, 4096]),
        update_keys_max=st.sampled_from([1, 1024]),
    )
    def begin(self, **sizes):
        self.bench = Bench(active_segments_max=20)
        self.bench.chunks = FailingChunks()
        self.bench.config = dataclasses.replace(
            self.bench.config,
            attributes=AttributesConfig(
                rollover_bytes=1 * KIB, space_factor=1.5, sweep_interval_s=0.5, retry_s=0.1, **sizes
            ),
        )
        self.wal = None

        def make_wal(*args):
            self.wal = EndingWal(*args)
            return self.wal

        self.bench.make_wal = make_wal
        self.run(self.bench.start())

    def teardown(self):
        if hasattr(self, "bench") and self.bench.container is not None:
            self.run(self.bench.stop())
        self.loop.close()

    # ---- what happens around clients

    @rule(seconds=st.sampled_from([0.0, 0.01, 1.0]))
    def wait(self, seconds):
        """Values are written in the background, and leave memory."""
        self.run(asyncio.sleep(seconds))

    @rule(name=segments)
    def write_index(self, name):
        segment = self.bench.container.state.by_name.get(name)
        if segment is not None:
            self.run(self._write_index(segment))

    async def _write_index(self, segment):
        for _ in range(5):
            try:
                await self.bench.container.tiers.index_writer.write(segment)
            except HeadraceError:
                continue
            return

    @rule()
    def evict_segments(self):
        self.run(self.bench.evict())

    @rule(count=st.integers(1, 4), hides=st.booleans())
    def fail_storage(self, count, hides):
        chunks = self.bench.chunks
        chunks.refused, chunks.hidden = (0, count) if hides else (count, 0)

    @rule()
    def crash(self):
        self.run(self.bench.start())

    @rule()
    def checkpoint(self):
        self.run(self.bench.container.log.write_checkpoint())

    # ---- what clients do

    def change(self, name, after, call):
        """``after`` is what ``call`` makes of the attributes of a segment, or the error that it raises."""
        self.run(self._change(name, after, call))

    async def _change(self, name, after, call):
        for _ in range(20):
            refused = None
            try:
                await call()
            except (StorageReadError, ThrottledError):
                continue  # nothing was done
            except HeadraceError as error:
                refused = error
            if isinstance(after, type):
                assert isinstance(refused, after), (name, refused)
            else:
                assert refused is None, (name, refused)
                self.model[name] = after
            return
        raise AssertionError("storage does not come back")

    def outcome(self, name, changes):
        known = self.model.get(name)
        if known is None:
            return NoSuchSegmentError
        if known[1]:
            return SegmentSealedError
        try:
            return evaluate(known[0], changes), False
        except AttributeMismatchError:
            return AttributeMismatchError

    @rule(name=segments, changes=updates)
    def update(self, name, changes):
        container = self.bench.container

        async def call():
            await container.update_attributes(await container.resolve(name), changes)

        self.change(name, self.outcome(name, changes), call)

    @rule(name=segments, changes=updates)
    def append(self, name, changes):
        container = self.bench.container

        async def call():
            await container.append(await container.resolve(name), b"event", changes)

        self.change(name, self.outcome(name, changes), call)

    @rule(name=segments, changes=updates, keys=st.sets(st.sampled_from(KEYS)))
    def merge(self, name, changes, keys):
        of_source = [AttributeUpdate(key, UpdateKind.REPLACE, 7) for key in keys]
        container = self.bench.container
        after = self.outcome(name, changes)

        async def call():
            target = await container.resolve(name)
            try:
                source = await container.resolve("s/source")
            except NoSuchSegmentError:
                source = await container.create("s/source", {})
            if of_source and not source.accepted_sealed:
                await container.update_attributes(source, of_source)
            await container.merge(target, "s/source", changes)

        self.change(name, after, call)

    @precondition(lambda self: any(known is not None and not known[1] for known in self.model.values()))
    @rule(name=segments, events=st.integers(1, 3))
    def write_as_new_writer(self, name, events):
        if self.outcome(name, ()) in (NoSuchSegmentError, SegmentSealedError):
            return
        self.writers += 1
        owner = Owner(1000 + self.writers)

        async def call():
            container = self.bench.container
            target = container.target_of(await container.resolve(name))
            try:
                await target.settle(owner.writer_id)
                target.check_writer(owner.writer_id)
                assert target.last_event_number(owner.writer_id) == ATTRIBUTE_NULL
                previous = ATTRIBUTE_NULL
                for number in range(1, events + 1):
                    target.append_block(
                        owner,
                        [memoryview(b"e")],
                        1,
                        previous_event_number=previous,
                        last_event_number=number,
                        event_count=1,
                        request_id=number,
                    )
                    previous = number
                target.end_of_read()
                await container.log.flush()
            finally:
                target.close()

        self.change(name, ({**self.model[name][0], owner.writer_id: events}, False), call)

    @rule(name=segments)
    def create(self, name):
        if name not in self.model:
            self.change(name, ({}, False), lambda: self.bench.container.create(name, {}))

    @rule(name=segments)
    def seal(self, name):
        known = self.outcome(name, ())
        after = known if isinstance(known, type) else (self.model[name][0], True)

        async def call():
            await self.bench.container.seal(await self.bench.container.resolve(name))

        self.change(name, after, call)

    @rule(name=segments)
    def delete(self, name):
        async def call():
            await self.bench.container.delete(await self.bench.container.resolve(name))

        if name in self.model:
            self.change(name, ({}, False), call)
            del self.model[name]

    @rule(name=segments, changes=updates, writes=st.integers(1, 4), is_durable=st.booleans())
    def update_while_the_log_ends(self, name, changes, writes, is_durable):
        """The log ends at a write, of this change or of the index; the next owner has it whole or not."""
        after = self.outcome(name, changes)
        if isinstance(after, type):
            return
        self.wal.is_durable = is_durable
        self.wal.fails_at = self.wal.writes + writes

        async def call():
            container = self.bench.container
            done = False
            try:
                segment = await container.resolve(name)
                await container.update_attributes(segment, changes)
                done = True
                await container.tiers.index_writer.write(segment)
                await container.log.write_checkpoint()
            except HeadraceError:
                pass
            return done

        done = self.run(call())
        self.run(self.bench.start())
        self.bench.chunks.refused = self.bench.chunks.hidden = 0
        found = self.run(self.read(name, {*self.model[name][0], *after[0], *KEYS}))
        if done or found != self.model[name][0]:
            assert found == after[0]
            self.model[name] = after

    # ---- what is looked at after each step

    async def read(self, name, keys):
        found = {}
        for key in sorted(keys):
            for _ in range(20):
                try:
                    value = await self.bench.container.read_attribute(name, key)
                except (StorageReadError, ThrottledError):
                    continue
                if value != ATTRIBUTE_NULL:
                    found[key] = value
                break
            else:
                raise AssertionError("storage does not come back")
        return found

    @invariant()
    def every_attribute_is_what_it_was_set_to(self):
        if not hasattr(self, "bench"):
            return
        for name, (values, _) in self.model.items():
            assert self.run(self.read(name, {*values, *KEYS})) == values
        assert not self.bench.failures or self.bench.container.online
        self.bench.container.check()


AttributesMachine.TestCase.settings = settings(
    max_examples=examples(30), stateful_step_count=50, suppress_health_check=list(HealthCheck)
)
TestAttributesOfAContainer = pytest.mark.slow(AttributesMachine.TestCase)

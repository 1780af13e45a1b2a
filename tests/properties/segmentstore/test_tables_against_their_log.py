"""Any mix of updates, commits, crashes, evictions and compaction against an oracle that replays the log.

The oracle decodes the log with a decoder of its own and knows nothing of indexes, caches or updates in
flight. Steps interleave at the granularity of the loop's turns. Whenever nothing can move any more:

- replaying the retained part of the durable log gives the same table as replaying all of it;
- reads answer exactly that table;
- every update that was acknowledged is in the durable log where its versions say, and its conditions hold in
  the log before it;
- every update that was refused for a condition is refused by some durable state there was during the call.
"""

import asyncio
import struct
from dataclasses import replace
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import (
    ContainerOfflineError,
    OffsetMismatchError,
    StorageWriteError,
    TableKeyMissingError,
    TableKeyVersionError,
    ThrottledError,
)
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableEntry, TableKey
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from tests.effort import examples
from tests.simulation.workloads.joined_updates import join_update
from tests.simulation.worlds.memory_segments import MemorySegments
from tests.simulation.worlds.tables import tables_on

T = "scope/table"
KEYS = [b"aaa", b"bbb", b"ccc", b"ddd"]
CONFIG = TablesConfig(
    page_bytes_max=60,
    compaction_bytes_max=70,
)
INDEXED = TablesConfig(
    page_bytes_max=60,
    compaction_bytes_max=70,
    unindexed=UnindexedConfig(entries_max=2, bytes_max=10_000, retry_s=0.0, wait_s=0.0),
)
"""Rounds run all the time, with one key in each write; updates that would wait are refused."""


def replay(log: bytes, start: int = 0) -> dict[bytes, tuple[int, bytes]]:
    """Return key -> (version, value) of the table whose log this is."""
    table, at = {}, start
    while at < len(log):
        format_version, key_length, value_length, version = struct.unpack_from(">biiq", log, at)
        assert format_version == 1
        key = log[at + 17 : at + 17 + key_length]
        if value_length == -1:
            table.pop(key, None)
        else:
            value_at = at + 17 + key_length
            table[key] = (at if version == NO_VERSION else version, log[value_at : value_at + value_length])
        at += 17 + key_length + max(0, value_length)
    assert at == len(log)
    return table


def violation(table, items):
    kinds = set()
    for item in items:
        exists = table.get(item.key)
        if item.version == NO_VERSION:
            continue
        if item.version == NOT_EXISTS:
            kinds |= {TableKeyVersionError} if exists else set()
        elif exists is None:
            kinds.add(TableKeyMissingError)
        elif exists[0] != item.version:
            kinds.add(TableKeyVersionError)
    return TableKeyMissingError if TableKeyMissingError in kinds else min(kinds, key=str, default=None)


class Call:
    """A request under way, with the durable logs there were while it ran."""

    def __init__(self, task, items, length):
        self.task = task
        self.items = items
        self.length = length
        self.logs = []


class TablesAgainstTheirLog(RuleBasedStateMachine):
    config = CONFIG
    key_length = 0
    is_cold = False

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.calls = []
        self.access = MemorySegments(auto_commit=False)

    @initialize()
    def create(self):
        self.open_container()
        created = self.loop.create_task(self.tables.create(T, self.key_length))
        self.settle()
        self.access.commit()
        self.settle()
        created.result()

    def open_container(self):
        self.access.indexes.is_cold = self.is_cold
        self.access.indexes.keys_at_once = 1
        self.tables = tables_on(self.access, self.config)

    def teardown(self):
        self.resume()
        self.let_index_writes_go(None)
        self.settle()
        while self.access.pending_count:
            self.commit(1, None)
        assert all(call.task.done() for call in self.calls), "somebody waits for nothing"
        self.judge_calls()
        self.look()
        self.loop.run_until_complete(self.tables.close())
        self.loop.close()
        asyncio.set_event_loop(None)

    # ---- turning the crank

    def settle(self, turns=None):
        """Run until nothing can go on, or for so many turns of the loop."""

        async def spin():
            left = 10_000 if turns is None else turns
            while left > 0:
                await asyncio.sleep(0)
                left = left - 1 if self.loop._ready else 0
                assert left or turns is not None or not self.loop._ready, "something spins"

        self.loop.run_until_complete(spin())

    @property
    def log(self):
        return bytes(self.access.disks[T].data)

    def run(self, coroutine):
        """Run a read; it must not need a commit."""
        task = self.loop.create_task(coroutine)
        self.settle()
        assert task.done(), "a read waits for an update under way"
        return task.result()

    def call(self, coroutine, items, length, turns):
        call = Call(self.loop.create_task(coroutine), items, length)
        call.logs.append(self.log)
        self.calls.append(call)
        self.settle(turns)

    # ---- what callers do

    versions = st.sampled_from([NO_VERSION, NO_VERSION, NOT_EXISTS, "current", "current", "durable", "wrong"])
    turns = st.sampled_from([None, None, 0, 1, 2, 3, 5])

    def version(self, kind, key):
        if not isinstance(kind, str):
            return kind
        if kind == "wrong":
            return 7
        log = self.log
        if kind == "current":
            log += b"".join(self.access.accepted_data(self.access.find_segment(T)))
        return replay(log).get(key, (3, b""))[0]

    @rule(
        changes=st.lists(
            st.tuples(st.sampled_from(KEYS), versions, st.binary(max_size=12)), min_size=1, max_size=3
        ),
        length=st.sampled_from([-1, -1, -1, -1, -1, "right", "durable", 5]),
        joins=st.booleans(),
        turns=turns,
    )
    def update(self, changes, length, joins, turns):
        entries = [TableEntry(key, value, self.version(kind, key)) for key, kind, value in changes]
        length = self.length(length)
        ask = partial(join_update, self.tables) if joins else self.tables.update
        self.call(ask(T, entries, length), entries, length, turns)

    @rule(changes=st.lists(st.tuples(st.sampled_from(KEYS), versions), min_size=1, max_size=3), turns=turns)
    def remove(self, changes, turns):
        keys = [TableKey(key, self.version(kind, key)) for key, kind in changes]
        self.call(self.tables.remove(T, keys), keys, -1, turns)

    def length(self, kind):
        if kind == "right":
            return self.access.find_segment(T).accepted_length
        return len(self.log) if kind == "durable" else kind

    @rule(keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=6), size=st.integers(1, 40), turns=turns)
    def rewrite_some_keys(self, keys, size, turns):
        """Makes dead bytes, and entries to index, quickly."""
        for key in keys:
            entries = [TableEntry(key, b"x" * size, NO_VERSION)]
            self.call(self.tables.update(T, entries), entries, -1, turns)
        self.commit(10, turns)

    @precondition(lambda self: self.calls)
    @rule()
    def cancel_the_last_caller(self):
        self.calls[-1].task.cancel()
        self.settle()

    @rule()
    def refuse_the_next_append(self):
        self.access.refuse_next = ThrottledError("full")

    # ---- what befalls the container

    @rule(count=st.integers(1, 3), turns=turns)
    def commit(self, count, turns):
        for _ in range(count):
            running = [call for call in self.calls if not call.task.done()]
            self.access.commit(1)
            for call in running:
                call.logs.append(self.log)
            self.settle(turns)

    @rule(turns=turns)
    def wait(self, turns):
        self.settle(turns)

    @precondition(lambda self: self.access.suspend_appends is None)
    @rule()
    def hold_appends_back(self):
        self.access.suspend_appends = asyncio.Event()

    @precondition(lambda self: self.access.suspend_appends is not None)
    @rule(turns=turns)
    def let_appends_go(self, turns):
        self.resume()
        self.settle(turns)

    def resume(self):
        if self.access.suspend_appends is not None:
            self.access.suspend_appends.set()
            self.access.suspend_appends = None

    @rule()
    def crash(self):
        crashed, self.access = self.access, self.access.crash()
        for held in (crashed.suspend_appends, crashed.indexes.hold_writes):
            if held is not None:
                held.set()
        self.settle()
        self.judge_calls()
        self.loop.run_until_complete(self.tables.close())
        self.open_container()

    @precondition(lambda self: self.config is not CONFIG and self.access.indexes.hold_writes is None)
    @rule()
    def hold_index_writes_back(self):
        self.access.indexes.hold_writes = asyncio.Event()

    @precondition(lambda self: self.access.indexes.hold_writes is not None)
    @rule(turns=turns)
    def let_index_writes_go(self, turns):
        held = self.access.indexes.hold_writes
        if held is not None:
            held.set()
            self.access.indexes.hold_writes = None
            self.settle(turns)

    @precondition(lambda self: self.config is not CONFIG)
    @rule(late=st.booleans())
    def fail_the_next_index_write(self, late):
        self.access.indexes.fail_next = StorageWriteError("the index")
        self.access.indexes.fails_late = late

    @rule()
    def drop_the_index(self):
        self.tables.drop(T)

    # ---- what must be true

    def judge_calls(self):
        for call in [call for call in self.calls if call.task.done()]:
            self.calls.remove(call)
            self.judge(call)

    def judge(self, call):
        if call.task.cancelled():
            return
        error = call.task.exception()
        if error is None:
            versions = call.task.result()
            if versions is None:  # a removal: each key was absent in some durable state of that time
                call.logs.append(self.log)
                assert all(any(item.key not in replay(log) for log in call.logs) for item in call.items)
            if versions:
                log = self.log
                assert violation(replay(log[: versions[0]]), call.items) is None
                assert call.length in (-1, versions[0])
                after = replay(log[: versions[-1] + 17 + len(call.items[-1].key) + len(call.items[-1].value)])
                for item, version in zip(call.items, versions, strict=True):
                    newest = max(v for i, v in zip(call.items, versions, strict=True) if i.key == item.key)
                    assert after[item.key][0] == newest
                    assert log[version + 17 : version + 17 + len(item.key)] == item.key
        elif isinstance(error, TableKeyMissingError | TableKeyVersionError):
            assert any(violation(replay(log), call.items) is type(error) for log in call.logs)
        elif isinstance(error, OffsetMismatchError):
            assert any(len(log) != call.length for log in call.logs)
        else:
            assert isinstance(error, ThrottledError | ContainerOfflineError), repr(error)

    @invariant()
    def the_retained_log_says_what_the_whole_log_says(self):
        if T in self.access.disks:
            assert replay(self.log, self.access.disks[T].start_offset) == replay(self.log)
            self.judge_calls()

    @rule()
    def look(self):
        self.settle()
        self.tables.check()
        table = replay(self.log)
        segment, disk, indexes = self.access.find_segment(T), self.access.disks[T], self.access.indexes
        if not self.is_open():
            if segment.accepted_length != len(self.log) or self.access.suspend_appends:
                return  # the table is opened when what was accepted is durable
            if segment.accepted_start_offset != disk.start_offset:
                return  # or has been truncated
            if indexes.hold_writes is not None or indexes.fail_next is not None:
                return  # or when a long log has an index
        found = self.run(self.tables.get(T, KEYS))
        assert {item.key: (item.version, item.value) for item in found if item} == table
        entries, token, first = [], b"", b""
        while True:
            page, token = self.run(self.tables.entries(T, token, 2, first))
            if not page:
                break
            entries += page
            if self.key_length:
                assert [item.key for item in entries] == sorted(item.key for item in entries)
                first = page[-1].key + b"\x00"
        assert sorted((item.key, item.version, item.value) for item in entries) == [
            (key, *table[key]) for key in sorted(table)
        ]
        assert self.run(self.tables.info(T)).entry_count == len(table)

    def is_open(self):
        table = self.tables._tables._tables.get(T)
        return table is not None and not table.retired

    @rule(position=st.sampled_from(["start", "retained", "end"]), count=st.integers(1, 5))
    def delta(self, position, count):
        start = self.access.disks[T].start_offset
        at = {"start": 0, "retained": start, "end": len(self.log)}[position]
        first = True
        seen = replay(self.log[:at])
        while True:
            delta = self.run(self.tables.delta(T, at, count))
            assert delta.should_clear == (first and at < start)
            first = False
            assert delta.entries or delta.reached_end
            assert delta.last_position > at or delta.reached_end
            at = delta.last_position
            for item in delta.entries:
                seen[item.key] = (item.version, item.value)
            table = replay(self.log[:at])
            assert all((item.version, item.value) == table[item.key] for item in delta.entries)
            if delta.reached_end:
                break
        assert at == len(self.log)
        live = replay(self.log)
        assert {key: seen.get(key) for key in live} == live


class IndexedTablesAgainstTheirLog(TablesAgainstTheirLog):
    config = INDEXED


class ColdTablesAgainstTheirLog(TablesAgainstTheirLog):
    config = replace(INDEXED, unindexed=replace(INDEXED.unindexed, entries_max=1))
    is_cold = True


class FixedTablesAgainstTheirLog(TablesAgainstTheirLog):
    config = INDEXED
    key_length = 3
    is_cold = True


for machine in (
    TablesAgainstTheirLog,
    IndexedTablesAgainstTheirLog,
    ColdTablesAgainstTheirLog,
    FixedTablesAgainstTheirLog,
):
    machine.TestCase.settings = settings(max_examples=examples(30), stateful_step_count=40)

TestTablesAgainstTheirLog = TablesAgainstTheirLog.TestCase
TestIndexedTablesAgainstTheirLog = IndexedTablesAgainstTheirLog.TestCase
TestColdTablesAgainstTheirLog = ColdTablesAgainstTheirLog.TestCase
TestFixedTablesAgainstTheirLog = FixedTablesAgainstTheirLog.TestCase

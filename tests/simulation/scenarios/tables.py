"""Tables over segments in memory, called directly: every verb, callers that give up, and all that can happen
to a table in between.

The log takes nothing for a while, and then one change after the other; tables are dropped, evicted, deleted
and created anew; reads are blocked or fail. ``table_moments`` judges each answer and each refusal by the
durable log. In the end no caller waits, each value was written as often as the answers say, the tables are
what their logs say, and compaction has truncated what is dead.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from headrace.errors import (
    ContainerOfflineError,
    EventTooLargeError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    StorageReadError,
    StorageWriteError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
    ThrottledError,
)
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableDelta, TableEntry, TableKey
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables import log as table_log
from headrace.segmentstore.tables.config import TablesConfig, UnindexedConfig
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.testing.simulation import Simulation
from tests.simulation.models.table_moments import (
    ANY_LENGTH,
    Found,
    Items,
    Span,
    TableMoments,
    decode,
    entry_bytes,
    replay,
)
from tests.simulation.reduction import ALL, Reduction
from tests.simulation.replaced_constants import replaced
from tests.simulation.workloads.draws import choose, weigh
from tests.simulation.workloads.joined_updates import join_update
from tests.simulation.worlds.memory_segments import Disk
from tests.simulation.worlds.queued_segments import QueuedSegments
from tests.simulation.worlds.tables import tables_on

STEPS: Final = 240

#: What may be left out of a run.
FAULTS: Final = (
    "be_quick", "cancel", "close_line", "delete", "drop", "evict", "fail_index", "fail_reads", "hold_index",
    "hold_reads", "refuse", "relieve",
)  # fmt: skip

_NAMES: Final = ("scope/table", "scope/other")
_KEYS: Final = (b"a", b"b", b"cc", b"ddd")
_CALLS_MAX: Final = 12
_LAST_UPDATES: Final = 4
_UTILIZATION_PERCENT: Final = 75

#: So long that everything has happened that can.
_MOMENT_S: Final = 0.001

#: Longer than an update waits for an index round.
_IDLE_MOMENTS: Final = 20

#: How often what happens; deletions only in every other run.
_ACTIONS: Final = weigh(
    update=45, remove=4, get=10, iterate=3, delta=3, info=1, create=1, delete=2, commit=40, be_quick=3,
    close_line=7, admit=14, open_line=2, relieve=4, cancel=6, drop=6, evict=3, hold_reads=2, let_reads_go=4,
    fail_reads=1, refuse=1, fail_index=2, hold_index=2, let_index_go=4,
)  # fmt: skip


@dataclass(slots=True, eq=False)
class Call:
    """A request in flight, and how to judge it once it has ended."""

    what: str
    name: str
    first: int
    """The moment of the table at which it began."""
    judge: Callable[[Span, Any], bool]
    """Whether the moments of the call explain its result."""
    items: Items = ()
    expected_length: int = ANY_LENGTH
    last: int = -1
    steps_left: int = -1
    """How many steps the caller waits at most; negative: as long as it takes."""
    task: asyncio.Task[Any] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A unique value, and how often it may have been written."""

    name: str
    entry: TableEntry
    call: Call


class Upheaval:
    """The tables of one container, their callers, and what a seed does to them."""

    def __init__(self, entropy: SeededEntropy, without: frozenset[str]) -> None:
        self.entropy = entropy
        self.moments = {name: TableMoments() for name in _NAMES}
        self.access = QueuedSegments(self._on_durable)
        self.access.append_bytes_max = choose(entropy, (1 << 20, 1 << 20, 40))
        page_bytes_max = choose(entropy, (1, 60))
        compaction_bytes_max = choose(entropy, (25, 50, 70, 120))
        self.config = TablesConfig(
            page_bytes_max=page_bytes_max,
            compaction_bytes_max=compaction_bytes_max,
            compaction_append_bytes=compaction_bytes_max // 2,
            utilization_percent_min=_UTILIZATION_PERCENT,
            index_bytes_max=choose(entropy, (0, 1_000_000)),
            unindexed=UnindexedConfig(
                entries_max=choose(entropy, (1, 2, 3, 1_000)),
                bytes_max=choose(entropy, (50, 200, 500)),
                wait_s=choose(entropy, (0.0, 0.01)),
                retry_s=choose(entropy, (0.0, 0.002)),
            ),
        )
        self.access.indexes.is_cold = entropy.randbelow(2) == 0
        self.access.indexes.keys_at_once = choose(entropy, (1, 2, 1000))
        self.tables = tables_on(self.access, self.config)
        self.access.on_deleting = self.tables.drop
        self.calls: list[Call] = []
        self.written: list[Written] = []
        self.judged = 0
        self._without = without | ({"delete"} if entropy.randbelow(2) else frozenset())
        self._happened: set[str] = set()
        self._values = 0
        self._hurry = False
        """Whether the next caller will not wait for long."""

    def _on_durable(self, segment: SegmentState, disk: Disk | None) -> None:
        self.moments[segment.name].add(disk)

    def step(self) -> None:
        for call in self.calls:
            call.steps_left -= call.steps_left >= 0
            if call.steps_left == 0 and call.task is not None:
                call.task.cancel()
        name = _NAMES[self.entropy.randbelow(4) == 0]
        action = choose(self.entropy, _ACTIONS)
        if self.access.find_segment(name) is None and self.entropy.randbelow(2):
            action = "create"
        if action not in self._without:
            self._happened.add(action)
            getattr(self, f"_{action}")(name)

    # ---- what callers do

    def _begin(self, call: Call, ask: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        if len(self.calls) < _CALLS_MAX:
            call.task = asyncio.ensure_future(self._ask(call, partial(ask, *arguments)))
            if self._hurry:
                self._hurry = False
                call.steps_left = 1 + self.entropy.randbelow(4)
            self.calls.append(call)

    def _call(self, what: str, name: str, judge: Callable[[Span, Any], bool], **rest: Any) -> Call:
        return Call(what, name, self.moments[name].now, judge, **rest)

    async def _ask(self, call: Call, ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Ask as a store does: that something is gone, or exists, may follow from what is not durable yet."""
        try:
            return await ask()
        except (NoSuchSegmentError, SegmentExistsError):
            await self.access.flush()
            raise
        finally:
            call.last = self.moments[call.name].now

    def _update(self, name: str) -> None:
        keys = _KEYS if self.entropy.randbelow(4) else _KEYS[:1]
        count = choose(self.entropy, (0, 0, *(1,) * 12, *(2,) * 6))
        entries = [
            TableEntry(key, self._value(), self._version(name, key))
            for key in (choose(self.entropy, keys) for _ in range(count))
        ]
        length = self._length(name, 30 if entries else 4)
        call = self._call(
            "update",
            name,
            lambda span, versions: span.has_update(entries, length, versions),
            items=entries,
            expected_length=length,
        )
        if self.entropy.randbelow(3):
            self._begin(call, join_update, self.tables, name, entries, length)
        else:
            self._begin(call, self.tables.update, name, entries, length)
        if call.task is not None:
            self.written += [Written(name, entry, call) for entry in entries if entry.value]

    def _remove(self, name: str) -> None:
        keys = [TableKey(choose(self.entropy, _KEYS)) for _ in range(choose(self.entropy, (1, 1, 2)))]
        for item in keys:
            item.version = self._version(name, item.key)
        length = self._length(name, 8)
        call = self._call(
            "remove",
            name,
            lambda span, _: span.has_removal(keys, length),
            items=keys,
            expected_length=length,
        )
        self._begin(call, self.tables.remove, name, keys, length)

    def _get(self, name: str) -> None:
        def judge(span: Span, found: list[TableEntry | None]) -> bool:
            return all(
                span.has_found(key, None if entry is None else (entry.version, entry.value))
                for key, entry in zip(_KEYS, found, strict=True)
            )

        self._begin(self._call("get", name, judge), self.tables.get, name, _KEYS)

    def _info(self, name: str) -> None:
        self._begin(self._call("info", name, Span.has_info), self.tables.info, name)

    def _iterate(self, name: str) -> None:
        """Go through all keys, with or without their values."""

        def judge(span: Span, found: list[TableEntry] | list[TableKey]) -> bool:
            names = [item.key for item in found]
            return (
                len(names) == len(set(names))
                and span.keys_throughout() <= set(names)
                and all(
                    span.has_found(item.key, (item.version, item.value))
                    if isinstance(item, TableEntry)
                    else span.has_version(item.key, item.version)
                    for item in found
                )
            )

        ask = choose(self.entropy, (self.tables.keys, self.tables.entries))
        self._begin(self._call("iterate", name, judge), _all_pages, ask, name, 1 + self.entropy.randbelow(3))

    def _delta(self, name: str) -> None:
        """Ask for all changes since a position that was the end of the log once."""
        moments = self.moments[name]
        position, known = 0, dict[bytes, Found]()
        now = moments.all[-1]
        if self.entropy.randbelow(3):
            moment = choose(self.entropy, [moment for moment in moments.all if moment.disk is now.disk])
            position, known = moment.length, dict(moment.table)

        def judge(span: Span, deltas: list[TableDelta]) -> bool:
            return not span.is_of_one_table or span.has_changes(position, known, deltas)

        count = 1 + self.entropy.randbelow(3)
        self._begin(self._call("delta", name, judge), _all_changes, self.tables, name, position, count)

    def _create(self, name: str) -> None:
        call = self._call("create", name, lambda span, _: span.has_creation())
        self._begin(call, self.tables.create, name)

    def _delete(self, name: str) -> None:
        must_be_empty = self.entropy.randbelow(3) == 0
        call = self._call("delete", name, lambda span, _: span.has_deletion(must_be_empty=must_be_empty))
        self._begin(call, self.tables.delete, name, must_be_empty)

    def _cancel(self, _: str) -> None:
        """Let a caller give up; often the first or the last one of the queue."""
        if self.calls and "cancel" not in self._without:
            number = choose(self.entropy, (0, -1, self.entropy.randbelow(len(self.calls))))
            task = self.calls[number].task
            assert task is not None
            task.cancel()

    def _value(self) -> bytes:
        """Return nothing, or a unique value."""
        size = choose(self.entropy, (0, 5, 5, 30))
        self._values += 1
        return (b"%05d" % self._values).ljust(size, b".") if size else b""

    def _version(self, name: str, key: bytes) -> int:
        """Return a condition: none, that the key is absent, or the version that it has, or is about to."""
        kind = self.entropy.randbelow(10)
        if kind > 2:
            return NO_VERSION
        if kind == 2:
            return NOT_EXISTS
        durable = self.moments[name].all[-1]
        table = durable.table
        segment = self.access.find_segment(name)
        if kind == 0 and segment is not None and segment.durable_length == durable.length:
            at = segment.durable_length
            log = bytes(at) + b"".join(self.access.accepted_data(segment))
            table = replay(decode(log, at), table)
        return table.get(key, (3, b""))[0]

    def _length(self, name: str, odds: int) -> int:
        """Return a condition on the length of the log, three times out of ``odds``."""
        segment = self.access.find_segment(name)
        kind = self.entropy.randbelow(odds)
        if segment is None or kind > 2:
            return ANY_LENGTH
        return (segment.accepted_length, segment.durable_length, 5)[kind]

    # ---- what happens to them

    def _commit(self, _: str) -> None:
        self.access.commit(1 + self.entropy.randbelow(3))

    def _be_quick(self, _: str) -> None:
        """Let changes be durable as soon as they are accepted, or wait for a commit again."""
        self.access.auto_commit = self.entropy.randbelow(2) == 0

    def _close_line(self, _: str) -> None:
        self.access.is_closed = True

    def _admit(self, _: str) -> None:
        self.access.admit(choose(self.entropy, (1, 1, 1, 2)))

    def _open_line(self, _: str) -> None:
        self.access.open_queue()

    def _relieve(self, name: str) -> None:
        """Let the log take all there is, right after a caller gave up."""
        self._cancel(name)
        self.access.open_queue()

    def _refuse(self, _: str) -> None:
        self.access.refuse_next = ThrottledError("full")

    def _drop(self, name: str) -> None:
        self.tables.drop(name)
        self._hurry = self.entropy.randbelow(4) > 0 and "cancel" not in self._without

    def _evict(self, name: str) -> None:
        segment = self.access.find_segment(name)
        if segment is not None and self.access.is_evictable(name) and self.tables.is_idle(segment):
            self.access.evict(name)
            self.tables.on_evicted(segment)

    def _hold_reads(self, _: str) -> None:
        if self.access.hold_reads is None:
            self.access.hold_reads = asyncio.Event()

    def _let_reads_go(self, _: str) -> None:
        if self.access.hold_reads is not None:
            self.access.hold_reads.set()
            self.access.hold_reads = None

    def _fail_reads(self, _: str) -> None:
        self.access.read_failures = self.entropy.randbelow(6)

    def _hold_index(self, _: str) -> None:
        if self.access.indexes.hold_writes is None:
            self.access.indexes.hold_writes = asyncio.Event()

    def _let_index_go(self, _: str) -> None:
        if self.access.indexes.hold_writes is not None:
            self.access.indexes.hold_writes.set()
            self.access.indexes.hold_writes = None

    def _fail_index(self, _: str) -> None:
        self.access.indexes.fail_next = StorageWriteError("the index")
        self.access.indexes.fails_late = self.entropy.randbelow(2) == 0

    # ---- what must be true

    def judge(self) -> None:
        """Judge every call that has ended."""
        for call in [call for call in self.calls if call.task is not None and call.task.done()]:
            self.calls.remove(call)
            task = call.task
            if task is None or task.cancelled():
                continue
            self.judged += 1
            span = Span(self.moments[call.name].all[call.first : call.last + 1])
            error = task.exception()
            if error is None:
                assert call.judge(span, task.result()), f"{call.what} of {call.name}: {task.result()}"
            elif not self._may_be_refused(call, span, error):
                raise AssertionError(f"{call.what} of {call.name} was refused: {error!r}") from error

    def _may_be_refused(self, call: Call, span: Span, error: BaseException) -> bool:
        """Say whether the moments of a call, or what happened to it, explain that it has failed."""
        changes = call.what in {"update", "remove"}
        match error:
            case NoSuchSegmentError():
                return call.what != "create" and span.has_absence()
            case SegmentExistsError():
                return call.what == "create" and span.has_presence()
            case TableNotEmptyError():
                return call.what == "delete" and span.has_keys()
            case TableKeyMissingError() | TableKeyVersionError() | OffsetMismatchError():
                return changes and span.explains(error, call.items, call.expected_length)
            case ThrottledError():
                return changes or "fail_index" in self._happened
            case EventTooLargeError():
                size = sum(
                    entry_bytes(item.key, item.value if isinstance(item, TableEntry) else b"")
                    for item in call.items
                )
                return changes and size > self.access.append_bytes_max
            case InvalidArgumentError():
                return call.what == "delta" and not span.is_of_one_table
            case StorageReadError():
                return "fail_reads" in self._happened
            case ContainerOfflineError():
                return "evict" in self._happened
            case _:
                return False

    # ---- the end

    async def finish(self) -> None:
        """Let all continue; then no caller waits, and everything is as the log says."""
        self._let_reads_go("")
        self._let_index_go("")
        self.access.indexes.fail_next = None
        self.access.read_failures, self.access.refuse_next = 0, None
        self.access.open_queue()
        await self._settle()
        stalled = [f"{call.what} of {call.name}" for call in self.calls]
        assert not stalled, f"callers wait without reason: {', '.join(stalled)}"
        for name in _NAMES:
            if self.moments[name].all[-1].exists:
                self._check_idle(name)
                await self._look(name)
                self._check_idle(name)
        for written in self.written:
            self._count(written)
        statistics = self.tables.statistics()
        assert statistics.in_flight_bytes == 0
        await self.tables.close()

    async def _settle(self) -> None:
        """Let the log take all there is until nothing comes any more, and judge what has ended."""
        idle = 0
        while idle < _IDLE_MOMENTS:
            await asyncio.sleep(_MOMENT_S)
            idle = idle + 1 if self.access.is_idle else 0
            self.access.commit()
        self.judge()

    async def _look(self, name: str) -> None:
        """Update a table some more, which brings its compaction to an end, and read all of it."""
        left = _LAST_UPDATES
        while left:
            update = asyncio.ensure_future(self.tables.update(name, [TableEntry(_KEYS[0], b"last")]))
            await self._settle()
            with contextlib.suppress(ThrottledError):  # an index round was in flight
                await update
                left -= 1
        moment = self.moments[name].all[-1]
        self.tables.check()
        live = sum(entry_bytes(key, value) for key, (_, value) in moment.table.items())
        log = moment.length - moment.start_offset
        is_indexed = moment.disk is not None and moment.disk.index.root.note
        unknown = self.config.unindexed.bytes_max if is_indexed else 0
        may_live = live + unknown
        assert (
            log - may_live <= self.config.compaction_bytes_max or may_live * 100 >= log * _UTILIZATION_PERCENT
        )
        found = await self.tables.get(name, _KEYS)
        assert {entry.key: (entry.version, entry.value) for entry in found if entry} == moment.table

    def _check_idle(self, name: str) -> None:
        """Assert that an active table could be evicted."""
        segment = self.access.find_segment(name)
        if segment is not None:
            assert self.tables.is_idle(segment), f"{name} is not used"
            assert self.access.is_evictable(name)

    def _count(self, written: Written) -> None:
        """Assert that a value was written once if the answer says so, and not if it was refused."""
        task = written.call.task
        assert task is not None
        times = self.moments[written.name].written(written.entry.key, written.entry.value)
        if task.cancelled():
            assert times <= 1
        else:
            assert times == (task.exception() is None), f"{written.entry} was written {times} times"


async def _all_pages(ask: Any, name: str, count: int) -> list[Any]:
    found: list[Any] = []
    token = b""
    while True:
        page, token = await ask(name, token, count)
        if not page:
            return found
        found += page


async def _all_changes(tables: ContainerTables, name: str, position: int, count: int) -> list[TableDelta]:
    deltas: list[TableDelta] = []
    while not deltas or not deltas[-1].reached_end:
        deltas.append(await tables.delta(name, position, count))
        position = deltas[-1].last_position
    return deltas


async def upheaval(sim: Simulation, reduction: Reduction = ALL) -> Upheaval:
    """Do everything to tables, step by step; then let all calls end, and look."""
    entropy = SeededEntropy(f"tables-{sim.seed}")
    with replaced({(table_log, "SCAN_BYTES"): 40}):
        world = Upheaval(entropy, reduction.without)
        for _ in range(min(choose(entropy, (STEPS // 4, STEPS)), reduction.steps)):
            world.step()
            iterations = choose(entropy, (0, 0, 1, 2, 3, 8, -1))
            if iterations < 0:
                await asyncio.sleep(_MOMENT_S)
            for _ in range(iterations):
                await asyncio.sleep(0)
            world.judge()
        await world.finish()
    return world

"""Chunked storage of one container under one owner after the other, and several at once, against a model.

Rows are those of a fenced log: only the latest owner's commits are taken. Former owners may live on: they go
on writing objects, reading and collecting garbage, and never change what their successors know. A commit that
is under way when its owner is killed or fenced has happened or not, and so has all of the change it is of.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextvars import Context
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from headrace.errors import (
    ChunkExistsError,
    CorruptionError,
    FencedOutError,
    HeadraceError,
    NoSuchSegmentError,
    OverloadError,
    RequestError,
    SegmentTruncatedError,
    StorageReadError,
    WalWriteError,
)
from headrace.storage.chunks.config import SegmentStorageConfig
from headrace.storage.chunks.segment_info import StoredSegmentInfo
from headrace.storage.chunks.segment_layout import load_layout, walk_chunks
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.metadata.rows import CHUNK_PREFIX, GARBAGE_PREFIX, SEGMENT_PREFIX, chunk_key
from headrace.testing.failures import SimulationError, StalledError
from headrace.testing.host import HostDownError, SimulatedHost
from headrace.testing.memory_row_store import MemoryRowStore
from headrace.testing.object_store_faults import FaultyObjectStore, Moment, ObjectStoreFaults
from headrace.testing.simulation import Simulation

SMALL: Final = SegmentStorageConfig(
    rollover_bytes=64,
    block_bytes=4,
    concat_copy_bytes_max=20,
    garbage_delay_s=0.0,
    garbage_retry_s=0.05,
    garbage_batch_chunks=8,
    read_parallel_max=3,
    walk_rows_max=2,
    provider_timeout_s=5.0,
    leftovers_pause_s=0.0,
)

S = TypeVar("S")
T = TypeVar("T")

_READS_MAX: Final = 200
_MERGES_MAX: Final = 1000
_FORMER_MAX: Final = 2
"""Former owners that live on."""


Facts = tuple[int, int, bool]
"""Length, start, whether it is sealed."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What storage has of a segment."""

    content: bytes = b""
    start: int = 0
    sealed: bool = False

    @property
    def facts(self) -> Facts:
        return len(self.content), self.start, self.sealed


State = Mapping[str, Stored | None]


@dataclass(slots=True, eq=False)
class Change:
    """A change that was asked for: all of ``after`` becomes true, or none of it."""

    before: State
    after: State
    acknowledged: bool = False
    happened: bool | None = None
    """What a later owner has found."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A change to be asked for, and how."""

    before: State
    after: State
    perform: Callable[[ChunkedSegmentStorage], Awaitable[object]]


class OwnedRows:
    """The rows of one owner: all that was committed before it came, and what it commits."""

    def __init__(self, world: RivalStorages, epoch: int, forgets: bool) -> None:
        self._world = world
        self._epoch = epoch
        self._own = MemoryRowStore(world.durable, forgets=forgets)
        self.get = self._own.get
        self.load = self._own.load
        self.find_existing = self._own.find_existing
        self.part_of = self._own.part_of

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        await self._world.commit(self._epoch, dict(changes))
        await self._own.commit(changes)


class StorageOwner:
    """One owner: its process, its storage, and what it is about to change."""

    def __init__(self, world: RivalStorages, host: SimulatedHost, epoch: int, forgets: bool) -> None:
        self.host = host
        self.epoch = epoch
        self.changes: list[Change] = []
        """Those whose answers are missing."""
        self.storage = ChunkedSegmentStorage(
            world.store, OwnedRows(world, epoch, forgets), epoch, host.runtime.entropy, world.config
        )
        self.rewriter = self.storage.make_rewriter()

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run in its process. Raises: HostDownError: that has been killed."""
        if not self.host.is_up:
            coroutine.close()
            raise HostDownError(f"{self.host.name} was killed")
        return await self.host.run(coroutine)


class RivalStorages:
    """What outlives owners, the model, and the owners."""

    def __init__(
        self,
        sim: Simulation,
        *,
        supports_append: bool = False,
        faults: ObjectStoreFaults | None = None,
        config: SegmentStorageConfig = SMALL,
        forgets: bool = False,
        lost_commits_per_thousand: int = 0,
    ) -> None:
        self.sim = sim
        self.config = config
        self.durable: dict[str, bytes] = {}
        """Rows, as the log has them."""
        self.model: dict[str, Stored] = {}
        self.owners: list[StorageOwner] = []
        """Former ones that live, then the present one."""
        self.steps_made = 0
        """Changes of objects and of rows, by anybody."""
        self.on_step: Callable[[int, Moment], None] = lambda number, moment: None
        self.entropy = sim.entropy.fork("rivals")
        self.store = FaultyObjectStore(
            sim.entropy.fork("store"), faults, supports_append=supports_append, page_objects_max=5
        )
        self.store.on_change = lambda _, moment: self._step(moment)
        self._doubtful: list[Change] = []
        self._epoch = 0
        self._forgets = forgets
        self._lost_commits_per_thousand = lost_commits_per_thousand
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._generations: dict[int, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._must_end = False

    @property
    def owner(self) -> StorageOwner:
        """The present one; it may be dead."""
        return self.owners[-1]

    # ---------------------------------------------------------------------------------- owners

    async def take_over(self, *, former_lives: bool = False) -> None:
        """Let a new owner come and look at everything; the former one is killed, or lives on."""
        while True:
            self._replace_owner(former_lives)
            try:
                await self.owner.run(self._look(self.owner))
            except HostDownError:
                continue
            return

    def _replace_owner(self, former_lives: bool) -> None:
        if self.owners:
            self._doubtful += self.owner.changes
            if not former_lives:
                self.owner.host.kill()
        self.owners = [owner for owner in self.owners if owner.host.is_up]
        for former in self.owners[:-_FORMER_MAX]:
            former.host.kill()
        self.owners = self.owners[-_FORMER_MAX:]
        self._must_end = False
        self._busy.clear()
        self._epoch += 1
        host = self.sim.host(f"owner-{self._epoch}")
        self.owners.append(StorageOwner(self, host, self._epoch, self._forgets))

    async def _look(self, owner: StorageOwner) -> None:
        """Judge the changes whose outcome is unknown, and every byte."""
        names = [*self.model, *(name for change in self._doubtful for name in change.before)]
        found = {name: _facts_of(await owner.storage.info(name)) for name in names}
        for change in self._doubtful:
            self._decide(change, found)
        self._doubtful = []
        for name, expected in self.model.items():
            if found[name] != expected.facts:
                raise SimulationError(f"storage says {found[name]} of {name}, not {expected.facts}")
            await self._read_all(owner, name, expected)

    def _decide(self, change: Change, found: Mapping[str, Facts | None]) -> None:
        """Have the model be what storage says, if that is possible."""
        state = next((state for state in (change.after, change.before) if _shows(found, state)), None)
        if state is None:
            raise SimulationError(f"{change} has half happened, or something else: {found}")
        change.happened = state is change.after
        self._judge_acknowledged(change)
        self._apply(state)

    def _apply(self, state: State) -> None:
        for name, stored in state.items():
            if stored is not None:
                self.model[name] = stored
            elif self.model.pop(name, None) is not None:
                number = int(name.partition(".")[0])
                self._generations[number] = self._generations.get(number, 0) + 1

    @staticmethod
    def _judge_acknowledged(change: Change) -> None:
        if change.acknowledged and change.happened is False and change.before != change.after:
            raise SimulationError(f"{change} was acknowledged and has not happened")

    async def _read_all(self, owner: StorageOwner, name: str, expected: Stored) -> None:
        length = len(expected.content) - expected.start
        for _ in range(_READS_MAX):
            try:
                data = await owner.storage.read_stored(name, expected.start, length)
            except StorageReadError:
                await asyncio.sleep(0.1)
                continue
            if data != expected.content[expected.start :]:
                raise SimulationError(f"storage holds other bytes of {name}")
            return
        raise StalledError(f"{name} cannot be read")

    # ---------------------------------------------------------------------------------- rows

    async def commit(self, epoch: int, changes: dict[str, bytes | None]) -> None:
        """Commit rows through the log: it happens in the order of arrival, wherever its caller is by then."""
        loop = asyncio.get_running_loop()
        arrival: asyncio.Future[bool] = loop.create_future()
        loses = self.entropy.randbelow(1000) < self._lost_commits_per_thousand

        def arrive() -> None:
            taken = epoch == self._epoch and not self._must_end
            if taken:
                self._step(Moment.BEFORE)
                taken = epoch == self._epoch
            if taken:
                self._must_end = loses  # the log takes no more of an owner that does not know what it has
                for key, row in changes.items():
                    if row is None:
                        self.durable.pop(key, None)
                    else:
                        self.durable[key] = row
                self._step(Moment.AFTER)
            if not arrival.done():
                arrival.set_result(taken)

        way_s = self.store.faults.latency_s_max
        loop.call_later(way_s * self.entropy.random(), arrive, context=Context())
        taken = await arrival
        await asyncio.sleep(way_s * self.entropy.random())
        if not taken and epoch == self._epoch:
            raise WalWriteError("the log has failed")
        if not taken:
            raise FencedOutError(f"epoch {epoch} is over")
        if loses:
            raise WalWriteError("the reply was lost")

    def _step(self, moment: Moment) -> None:
        self.steps_made += moment is Moment.BEFORE
        self.on_step(self.steps_made, moment)

    # ---------------------------------------------------------------------------------- changes

    def name_of(self, number: int) -> str:
        """Return the present name of one of the segments; one that was deleted never comes back."""
        return f"{number}.{self._generations.get(number, 0)}"

    async def write(self, name: str, sizes: list[int], *, wait: bool = True) -> None:
        """Append so many buffers."""
        buffers = [self.entropy.token(size) for size in sizes]

        def plan() -> Plan | None:
            stored = self.model.get(name)
            if stored is not None and stored.sealed:
                return None
            before = stored or Stored()
            after = replace(before, content=before.content + b"".join(buffers))
            offset = len(before.content)
            return Plan(
                {name: stored}, {name: after}, lambda it: it.write(name, offset, buffers, create=True)
            )

        await self._begin([name], plan, wait)

    async def seal(self, name: str, *, wait: bool = True) -> None:
        """Seal."""

        def plan() -> Plan | None:
            stored = self.model.get(name)
            if stored is None:
                return None
            return Plan({name: stored}, {name: replace(stored, sealed=True)}, lambda it: it.seal(name))

        await self._begin([name], plan, wait)

    async def truncate(self, name: str, thousandths: int, *, wait: bool = True) -> None:
        """Drop so much of its bytes."""

        def plan() -> Plan | None:
            stored = self.model.get(name)
            if stored is None:
                return None
            offset = len(stored.content) * thousandths // 1000
            after = replace(stored, start=max(stored.start, offset))
            return Plan({name: stored}, {name: after}, lambda it: it.truncate(name, offset))

        await self._begin([name], plan, wait)

    async def concat(self, target: str, source: str, *, wait: bool = True) -> None:
        """Merge a source, which is sealed for that."""
        if target == source:
            return
        await self.seal(source)

        def plan() -> Plan | None:
            into, content = self.model.get(target), self.model.get(source)
            if into is None or content is None or into.sealed or not content.sealed or content.start:
                return None
            offset = len(into.content)
            after = replace(into, content=into.content + content.content)
            return Plan(
                {target: into, source: content},
                {target: after, source: None},
                lambda it: it.concat(target, offset, source),
            )

        await self._begin([target, source], plan, wait)

    async def delete(self, name: str, *, wait: bool = True) -> None:
        """Delete."""

        def plan() -> Plan | None:
            stored = self.model.get(name)
            return None if stored is None else Plan({name: stored}, {name: None}, lambda it: it.delete(name))

        await self._begin([name], plan, wait)

    async def tidy(
        self, what: Callable[[StorageOwner], Awaitable[object]], *, former: bool = False, wait: bool = True
    ) -> None:
        """Have an owner do what changes no segment, as far as it goes."""
        task = asyncio.ensure_future(self._tidy(self.owners[0] if former else self.owner, what))
        self._tasks.add(task)
        if wait:
            await task

    async def _tidy(self, owner: StorageOwner, what: Callable[[StorageOwner], Awaitable[object]]) -> None:
        try:
            await owner.run(_perform(what, owner))
        except CorruptionError:
            if owner is self.owner:
                raise
        except FencedOutError:
            if owner is self.owner:
                raise SimulationError("the present owner was fenced out") from None
        except (HeadraceError, HostDownError):
            pass

    async def write_as_former(self, name: str) -> None:
        """Have the oldest owner that lives write, if it is a former one: objects are made, nothing else."""
        former = self.owners[0]
        if former is self.owner:
            return
        data = self.entropy.token(1 + self.entropy.randbelow(150))

        async def work(owner: StorageOwner) -> None:
            info = await owner.storage.info(name)
            await owner.storage.write(name, 0 if info is None else info.length, [data], create=True)
            raise SimulationError("a former owner has committed")

        await self.tidy(work, former=True)

    async def end_what_must(self) -> None:
        """Let a new owner come if the present one has ended."""
        if self._must_end or not self.owner.host.is_up:
            await self.take_over()

    async def _begin(self, names: list[str], plan: Callable[[], Plan | None], wait: bool) -> None:
        await self.end_what_must()
        while waiting := [self._busy[name] for name in names if name in self._busy]:
            await asyncio.wait(waiting)
            for task in waiting:
                task.result()
            await self.end_what_must()
        gone = any(name != self.name_of(int(name.partition(".")[0])) for name in names)
        planned = None if gone else plan()
        if planned is None:
            return
        task = asyncio.ensure_future(self._run(self.owner, planned))
        self._busy.update(dict.fromkeys(names, task))
        self._tasks.add(task)
        if wait:
            await asyncio.wait([task])
            task.result()

    async def _run(self, owner: StorageOwner, plan: Plan) -> None:
        change = Change(plan.before, plan.after)
        owner.changes.append(change)
        try:
            await owner.run(_perform(plan.perform, owner.storage))
        except HostDownError:
            return  # the next owner decides
        except WalWriteError:
            return  # the owner must end, and the next one decides
        except FencedOutError:
            if owner is self.owner:
                raise SimulationError("the present owner was fenced out") from None
            return
        except CorruptionError:
            if owner is self.owner:
                raise
            return
        except (ChunkExistsError, OverloadError):
            if owner is self.owner:
                self._end(owner, change, plan.before)
            return
        except HeadraceError as error:
            if owner is self.owner and isinstance(error, RequestError):
                raise SimulationError(f"{change} was refused") from error
            if owner is self.owner and owner.host.is_up:
                await self._ask(owner, change)
            return
        change.acknowledged = True
        if owner is self.owner:
            self._end(owner, change, plan.after)
        elif change.happened is not None:
            self._judge_acknowledged(change)

    async def _ask(self, owner: StorageOwner, change: Change) -> None:
        """Ask the owner itself what has happened."""

        async def see() -> dict[str, Facts | None]:
            return {name: _facts_of(await owner.storage.info(name)) for name in change.before}

        try:
            found = await owner.run(see())
        except HostDownError:
            return
        if owner is self.owner:
            owner.changes.remove(change)
            self._decide(change, found)
            self._free(change)

    def _end(self, owner: StorageOwner, change: Change, state: State) -> None:
        owner.changes.remove(change)
        self._apply(state)
        self._free(change)

    def _free(self, change: Change) -> None:
        for name in change.before:
            self._busy.pop(name, None)

    # ---------------------------------------------------------------------------------- looking

    async def read_at_random(self) -> None:
        """Read for ever, by any owner that lives, and compare; the present one has to succeed."""
        while True:
            await asyncio.sleep(0.01 * self.entropy.random())
            names = [name for name, stored in self.model.items() if len(stored.content) > stored.start]
            owners = [owner for owner in self.owners if owner.host.is_up]
            if not names or not owners:
                continue
            owner = owners[self.entropy.randbelow(len(owners))]
            name = names[self.entropy.randbelow(len(names))]
            expected = self.model[name]
            offset = expected.start + self.entropy.randbelow(len(expected.content) - expected.start)
            length = 1 + self.entropy.randbelow(len(expected.content) - offset)
            try:
                data = await owner.run(owner.storage.read_some(name, offset, length))
            except (HeadraceError, HostDownError) as error:
                if owner is self.owner:
                    self._judge_failed_read(error, name, offset)
                continue
            if data != expected.content[offset : offset + len(data)]:
                raise SimulationError(f"other bytes are read of {name} at {offset}")

    def _judge_failed_read(self, error: Exception, name: str, offset: int) -> None:
        """Say whether the present owner may fail so: what it reads may have been dropped meanwhile."""
        if isinstance(error, StorageReadError | HostDownError) or name in self._busy:
            return
        stored = self.model.get(name)
        if isinstance(error, NoSuchSegmentError) and stored is None:
            return
        if isinstance(error, SegmentTruncatedError) and stored is not None and stored.start > offset:
            return
        raise SimulationError(f"{name} cannot be read at {offset}") from error

    async def finish(self) -> None:
        """Nothing goes wrong any more: all is there, and no object, row or garbage that is not needed.

        Raises:
            SimulationError: something is.
        """
        for owner in self.owners:
            owner.host.kill()
        for task in self._tasks:
            await task
        self.store.faults = ObjectStoreFaults()
        self._lost_commits_per_thousand = 0
        self.on_step = lambda number, moment: None
        await self.store.settle()
        await self.take_over()
        storage = self.owner.storage
        for name in self.model:
            await self.owner.run(merge_all(self.owner, name))
            await self.owner.run(self.owner.rewriter.drop_truncated(name))
        await self.owner.run(self._look(self.owner))
        await self.owner.run(storage.garbage.collect())  # what former owners dropped is due a while later
        await asyncio.sleep(2 * self.config.garbage_delay_s)
        while await self.owner.run(storage.garbage.collect()):
            pass
        await self.owner.run(storage.garbage.collect_orphans())
        named = set(self._chunks())
        if named != set(self.store.objects):
            left = sorted(self.store.objects.keys() - named)
            raise SimulationError(f"objects are missing or left over: {left or named}")
        rows = {key for key in self.durable if key.startswith((CHUNK_PREFIX, GARBAGE_PREFIX))}
        if rows != {chunk_key(name) for name in named}:
            raise SimulationError(f"rows are left over: {sorted(rows)}")
        if {
            key.removeprefix(SEGMENT_PREFIX) for key in self.durable if key.startswith(SEGMENT_PREFIX)
        } != set(self.model):
            raise SimulationError("there are rows of other segments")

    def _chunks(self) -> Iterator[str]:
        """Yield the chunks of all segments, whose layouts are whole."""
        for name in self.model:
            layout = load_layout(name, self.durable.get)
            assert layout is not None
            assert layout.first_chunk_start == layout.start_offset, "bytes are left that were truncated"
            yield from (chunk.name for chunk, _ in walk_chunks(layout, self.durable.get))


async def _perform(perform: Callable[[S], Awaitable[object]], by: S) -> None:
    await perform(by)


async def merge_all(owner: StorageOwner, name: str) -> None:
    """Merge the small chunks of a segment, until none are left that are worth it."""
    place = 0
    for _ in range(_MERGES_MAX):
        step = await owner.rewriter.merge_some(name, place)
        if step.is_done:
            return
        place = step.place
    raise StalledError(f"merging the chunks of {name} has no end")


def _shows(found: Mapping[str, Facts | None], state: State) -> bool:
    return all(found[name] == (stored and stored.facts) for name, stored in state.items())


def _facts_of(info: StoredSegmentInfo | None) -> Facts | None:
    return None if info is None else (info.length, info.start_offset, info.sealed)

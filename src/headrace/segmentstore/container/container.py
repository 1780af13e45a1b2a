"""The container: single owner of a part of all segments, and all calls about them.

Public calls run on the container's loop. Every change of a segment becomes an operation of the durable log;
every read goes through the read index; the storage writer stores bytes in the background.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from headrace.errors import (
    ClosedError,
    ContainerOfflineError,
    CorruptionError,
    NoSuchSegmentError,
)
from headrace.model import attributes as attr
from headrace.segmentstore.attributes.segment_index import IndexStorage
from headrace.segmentstore.attributes.segment_indexes import SegmentIndexes
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.container.components import ContainerComponents
from headrace.segmentstore.container.config import ContainerConfig
from headrace.segmentstore.container.evictions import Evictions
from headrace.segmentstore.container.merged_loads import MergedLoads
from headrace.segmentstore.container.owner_question import OwnerQuestion
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.segment_changes import SegmentChanges
from headrace.segmentstore.container.segment_directory import SegmentDirectory
from headrace.segmentstore.container.segment_merges import SegmentMerges
from headrace.segmentstore.container.segment_statistics import SegmentStatistics, count_segments
from headrace.segmentstore.container.tiers import ContainerTiers
from headrace.segmentstore.contract import ReadResult
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.tables import ContainerTables, new_seed

P = ParamSpec("P")
R = TypeVar("R")
Part = TypeVar("Part")
About = TypeVar("About", bound=str | SegmentState)


def _of(
    part: Callable[[SegmentContainer], Part],
    verb: Callable[Concatenate[Part, About, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SegmentContainer, About, P], Coroutine[Any, Any, R]]:
    """Return the verb of a part as one of the container, which raises ContainerOfflineError while offline."""

    @wraps(verb)
    async def ask(self: SegmentContainer, segment: About, /, *args: P.args, **options: P.kwargs) -> R:
        if not self._term.online:
            self._term.check_online(segment if isinstance(segment, str) else segment.name)
        return await verb(part(self), segment, *args, **options)

    return ask


class SegmentContainer:
    """One container of one segment store process."""

    _directory: SegmentDirectory
    _changes: SegmentChanges
    _merges: SegmentMerges

    def __init__(
        self,
        container_id: int,
        components: ContainerComponents,
        config: ContainerConfig,
        on_failed: Callable[[SegmentContainer, BaseException], None],
    ) -> None:
        self.container_id = container_id
        self.may_answer = components.may_answer
        """At the moment of each answer: whether this process may give it."""
        self._clock = components.clock
        self._active_segments_max = config.eviction.active_segments_max
        self._state = ContainerState(container_id)
        self._indexes = SegmentIndexes(
            self._running_storage, components.index_pages, config.attributes, self._judge_read
        )
        self._entropy = components.entropy
        self.tables = ContainerTables(self, self._indexes, components.entropy, config.tables)
        self._catalogue = SegmentCatalogue(container_id, self.tables)
        self.tiers = ContainerTiers(
            self._state,
            self._catalogue,
            self.tables,
            self._indexes,
            components,
            config,
            on_log_truncated=self._on_log_truncated,
            on_ended=lambda error: on_failed(self, error),
        )
        self._term = self.tiers.term
        self._log = self.tiers.log
        self._read_index = self.tiers.read_index
        self._values = self.tiers.attribute_values
        self.evictions = Evictions(
            self._state,
            self._log,
            self._catalogue,
            self.tables,
            self.tiers,
            self.delete,
            config.eviction,
            min(config.checkpoint_part_bytes, components.wal.frame_bytes_max // 2),
            components.wal.frame_bytes_max * components.wal.frames_free // 2,
        )
        self._directory = SegmentDirectory(
            self._state,
            self._log,
            self._catalogue,
            self.tiers.supervisor,
            self.evictions.free_slots,
            self.tiers.stored_length,
            self.tiers.take_rows,
            self._values,
        )
        self._changes = SegmentChanges(self._log, self._values)
        self.merged_loads = MergedLoads()
        self._merges = SegmentMerges(
            self._directory,
            self._log,
            self._term,
            self.merged_loads,
            self._values,
            self._active_segments_max,
        )

    # -------------------------------------------------------------------------------------- life

    async def start(self) -> None:
        """Take ownership of the log, recover, start the storage writer. Accepts requests when it returns.

        Raises:
            DataCorruptionError: the log or the storage metadata contradicts itself; nothing is served.
            FencedOutError: another owner took over meanwhile.
        """
        try:
            await self.tiers.recover()
            await self.tiers.start(await self._own_table(self.tiers.table_rows.name))
            self._catalogue.open(await self._own_table(self._catalogue.name))
            await self.evictions.delete_stale_transients()
        except CorruptionError as error:
            judged = await self._term.judge(error)
            if judged is error:
                raise
            raise judged from error
        self._state.bound_active(self._active_segments_max)
        self.tiers.supervisor.spawn("evictions", self.evictions.run())

    async def _own_table(self, name: str) -> SegmentState:
        """Return a table that the container keeps for itself; it is made in a new one."""
        attributes = {**self._catalogue.attributes, attr.TABLE_HASH_SEED: new_seed(self._entropy)}
        return self._state.find(name) or await self.create(name, attributes)

    async def stop(self) -> None:
        """Stop in order: what was accepted becomes durable, what waits is notified, and within a bounded time
        unstored bytes are stored. A crash only makes recovery longer. Tasks, threads and files are ended also
        after an error or a cancellation.
        """
        try:
            await self.tiers.finish()
        finally:
            try:
                await self.tables.close()
            finally:
                await self.tiers.stop()

    @property
    def online(self) -> bool:
        return self._term.online

    @property
    def waits_for_space(self) -> bool:
        """Whether the log waits for space on a full disk: appends wait, and so does a start."""
        return self._log.waits_for_space

    @property
    def state(self) -> ContainerState:
        """The container's state, for inspection and checks only."""
        return self._state

    def now_ms(self) -> int:
        """Return the time that a change would get now."""
        return self._clock.now_ms()

    @property
    def log(self) -> DurableLog:
        return self._log

    async def flush_storage(self) -> None:
        """Store all unstored bytes now."""
        await self.tiers.flush_storage()

    def _running_storage(self) -> IndexStorage:
        storage = self.tiers.storage
        if storage is None:
            raise ContainerOfflineError("the container is still recovering")
        return storage

    async def _judge_read(self, error: CorruptionError) -> BaseException:
        return await self.tiers.judge_read(error)

    def _on_log_truncated(self) -> None:
        self.evictions.on_log_truncated()

    # -------------------------------------------------------------------------------------- look-up

    async def check_owner(self) -> None:
        """See :meth:`OwnershipTerm.check_owner`."""
        await self._term.check_owner()

    async def check_refusal(self) -> None:
        """Wait until the reason of a refusal is durable.

        Raises:
            FencedOutError, ContainerOfflineError: the reason may be outdated, or never become durable.
        """
        await self._log.flush()
        await self._term.check_owner()

    def find_segment(self, name: str) -> SegmentState | None:
        """Return the live segment of that name if it is active."""
        self._term.check_online(name)
        return self._state.find(name)

    def find_nowait(self, name: str) -> SegmentState | None:
        """See :meth:`SegmentDirectory.find_nowait`."""
        self._term.check_online()
        return self._directory.find_nowait(name)

    resolve = _of(lambda self: self._directory, SegmentDirectory.resolve)
    read_info = _of(lambda self: self._directory, SegmentDirectory.read_info)
    read_attribute = _of(lambda self: self._directory, SegmentDirectory.read_attribute)

    def append_target(self, name: str) -> AppendTarget | None:
        """The append target of one segment; None if that takes :meth:`resolve`.

        Raises:
            NoSuchSegmentError, ContainerOfflineError.
        """
        state = self.find_nowait(name)
        return None if state is None else self.target_of(state)

    def target_of(self, segment: SegmentState) -> AppendTarget:
        """The append target of a segment, which stays active until the target is closed."""
        self._term.check_online()
        return AppendTarget(
            self._log.processor, self._state, segment, self._ask_owner, self._values, self.may_answer
        )

    def _ask_owner(self, question: OwnerQuestion) -> None:
        try:
            self.tiers.supervisor.spawn("owner question", question.ask(self._term.check_owner))
        except ClosedError:
            question.answer(ContainerOfflineError(f"container {self.container_id} stops"))

    # -------------------------------------------------------------------------------------- create, delete

    async def create(self, name: str, attributes: dict[bytes, int]) -> SegmentState:
        """Create an empty segment with these core attributes. Raises as :meth:`SegmentDirectory.create`."""
        self._term.check_online(name)
        values = {
            attr.CREATION_TIME: self._clock.now_ms(),
            attr.EVENT_COUNT: 0,
            attr.CREATION_EPOCH: self._state.epoch,
            **attributes,
        }
        return await self._directory.create(name, values)

    async def delete(self, segment: SegmentState) -> None:
        """Delete a live segment. Raises NoSuchSegmentError if it is retired already."""
        self._term.check_online()
        self._merges.on_named(segment)  # before: other callers may see the deletion first
        try:
            await self._changes.delete(segment)
        finally:
            self.tables.drop(segment.name)

    # -------------------------------------------------------------------------------------- change

    append = _of(lambda self: self._changes, SegmentChanges.append)
    update_attributes = _of(lambda self: self._changes, SegmentChanges.update_attributes)
    seal = _of(lambda self: self._changes, SegmentChanges.seal)
    truncate = _of(lambda self: self._changes, SegmentChanges.truncate)
    merge = _of(lambda self: self._merges, SegmentMerges.merge)
    merge_batch = _of(lambda self: self._merges, SegmentMerges.merge_batch)

    async def purge(self, names: Sequence[str]) -> None:
        """Make what was truncated or deleted before this unreadable: in the log, and, of the live segments
        among ``names`` and of all garbage, in storage. Raises as :meth:`Purge.run`.
        """
        self._term.check_online()
        purge = self.tiers.purge
        assert purge is not None
        stored: list[str] = []
        for name in names:
            with suppress(NoSuchSegmentError):
                stored.append((await self.resolve(name)).storage_name)
        await purge.run(stored)

    # -------------------------------------------------------------------------------------- read

    async def read(self, segment: SegmentState, offset: int, length_max: int, *, wait: bool) -> ReadResult:
        """See :meth:`ReadIndex.read`."""
        self._term.check_online(segment.name)
        transitions.check_active(segment)
        with segment.held():
            try:
                return await self._read_index.read(segment, offset, length_max, wait=wait)
            except CorruptionError as error:
                judged = await self.tiers.judge_read(error)
                if judged is error:
                    raise
                raise judged from error

    def read_nowait(self, segment: SegmentState, offset: int, length_max: int) -> ReadResult | None:
        """See :meth:`ReadIndex.read_nowait`."""
        self._term.check_online(segment.name)
        return self._read_index.read_nowait(segment, offset, length_max)

    # -------------------------------------------------------------------------------------- introspection

    def segment_statistics(self) -> SegmentStatistics:
        """Count active segments, activations and evictions."""
        return count_segments(self._state, self._catalogue, self._directory, self.evictions)

    def statistics(self) -> dict[str, object]:
        """Statistics by part; parts that do not run are left out."""
        tiers, online = self.tiers, self.online
        parts: dict[str, Any] = {
            "storage": tiers.storage,
            "storage_writer": tiers.writer,
            "storage_checkpoints": tiers.checkpoints,
        }
        if online:
            parts |= {"durable_log": self._log, "memory_log": self._log.memory_log}
            parts |= {"read_index": self._read_index, "tables": self.tables, "tasks": tiers.supervisor}
            parts["attributes"] = tiers.index_writer
            parts["optimiser"] = tiers.optimiser
        found: dict[str, object] = {
            name: part.statistics() for name, part in parts.items() if part is not None
        }
        if online:
            found["segments"] = self.segment_statistics()
        return found

    def check(self) -> None:
        """Assert every invariant of the container's state."""
        self._state.check()

"""Finds and creates the segments of a container by name, whether they are active or not.

For one name there is at most one creation and one activation at a time, and both check the catalogue and then
memory, so that a name never stands for two segments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from headrace.errors import (
    DataCorruptionError,
    NoSuchSegmentError,
    SegmentExistsError,
    TooManyActiveSegmentsError,
)
from headrace.runtime.supervisor import Supervisor
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.container.catalogue_row import CatalogueRow
from headrace.segmentstore.container.segment_catalogue import SegmentCatalogue
from headrace.segmentstore.container.shared_tasks import SharedTasks
from headrace.segmentstore.contract import SegmentInfo
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.durablelog.operation_processor import Propose
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.metadata_checkpoint import encode_segment_row
from headrace.segmentstore.state.segment_state import SegmentState

_NAME_OVERHEAD_BYTES = 300


class SegmentDirectory:
    """Names to segments.

    Args:
        free_slots: evicts idle segments because no slot is free; returns whether one may be free now.
        stored_length: returns the stored length of a segment.
        take_rows: makes rows of storage of an inactive segment durable where those of others are.
        values: loads attributes.
    """

    def __init__(
        self,
        state: ContainerState,
        log: DurableLog,
        catalogue: SegmentCatalogue,
        supervisor: Supervisor,
        free_slots: Callable[[], Awaitable[bool]],
        stored_length: Callable[[SegmentState], Awaitable[int]],
        take_rows: Callable[[Mapping[str, bytes]], Awaitable[None]],
        values: AttributeValues,
    ) -> None:
        self._state = state
        self._log = log
        self._catalogue = catalogue
        self._free_slots = free_slots
        self._stored_length = stored_length
        self._take_rows = take_rows
        self._values = values
        self._creating: dict[str, asyncio.Future[None]] = {}
        self.activations = SharedTasks[SegmentState](supervisor, "activation of")

    # -------------------------------------------------------------------------------------- look-up

    def find_nowait(self, name: str) -> SegmentState | None:
        """Return the live segment, or None if that takes :meth:`resolve`.

        Raises:
            NoSuchSegmentError: there is certainly none.
        """
        state = self._state.find(name)
        if name in self.activations:
            return None
        if state is not None:
            self._check_visible(state)
        elif self._catalogue.is_absent(name):
            raise NoSuchSegmentError(name)
        return state

    async def resolve(self, name: str) -> SegmentState:
        """Return the live segment, activating it if it is inactive.

        Raises:
            NoSuchSegmentError: there is none.
            TooManyActiveSegmentsError: no slot is free for it.
            DataCorruptionError: the catalogue's row is damaged, or contradicts storage.
            StorageReadError: the catalogue cannot be read now.
            ContainerOfflineError: the container ended meanwhile.
        """
        state = self._state.find(name)
        if state is None or name in self.activations:
            if name not in self.activations and self._catalogue.is_absent(name):
                raise NoSuchSegmentError(name)
            state = await self.activations.join(name, partial(self._activate, name))
            state.touch(self._state.sequence)
        self._check_visible(state)
        return state

    async def resolve_accepted(self, name: str) -> SegmentState | None:
        """Return the segment as :meth:`resolve`, also one whose merge or deletion is in flight; None if there
        is none.
        """
        try:
            return await self.resolve(name)
        except NoSuchSegmentError:
            return self._state.by_name.get(name)

    async def read_info(self, name: str) -> SegmentInfo:
        """Durable facts about a live segment, without activating it. Raises as :meth:`resolve`."""
        return self.info_of(await self._find_where_it_is(name))

    async def read_attribute(self, name: str, attribute_id: bytes) -> int:
        """The durable value of one of its attributes. Raises as :meth:`resolve`."""
        state = await self._find_where_it_is(name)
        value = state.attributes.get(attribute_id)
        if value is None:
            state = await self.resolve(name)
            with state.held():
                async with self._values.held(state, (attribute_id,)):
                    value = state.attributes.get(attribute_id)
        self._check_visible(state)
        assert value is not None, "it was loaded, and held"
        return value

    async def _find_where_it_is(self, name: str) -> SegmentState:
        """Return a segment from memory, which may be retired, or from the catalogue if it is inactive."""
        state = self._state.find(name)
        if state is None:
            row = await self._catalogue.find(name)
            state = self._state.by_name.get(name)
            if state is None:
                if row is None or self._is_stale(row):
                    raise NoSuchSegmentError(name)
                state = row.segment
        return state

    def info_of(self, state: SegmentState) -> SegmentInfo:
        """Durable facts about a segment. Raises NoSuchSegmentError if it is retired, or not durable yet."""
        self._check_visible(state)
        return SegmentInfo(
            state.name,
            state.start_offset,
            state.durable_length,
            state.sealed,
            state.last_modified_ms,
            state.stored_length,
            state.attributes.durable,
        )

    def _check_visible(self, state: SegmentState) -> None:
        """Raise NoSuchSegmentError for a segment that is retired, or whose creation is not durable. A segment
        that exists is visible to all calls, also while another call tries to create it.
        """
        is_beginning = state.name in self._creating and not state.is_created
        if state.accepted_deleted or state.accepted_merged or is_beginning:
            raise NoSuchSegmentError(state.name)

    def _is_stale(self, row: CatalogueRow) -> bool:
        """Whether a row is about a segment in memory, active or retired."""
        return row.segment.segment_id in self._state.by_id

    # -------------------------------------------------------------------------------------- create

    async def create(self, name: str, values: Mapping[bytes, int]) -> SegmentState:
        """Create an empty segment.

        Raises:
            SegmentExistsError: it exists, durably; nothing changed.
            TooManyActiveSegmentsError: no slot is free for it.
        """
        while (pending := self._creating.get(name)) is not None:
            # Another request is creating it: "exists" is true only once that is durable.
            await asyncio.wait([pending])
        created = self._creating[name] = asyncio.get_running_loop().create_future()
        mapped: asyncio.Future[Any] | None = None
        ticket: Any = None
        try:
            await self._check_free(name)
            propose = partial(_propose_map, self._state, name, values)
            while True:
                mapped = self._submit(name, propose)
                try:
                    ticket = await asyncio.shield(mapped)
                    break
                except TooManyActiveSegmentsError:
                    if not await self._free_slots():
                        raise
        finally:
            if mapped is None or mapped.done():
                self._end_creation(name, created)
            else:  # the caller is cancelled; its segment is created all the same
                mapped.add_done_callback(lambda _: self._end_creation(name, created))
                mapped.add_done_callback(lambda done: done.cancelled() or done.exception())  # not awaited
        # It was created, though it may already be evicted or deleted.
        state = self._state.by_id.get(ticket.operation.segment_id)
        return await self.resolve(name) if state is None else state

    async def _check_free(self, name: str) -> None:
        """Raise SegmentExistsError if the name stands for a segment, durably."""
        state = self._state.find(name)
        if state is not None and (state.accepted_deleted or state.accepted_merged):
            await self._log.flush()
        elif state is not None and state.is_created:
            # Durable, so without the log: a creation in flight would hide the segment from other calls.
            raise SegmentExistsError(name)
        elif state is None and not self._catalogue.is_absent(name):
            row = await self._catalogue.find(name)
            if row is not None and not self._is_stale(row):
                raise SegmentExistsError(name)

    def _end_creation(self, name: str, created: asyncio.Future[None]) -> None:
        del self._creating[name]
        if not created.done():
            created.set_result(None)

    # -------------------------------------------------------------------------------------- activate

    async def _activate(self, name: str) -> SegmentState:
        """Activate a segment. One call per name at a time."""
        row = await self._catalogue.find(name)
        active = self._state.by_name.get(name)
        if active is not None:
            return active
        if row is None or self._is_stale(row):
            raise NoSuchSegmentError(name)
        if row.storage_rows:
            await self._take_rows(row.storage_rows)
        stored = await self._stored_length(row.segment)
        if stored != row.segment.durable_length:
            raise DataCorruptionError(
                f"segment {name!r}: the catalogue says {row.segment.durable_length} bytes, storage {stored}"
            )
        propose = partial(_propose_activate, self._state, row)
        while True:
            try:
                await self._submit(name, propose, len(row.data))
                break
            except TooManyActiveSegmentsError:
                if not await self._free_slots():  # true also if another call took the slot
                    raise
        state = self._state.by_id[row.segment.segment_id]
        state.note_catalogue_row(row.data)
        return state

    def _submit(self, name: str, propose: Propose, size_bytes: int = 0) -> asyncio.Future[Any]:
        size_bytes += _NAME_OVERHEAD_BYTES + len(name.encode())
        return self._log.submit(propose, size_bytes, critical=name.startswith("_system/"))


def _propose_map(state: ContainerState, name: str, values: Mapping[bytes, int], sequence: int) -> Any:
    return transitions.propose_map(state, sequence, name, values)


def _propose_activate(state: ContainerState, row: CatalogueRow, sequence: int) -> Any:
    segment = row.segment
    return transitions.propose_activate(state, sequence, segment.segment_id, encode_segment_row(segment))

"""The interface of the segment store: calls by segment name, made on the container of the segment.

Ingress, the controller of a standalone process and the tests use this class. Each method states the contract
of the protocol; only this module looks containers up and distinguishes streams from tables.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from headrace.errors import (
    AttributeMismatchError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    RequestError,
    SegmentError,
    UnknownOutcomeError,
    UnsupportedError,
)
from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.change_marker import Looked, decode_marker, encode_marker
from headrace.model.hashing import container_of
from headrace.model.names import container_key, transient_segment_name
from headrace.model.tables import TableEntry
from headrace.runtime.bulk import each_of
from headrace.runtime.entropy import Entropy
from headrace.runtime.loop_budget import LoopBudget
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.container.container import SegmentContainer
from headrace.segmentstore.container.segment_merges import check_count
from headrace.segmentstore.contract import ReadResult, SegmentInfo
from headrace.segmentstore.hosting.registry import ContainerRegistry
from headrace.segmentstore.segment_names import SEGMENT_NAME_BYTES_MAX, check_segment_name, is_internal
from headrace.segmentstore.state.segment_state import SegmentState
from headrace.segmentstore.tables.tables import ContainerTables
from headrace.segmentstore.tables.update_batch import OnUpdated

P = ParamSpec("P")
R = TypeVar("R")

_NAMES_PER_ITERATION: Final = 64
"""Names hashed before yielding to the loop: one of the maximum length takes 0.2 ms."""

_STATES_PER_ITERATION: Final = 2000
_PURGED_AT_ONCE: Final = 4
"""Containers: each may rewrite a chunk of some 32 MiB."""
_CLOCK_STEP_MS: Final = 2000
"""A clock may go back so far between two calls without a change being overlooked."""


def _of_tables(
    verb: Callable[Concatenate[ContainerTables, str, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[SegmentStore, str, P], Coroutine[Any, Any, R]]:
    """Return the verb of the store that asks the tables of the segment's container, as their owner."""

    @wraps(verb)
    async def ask(self: SegmentStore, segment: str, /, *args: P.args, **options: P.kwargs) -> R:
        async with self._owning(segment, NoSuchSegmentError) as container:
            return await verb(container.tables, segment, *args, **options)

    return ask


def _of_stream(
    verb: Callable[Concatenate[SegmentContainer, SegmentState, P], Coroutine[Any, Any, R]],
    doubted: type[RequestError] | tuple[()] = (),
) -> Callable[Concatenate[SegmentStore, str, P], Coroutine[Any, Any, R]]:
    """Return the verb of the store that asks the segment's container about a stream's segment, and confirms
    ``doubted`` refusals; in any case that there is no such segment.
    """

    @wraps(verb)
    async def ask(self: SegmentStore, segment: str, /, *args: P.args, **options: P.kwargs) -> R:
        async with self._owning(segment, doubted):
            container, state = await self._stream_segment(segment)
            return await verb(container, state, *args, **options)

    return ask


class _Owning:
    """A block with a container: what it answers goes out only while this process may answer, and a
    ``doubted`` refusal only from the owner, and only once its reason is durable.

    Many callers take it for success that a segment exists, is sealed or is removed, and give up when a source
    is truncated or a value too large. A refusal needs no write: a former owner could send it from outdated
    state, and the owner because of a request that is not durable and that a crash may undo.

    Raises:
        FencedOutError, ContainerOfflineError: instead of such a refusal.
        UnknownOutcomeError: instead of an answer that this process may not give.
    """

    __slots__ = ("_container", "_doubted")

    def __init__(self, container: SegmentContainer, doubted: type[RequestError] | tuple[()]) -> None:
        self._container = container
        self._doubted = doubted

    async def __aenter__(self) -> SegmentContainer:
        return self._container

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._doubted):
            await self._container.check_refusal()
        if not self._container.may_answer() and (error is None or isinstance(error, RequestError)):
            raise UnknownOutcomeError(
                f"container {self._container.container_id} is not served here any more: what the request did "
                "is known to its next owner"
            )


async def _unanswered(question: bytes) -> bytes:  # noqa: ARG001 - of a cluster's store alone
    raise UnsupportedError("this process answers no questions about itself")


class SegmentStore:
    """All segments that this process owns. Every method runs on the store's loop."""

    def __init__(self, registry: ContainerRegistry, entropy: Entropy) -> None:
        self._registry = registry
        self._entropy = entropy
        self.answer: Callable[[bytes], Coroutine[Any, Any, bytes]] = _unanswered
        """Answers what other processes of Headrace ask about this one."""

    def _container(self, name: str) -> SegmentContainer:
        """Return the container of a segment.

        Raises:
            NoSuchSegmentError: the name is internal to a container, or too long for a segment: that needs no
                durable state, and a connection should not wait with a name of 64 KiB.
            ContainerOfflineError: the container does not run here now.
        """
        if is_internal(name) or len(name) > SEGMENT_NAME_BYTES_MAX:
            raise NoSuchSegmentError(name)
        return self._registry.get(name)

    def _owning(self, name: str, doubted: type[RequestError] | tuple[()] = RequestError) -> _Owning:
        """Return :class:`_Owning` of the container of a segment. For calls that only read,
        ``NoSuchSegmentError`` is ``doubted``: their callers may give up for good.
        """
        return _Owning(self._container(name), doubted)

    async def _segment(self, name: str) -> tuple[SegmentContainer, SegmentState]:
        """Return a live segment with its container. Also callers that only read may give up for good.

        Raises:
            NoSuchSegmentError: there is none, durably.
            FencedOutError, ContainerOfflineError: as :class:`_Owning`.
        """
        async with self._owning(name, NoSuchSegmentError) as container:
            return container, await container.resolve(name)

    async def _stream_segment(self, name: str) -> tuple[SegmentContainer, SegmentState]:
        container, state = await self._segment(name)
        check_stream(state)
        return container, state

    def _find_stream(self, name: str) -> tuple[SegmentContainer, SegmentState | None]:
        """Return a segment's container, and the segment if that takes no waiting."""
        container = self._container(name)
        try:
            state = container.find_nowait(name)
        except NoSuchSegmentError:
            return container, None  # that may not be durable
        if state is not None:
            check_stream(state)
        return container, state

    # -------------------------------------------------------------------------------------- segments

    async def create_segment(
        self, segment: str, *, scale_type: int = 0, target_rate: int = 0, rollover_bytes: int = 0
    ) -> None:
        """Create an empty segment. Raises SegmentExistsError, InvalidArgumentError."""
        check_segment_name(segment)
        attributes = {
            attr.SCALE_POLICY_TYPE: scale_type,
            attr.SCALE_POLICY_RATE: target_rate,
            attr.ROLLOVER_SIZE: max(0, rollover_bytes),
        }
        async with self._owning(segment) as container:
            await container.create(segment, attributes)

    async def create_transient_segment(self, parent: str, writer_id: bytes) -> str:
        """Create a scratch segment beside ``parent``, which need not exist, and return its name."""
        name = transient_segment_name(parent, writer_id, self._entropy.token(16))
        check_segment_name(name)
        async with self._owning(name, ()) as container:
            await container.create(name, {attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT})
        return name

    async def update_policy(self, segment: str, scale_type: int, target_rate: int) -> None:
        """Store scaling hints. Raises NoSuchSegmentError, SegmentSealedError."""
        updates = [
            AttributeUpdate(attr.SCALE_POLICY_TYPE, UpdateKind.REPLACE, scale_type),
            AttributeUpdate(attr.SCALE_POLICY_RATE, UpdateKind.REPLACE, target_rate),
        ]
        async with self._owning(segment):
            container, state = await self._segment(segment)
            await container.update_attributes(state, updates)

    async def segment_info(self, segment: str) -> SegmentInfo:
        """Durable facts. Raises NoSuchSegmentError."""
        async with self._owning(segment, NoSuchSegmentError) as container:
            return await container.read_info(segment)

    seal_segment = _of_stream(SegmentContainer.seal, RequestError)
    truncate_segment = _of_stream(SegmentContainer.truncate, RequestError)

    async def purge(self, segments: Sequence[str]) -> dict[int, BaseException | None]:
        """Make unreadable, in every container that runs here, what those of ``segments`` that are in it have
        lost by truncation, and what was deleted of any; return its failure, as of :meth:`Purge.run`, by
        container. Segments that do not exist count as deleted. A purge that failed is repeated.
        """
        containers, count = self._registry.running(), self._registry.container_count
        names: dict[int, list[str]] = {}
        for segment in segments:
            names.setdefault(container_of(segment, count), []).append(segment)
        found: dict[int, BaseException | None] = {}
        for begin in range(0, len(containers), _PURGED_AT_ONCE):
            some = {each.container_id: each for each in containers[begin : begin + _PURGED_AT_ONCE]}
            purges = (each.purge(names.get(number, ())) for number, each in some.items())
            found |= zip(some, await asyncio.gather(*purges, return_exceptions=True), strict=True)
        return found

    async def delete_segment(self, segment: str) -> None:
        """Delete a segment (of any kind). Raises NoSuchSegmentError."""
        async with self._owning(segment):
            container, state = await self._segment(segment)
            await container.delete(state)

    async def segment_infos(self, segments: Sequence[str]) -> list[SegmentInfo | None]:
        """Durable facts of many segments, in their order; None: durably, there is none.

        Raises:
            InvalidArgumentError: they are more than ``BULK_NAMES_MAX``.
        """

        async def info(segment: str) -> SegmentInfo | None:
            try:
                return await self.segment_info(segment)
            except NoSuchSegmentError:
                return None

        return await each_of(segments, info)

    async def delete_segments(self, segments: Sequence[str]) -> None:
        """Delete many segments (of any kind); one that does not exist is deleted already.

        After a failure some of them are. Raises as :meth:`segment_infos`.
        """

        async def delete(segment: str) -> None:
            with suppress(NoSuchSegmentError):
                await self.delete_segment(segment)

        await each_of(segments, delete)

    async def merge_segments(self, target: str, source: str, updates: Sequence[AttributeUpdate] = ()) -> int:
        """Append all of ``source`` to ``target`` and remove it; return the new length of the target.

        Errors name the source, whatever the cause, as the protocol requires.

        Raises:
            NoSuchSegmentError, SegmentSealedError, AttributeMismatchError: nothing was merged.
        """
        container = self._container(target)
        if self._container(source) is not container:
            raise InvalidArgumentError(f"{source!r} and {target!r} live in different containers")
        for update in updates:
            check_free_attribute(update.attribute_id)
        try:
            async with self._owning(target):
                _, state = await self._stream_segment(target)
                check_source(target, source)
                return await container.merge(state, source, updates)
        except AttributeMismatchError:
            raise
        except SegmentError as error:
            error.segment = source
            raise

    async def merge_batch(self, target: str, sources: Sequence[str]) -> list[int]:
        """Merge sources in order; one that does not exist (any more) is skipped. Errors name the target.

        Raises:
            InvalidArgumentError: they are too many, or one of them cannot be merged; sources merged before
                that one stay merged.
        """
        check_count(sources)  # before up to 65,536 names are checked
        await self._check_sources(target, sources)
        try:
            async with self._owning(target):
                container, state = await self._stream_segment(target)
                return await container.merge_batch(state, sources)
        except SegmentError as error:
            error.segment = target
            raise

    async def _check_sources(self, target: str, sources: Sequence[str]) -> None:
        """Refuse sources of a batch that can never be merged into ``target``, before anything happens.

        Sources with the container key of the target are in its container, without a look-up. Look-ups are
        cached by name, so names that no segment can have must not be looked up.
        """
        self._container(target)
        key = container_key(target)
        budget = LoopBudget(_NAMES_PER_ITERATION)
        for source in sources:
            check_source(target, source)
            if len(source) > SEGMENT_NAME_BYTES_MAX:
                raise InvalidArgumentError(
                    f"no segment has a name of {len(source)} characters, as a source does: nothing was merged"
                )
            if container_key(source) == key:
                continue
            await budget.spend()
            container = self._registry.get(target)  # it may have been restarted meanwhile
            if is_internal(source) or self._registry.get(source) is not container:
                raise InvalidArgumentError(
                    f"{source!r} and {target!r} live in different containers: nothing was merged"
                )

    async def changed_segments(self, marker: bytes) -> tuple[bytes, list[tuple[str, int]]]:
        """Return a marker for the next call, and names and durable lengths of active segments, but tables,
        that changed since ``marker`` (empty: all); some are returned twice. None is activated or touched.
        """
        changed: list[tuple[str, int]] = []
        former, looks = decode_marker(marker), {}
        budget = LoopBudget(_STATES_PER_ITERATION)
        for container in self._registry.running():
            now_ms, epoch = container.now_ms(), container.state.epoch
            looked = former.get(container.container_id)
            since_ms = looked.time_ms if looked and looked.epoch == epoch and looked.time_ms <= now_ms else 0
            looks[container.container_id] = Looked(epoch, now_ms - _CLOCK_STEP_MS)
            for each in list(container.state.by_name.values()):
                await budget.spend()
                if each.last_modified_ms >= since_ms and not (each.is_system or each.is_table):
                    changed.append((each.name, each.durable_length))
        return encode_marker(looks), changed

    # -------------------------------------------------------------------------------------- attributes

    async def get_attribute(self, segment: str, attribute_id: bytes) -> int:
        """The durable value, ATTRIBUTE_NULL if it is not set. Raises NoSuchSegmentError."""
        async with self._owning(segment, NoSuchSegmentError) as container:
            return await container.read_attribute(segment, attribute_id)

    async def update_attribute(self, segment: str, attribute_id: bytes, value: int, expected: int) -> bool:
        """Set ``value`` if the attribute is ``expected``, and return whether. Raises SegmentSealedError, and
        UnsupportedError for a table: its index is of keys, so its attributes would stay in memory for ever.
        """
        check_free_attribute(attribute_id)
        update = AttributeUpdate(attribute_id, UpdateKind.REPLACE_IF_EQUALS, value, expected)
        try:
            async with self._owning(segment):
                container, state = await self._segment(segment)
                if state.is_table:
                    raise UnsupportedError(
                        f"segment {segment!r} is a table: it takes no attributes of clients; put an entry"
                    )
                await container.update_attributes(state, [update])
        except AttributeMismatchError:
            return False
        return True

    # -------------------------------------------------------------------------------------- bytes

    read = _of_stream(SegmentContainer.read)
    append = _of_stream(SegmentContainer.append)

    def read_nowait(self, segment: str, offset: int, length_max: int) -> ReadResult | None:
        """Answer from memory at once, or None."""
        container, state = self._find_stream(segment)
        return None if state is None else container.read_nowait(state, offset, length_max)

    def is_at_tail(self, segment: str, offset: int) -> bool | None:
        """Return whether a read there waits for an append; None while the segment is inactive.

        Never raises: False if a read would raise.
        """
        try:
            state = self._container(segment).find_segment(segment)
        except HeadraceError:
            return False
        return None if state is None else offset >= state.durable_length and not state.sealed

    def append_target(self, segment: str) -> AppendTarget | None:
        """The append target of a segment; None if that takes :meth:`open_target`.

        Raises:
            ContainerOfflineError.
        """
        container, state = self._find_stream(segment)
        return None if state is None else container.target_of(state)

    async def open_target(self, segment: str) -> AppendTarget:
        """The append target of a segment that may be inactive.

        Raises:
            NoSuchSegmentError, TooManyActiveSegmentsError, ContainerOfflineError.
        """
        container, state = await self._stream_segment(segment)
        return container.target_of(state)

    # -------------------------------------------------------------------------------------- tables

    async def create_table(self, segment: str, *, key_length: int = 0, rollover_bytes: int = 0) -> None:
        """Create a table: hash (``key_length`` 0) or fixed key. Raises SegmentExistsError."""
        check_segment_name(segment)
        async with self._owning(segment) as container:
            await container.tables.create(segment, key_length, rollover_bytes)

    async def delete_table(self, segment: str, *, must_be_empty: bool) -> None:
        """See :meth:`ContainerTables.delete`."""
        async with self._owning(segment) as container:
            await container.tables.delete(segment, must_be_empty)

    table_info = _of_tables(ContainerTables.info)
    table_update = _of_tables(ContainerTables.update)
    table_remove = _of_tables(ContainerTables.remove)
    table_get = _of_tables(ContainerTables.get)
    table_keys = _of_tables(ContainerTables.keys)
    table_entries = _of_tables(ContainerTables.entries)
    table_delta = _of_tables(ContainerTables.delta)

    def begin_table_update(
        self, segment: str, entries: Sequence[TableEntry], expected_length: int, on_updated: OnUpdated
    ) -> bool:
        return self._container(segment).tables.begin_update(segment, entries, expected_length, on_updated)

    def table_get_nowait(
        self, segment: str, keys: Sequence[bytes], bytes_max: int
    ) -> list[TableEntry | None] | None:
        return self._container(segment).tables.get_nowait(segment, keys, bytes_max)


def check_stream(state: SegmentState) -> None:
    """Raise UnsupportedError for a table, whose bytes are not for clients."""
    if state.is_table:
        raise UnsupportedError(f"segment {state.name!r} is a table: use the table commands")


def check_source(target: str, source: str) -> None:
    """Raise InvalidArgumentError for the target itself: its merge would seal it first."""
    if source == target:
        raise InvalidArgumentError(f"segment {source!r} cannot be merged into itself")


def check_free_attribute(attribute_id: bytes) -> None:
    """Raise InvalidArgumentError for an attribute that only the store may set: type, counts, times."""
    if attr.is_core_attribute(attribute_id):
        raise InvalidArgumentError(f"attribute {attribute_id.hex()} is reserved")

"""Merges of one segment into another, in the order of the calls: seal, merge, repeated requests."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from headrace.errors import (
    ContainerOfflineError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentMergedError,
    SegmentNotSealedError,
    UnsupportedError,
)
from headrace.limits import MERGE_SOURCES_MAX
from headrace.model.attributes import AttributeUpdate
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.container.merged_loads import MergedLoads
from headrace.segmentstore.container.ownership_term import OwnershipTerm
from headrace.segmentstore.container.segment_directory import SegmentDirectory
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.segment_state import SegmentState

MERGES_IN_FLIGHT_MAX: Final = 500
"""Sources of a batch that are active and in flight at once: each is a task, and two requests in a queue of
bounded length."""

MERGED_NAMES_MAX: Final = 10_000
"""Merged sources that a container remembers, to answer a repeated merge request with success."""

_UPDATE_BYTES: Final = 300
"""Upper bound of the bytes of one attribute update in the log."""

Extent = tuple[int, int] | None
"""Where in the target a merge begins and ends; None if there was nothing to merge."""


class SegmentMerges:
    """The merges of one container.

    A repeated merge is answered without a write, by the owner only: a former owner does not know newer
    sources, and its answer would let a transaction count as committed.

    Args:
        loads: notes the merges for the meters of load.
        values: loads attributes.
        active_max: bound of active segments; a batch uses a quarter of them at a time.
    """

    def __init__(
        self,
        directory: SegmentDirectory,
        log: DurableLog,
        term: OwnershipTerm,
        loads: MergedLoads,
        values: AttributeValues,
        active_max: int,
    ) -> None:
        self._directory = directory
        self._log = log
        self._term = term
        self._loads = loads
        self._values = values
        self._at_once = max(1, min(MERGES_IN_FLIGHT_MAX, log.requests_max // 4, active_max // 4))
        self._merged: OrderedDict[str, tuple[SegmentState, int]] = OrderedDict()
        """By name of the source: the source, and the id of the target that has its bytes."""

    async def merge(
        self, target: SegmentState, source_name: str, updates: Sequence[AttributeUpdate] = ()
    ) -> int:
        """Append the whole content of a source to ``target``, atomically, and remove the source.

        Returns the length of the target right after. A source that was merged before counts as merged.

        Raises:
            NoSuchSegmentError: the source is unknown (or the target is gone).
            SegmentSealedError: the target is sealed.
            AttributeMismatchError: a condition on the target does not hold; nothing was merged.
        """
        with ExitStack() as held:
            held.enter_context(target.held())
            [source] = await self._find_sources(target, [source_name], held)
            async with self._values.held(target, [update.attribute_id for update in updates]):
                extent = await self._start(target, source_name, source, updates)
            return target.durable_length if extent is None else extent[1]

    async def merge_batch(self, target: SegmentState, source_names: Sequence[str]) -> list[int]:
        """Merge sources in this order, many in flight at once; a source that does not exist is skipped.

        Returns the length of the target after each. Raises as :meth:`merge`, for the target only. A source
        that cannot be merged refuses those in flight with it; sources merged before stay merged.
        """
        check_count(source_names)
        extents: list[Extent] = []
        with target.held():
            for first in range(0, len(source_names), self._at_once):
                names = source_names[first : first + self._at_once]
                with ExitStack() as held:
                    extents += await self._merge_some(target, names, held)
        return _lengths_after(extents, target.durable_length)

    async def _merge_some(self, target: SegmentState, names: Sequence[str], held: ExitStack) -> list[Extent]:
        sources = await self._find_sources(target, names, held)
        started = [self._start(target, *each, ()) for each in zip(names, sources, strict=True)]
        outcomes = await asyncio.gather(*started, return_exceptions=True)
        if any(isinstance(outcome, NoSuchSegmentError) for outcome in outcomes):
            await self._log.flush()  # the removal of a source may not be durable
        target_is_gone = target.accepted_deleted or target.accepted_merged
        if any(isinstance(outcome, NoSuchSegmentError) for outcome in outcomes):
            await self._term.check_owner()
        extents: list[Extent] = []
        for outcome in outcomes:
            if isinstance(outcome, NoSuchSegmentError) and not target_is_gone:
                extents.append(None)
            elif isinstance(outcome, BaseException):
                raise outcome
            else:
                extents.append(outcome)
        return extents

    async def _find_sources(
        self, target: SegmentState, names: Sequence[str], held: ExitStack
    ) -> list[SegmentState | None]:
        """Return the sources, which ``held`` holds in memory; None for one that does not exist.

        Sources that cannot be merged are refused before any is sealed.

        Raises:
            UnsupportedError: a source is a table.
            InvalidArgumentError: a source is truncated, or the target itself. An error of the target, found
                when they are merged, comes first.
        """
        sources: list[SegmentState | None] = []
        for name in names:
            source = await self._directory.resolve_accepted(name)
            if source is not None:
                if source.is_table:
                    raise UnsupportedError(f"segment {name!r} is a table and cannot be merged")
                held.enter_context(source.held())
            sources.append(source)
        if not (target.accepted_sealed or target.accepted_deleted or target.accepted_merged):
            for source in sources:
                if source is not None and not (source.accepted_deleted or source.accepted_merged):
                    transitions.check_whole(target, source)
        return sources

    def _start(
        self,
        target: SegmentState,
        source_name: str,
        source: SegmentState | None,
        updates: Sequence[AttributeUpdate],
    ) -> Coroutine[object, object, Extent]:
        """Submit seal and merge to the log now, in call order; the coroutine waits for them."""
        if source is None:
            return self._merge_again(target, source_name)
        sealing = None
        if not source.accepted_sealed:
            sealing = self._log.submit(partial(transitions.propose_seal, source), segments=(source,))
            sealing.add_done_callback(_retrieve)

        def propose(sequence: int) -> ops.Merge:
            # The source is checked before the target: one that is merged already counts as merged, whatever
            # happened to the target since.
            transitions.check_live(source)
            operation = transitions.propose_merge(target, source, sequence, updates)
            self._remember(source, target)
            self._loads.note(target, source, operation.offset + operation.length)
            return operation

        merging = self._log.submit(propose, _UPDATE_BYTES * len(updates), segments=(target, source))
        merging.add_done_callback(_retrieve)
        return self._finish(target, source, sealing, merging)

    async def _finish(
        self,
        target: SegmentState,
        source: SegmentState,
        sealing: asyncio.Future[Any] | None,
        merging: asyncio.Future[Any],
    ) -> Extent:
        try:
            operation = (await merging).operation
        except SegmentMergedError:  # by another call, durable or in flight
            return await self._answer_repeated(target, source)
        except SegmentNotSealedError:
            if sealing is not None:
                await sealing  # raises the reason
            raise
        return operation.offset, operation.offset + operation.length

    # -------------------------------------------------------------------------------------- repetitions

    async def _merge_again(self, target: SegmentState, source_name: str) -> Extent:
        """Answer for a name without a segment: its segment may have been merged before.

        Raises:
            NoSuchSegmentError: the newest segment of this name was not merged into ``target``.
        """
        source, target_id = self._merged.get(source_name, (None, -1))
        was_merged = source is not None and target_id == target.segment_id and source.merged
        await self._term.check_owner()
        if not was_merged:
            raise NoSuchSegmentError(source_name)
        return None

    async def _answer_repeated(self, target: SegmentState, source: SegmentState) -> Extent:
        """Answer for a source that another call has merged, once that is durable.

        Raises:
            NoSuchSegmentError: it is merged into another segment.
        """
        was_merged = self._merged.get(source.name) == (source, target.segment_id)
        await self._log.flush()
        if not source.merged:
            raise ContainerOfflineError(f"{source.name!r} was not merged") from None
        await self._term.check_owner()
        if not was_merged:
            raise NoSuchSegmentError(source.name)
        return None

    def on_named(self, segment: SegmentState) -> None:
        """Forget an older merged segment of the name of ``segment``, which is about to be deleted.

        Otherwise a name is freed only by a merge, which replaces what is remembered of the older one.
        """
        source, _ = self._merged.get(segment.name, (None, -1))
        if source is not None and source.segment_id < segment.segment_id:
            del self._merged[segment.name]

    def _remember(self, source: SegmentState, target: SegmentState) -> None:
        self._merged[source.name] = (source, target.segment_id)
        self._merged.move_to_end(source.name)  # a name that is used again would keep its position
        if len(self._merged) > MERGED_NAMES_MAX:
            self._merged.popitem(last=False)


def check_count(source_names: Sequence[str]) -> None:
    """Raise InvalidArgumentError for a batch of too many sources."""
    if len(source_names) > MERGE_SOURCES_MAX:
        raise InvalidArgumentError(
            f"a batch of {len(source_names)} merges exceeds the limit of {MERGE_SOURCES_MAX}: nothing "
            "was merged, send smaller ones"
        )


def _lengths_after(extents: Sequence[Extent], length: int) -> list[int]:
    """Return the length of the target after each merge of a batch; ``length`` if there was none. A source
    that does not exist leaves it as the one before it did.
    """
    at = next((extent[0] for extent in extents if extent is not None), length)
    lengths: list[int] = []
    for extent in extents:
        if extent is not None:
            at = extent[1]
        lengths.append(at)
    return lengths


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Retrieve an error whose caller may have been cancelled: asyncio would log it otherwise."""
    if not future.cancelled():
        future.exception()

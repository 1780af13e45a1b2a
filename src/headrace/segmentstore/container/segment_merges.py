"""Merges of one segment into another: seal, merge and the repetition of both, in the order of the calls."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol

from headrace.errors import (
    ContainerOfflineError,
    InvalidArgumentError,
    NoSuchSegmentError,
    SegmentMergedError,
    SegmentSealedError,
    TooManyActiveSegmentsError,
    UnsupportedError,
)
from headrace.model.attributes import AttributeUpdate
from headrace.segmentstore.container.segment_directory import SegmentDirectory
from headrace.segmentstore.durablelog.durable_log import DurableLog
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.segment_state import SegmentState

MERGE_SOURCES_MAX: Final = 10_000
"""Sources of one batch."""

MERGE_PORTION: Final = 500
"""At most so many sources of a batch are on their way at once: each is a task, and two requests that may have
to wait in a line of bounded length."""

MERGED_NAMES_MAX: Final = 10_000
"""How many merged sources a container remembers, so that a repeated merge request is answered with
success."""

_BESIDE_SOURCES: Final = 2
"""Segments that have to be in memory besides the sources of a batch: its target and the segment catalogue."""

_UPDATE_BYTES: Final = 300
"""Upper bound on what one attribute update takes in the log."""

Extent = tuple[int | None, int]
"""Where in the target a merge begins and ends; None, and its length at some time, if nothing was to do."""

_NO_LONGER_OPEN: Final = (SegmentSealedError, SegmentMergedError, NoSuchSegmentError)
"""Why a source need not be sealed."""


class Tenure(Protocol):
    """What a merge needs of the container besides."""

    async def check_owner(self) -> None: ...


class SegmentMerges:
    """The merges of one container.

    A merge that was made before is answered without a write. A former owner must not: it would say so of
    sources that it has never heard of, and a transaction would count as committed.
    """

    def __init__(self, directory: SegmentDirectory, log: DurableLog, tenure: Tenure) -> None:
        self._directory = directory
        self._log = log
        self._tenure = tenure
        self._merged: OrderedDict[str, tuple[SegmentState, int]] = OrderedDict()
        """By name of the source: the source, and the id of the target that has its bytes."""

    async def merge(
        self, target: SegmentState, source_name: str, updates: Sequence[AttributeUpdate] = ()
    ) -> int:
        """See :meth:`SegmentContainer.merge`."""
        with target.held():
            source = await self._find_source(source_name)
            try:
                if updates:
                    await target.attributes.load(update.attribute_id for update in updates)
                whole = _Whole(target, [source])
                whole.look()
                _, length = await self._start(target, source_name, source, updates, whole)
                return length
            finally:
                _release(source)

    async def merge_batch(self, target: SegmentState, source_names: Sequence[str]) -> list[int]:
        """See :meth:`SegmentContainer.merge_batch`."""
        check_count(source_names)
        sources: list[SegmentState | None] = []
        target.hold()
        try:
            for name in source_names:
                try:
                    sources.append(await self._find_source(name))
                except TooManyActiveSegmentsError as error:
                    _check_room(sources, error)
                    raise
            _Whole(target, sources).look()
            return await self._merge_all(target, source_names, sources)
        finally:
            target.release()
            for source in sources:
                _release(source)

    async def _merge_all(
        self,
        target: SegmentState,
        names: Sequence[str],
        sources: Sequence[SegmentState | None],
    ) -> list[int]:
        extents: list[Extent] = []
        at_once = max(1, min(MERGE_PORTION, self._log.requests_max // 4))
        for first in range(0, len(names), at_once):
            portion = zip(names[first : first + at_once], sources[first : first + at_once], strict=True)
            whole = _Whole(target, sources[first:])  # one may have been truncated since the portion before
            started = [self._start(target, name, source, (), whole) for name, source in portion]
            outcomes = await asyncio.gather(*started, return_exceptions=True)
            is_gone = [isinstance(outcome, NoSuchSegmentError) for outcome in outcomes]
            if any(is_gone):
                await self._log.flush()  # what removed a source may not be durable
            target_is_gone = target.accepted_deleted or target.accepted_merged
            length = target.durable_length
            if any(is_gone):
                await self._tenure.check_owner()
            for outcome in outcomes:
                if isinstance(outcome, NoSuchSegmentError) and not target_is_gone:
                    extents.append((None, extents[-1][1] if extents else length))
                elif isinstance(outcome, BaseException):
                    raise outcome
                else:
                    extents.append(outcome)
        return _lengths_in_order(extents)

    async def _find_source(self, name: str) -> SegmentState | None:
        """Return a source that exists, held in memory until it is released.

        Raises:
            UnsupportedError: it is a table.
        """
        source = await self._directory.resolve_accepted(name)
        if source is not None:
            if source.is_table:
                raise UnsupportedError(f"segment {name!r} is a table and cannot be merged")
            source.hold()
        return source

    def _start(
        self,
        target: SegmentState,
        source_name: str,
        source: SegmentState | None,
        updates: Sequence[AttributeUpdate],
        whole: _Whole,
    ) -> Coroutine[object, object, Extent]:
        """Hand seal and merge to the log now, in call order; the coroutine waits for them."""
        if source is None:
            return self._merge_again(target, source_name)
        sealing = None
        if not source.accepted_sealed:
            sealing = self._log.submit(partial(whole.propose_seal, source), segments=(source,))
            sealing.add_done_callback(_look_at)

        extent: list[int] = []

        def propose(sequence: int) -> ops.Merge | ops.Delete:
            whole.check()
            # As if it were asked now: what is gone is looked for before the target is, and a source that is
            # merged already counts as done, whatever became of the target since.
            transitions.check_live(source)
            operation = transitions.propose_merge(target, source, sequence, updates)
            if not operation.length and updates:
                raise _EmptySourceError(source.name)
            extent[:] = operation.offset, operation.offset + operation.length
            self._remember(source, target)
            return operation if operation.length else transitions.propose_delete(source, sequence)

        merging = self._log.submit(propose, _UPDATE_BYTES * len(updates), segments=(target, source))
        merging.add_done_callback(_look_at)
        return self._finish(target, source, sealing, merging, extent, updates)

    async def _merge_again(self, target: SegmentState, source_name: str) -> Extent:
        was_merged, length = self._was_merged(target, source_name), target.durable_length
        await self._tenure.check_owner()
        if not was_merged:
            raise NoSuchSegmentError(source_name)
        return None, length

    def _was_merged(self, target: SegmentState, source_name: str) -> bool:
        """Whether the newest segment of this name was merged, durably, and into ``target``."""
        source, target_id = self._merged.get(source_name, (None, -1))
        return source is not None and target_id == target.segment_id and (source.merged or source.deleted)

    def on_named(self, segment: SegmentState) -> None:
        """``segment`` stands under its name: an older one that was merged under it is forgotten.

        It leaves its name by a deletion, before which this is called, or by a merge, which is remembered
        instead.
        """
        source, _ = self._merged.get(segment.name, (None, -1))
        if source is not None and source.segment_id < segment.segment_id:
            del self._merged[segment.name]

    async def _finish(
        self,
        target: SegmentState,
        source: SegmentState,
        sealing: asyncio.Future[Any] | None,
        merging: asyncio.Future[Any],
        extent: Sequence[int],
        updates: Sequence[AttributeUpdate],
    ) -> Extent:
        if sealing is not None:
            await asyncio.wait([sealing, merging])
            error = sealing.exception()
            if error is not None and not isinstance(error, _NO_LONGER_OPEN):
                merging.exception()
                raise error
        try:
            await merging
        except _EmptySourceError:
            return await self._merge_empty(target, source, updates)
        except NoSuchSegmentError as error:
            if error.segment == target.name or source.accepted_length:
                raise
            return await self._answer_repeated(target, source)  # on its way, or done, by somebody else
        except SegmentMergedError:
            return await self._answer_repeated(target, source)
        begin, end = extent
        return begin, end

    async def _answer_repeated(self, target: SegmentState, source: SegmentState) -> Extent:
        """Answer for a source that somebody else has merged or deleted, once that is durable.

        Raises:
            NoSuchSegmentError: it was deleted, or is merged into another segment.
        """
        was_merged = self._merged.get(source.name) == (source, target.segment_id)
        await self._log.flush()
        if not source.merged and not source.deleted:
            raise ContainerOfflineError(f"{source.name!r} was not merged") from None
        length = target.durable_length
        await self._tenure.check_owner()
        if not was_merged:
            raise NoSuchSegmentError(source.name)
        return None, length

    async def _merge_empty(
        self, target: SegmentState, source: SegmentState, updates: Sequence[AttributeUpdate]
    ) -> Extent:
        """Delete a sealed source that has no byte, behind the updates, unless somebody else was faster."""
        updated = False

        def propose_updates(sequence: int) -> ops.UpdateAttributes:
            nonlocal updated
            if source.accepted_deleted or source.accepted_merged:
                raise NoSuchSegmentError(source.name)
            operation = transitions.propose_update(target, sequence, updates)
            updated = True
            return operation

        def propose_deletion(sequence: int) -> ops.Delete:
            if not updated:
                raise _NotUpdatedError(target.name)
            operation = transitions.propose_delete(source, sequence)
            self._remember(source, target)
            return operation

        updating = self._log.submit(propose_updates, _UPDATE_BYTES * len(updates), segments=(target, source))
        deletion = self._log.submit(propose_deletion, segments=(source,), deletes=True)
        changes = [updating, deletion]
        if deletion.done() and not updated and not updating.done():
            # The line has no room for both. Who asks again would meet, or repeat, updates made without it.
            updating.cancel()
            changes.remove(updating)
        outcomes = await asyncio.gather(*changes, return_exceptions=True)
        for error in outcomes:
            if isinstance(error, NoSuchSegmentError) and error.segment == source.name:
                return await self._answer_repeated(target, source)
            if isinstance(error, BaseException):
                raise error
        return None, target.durable_length

    def _remember(self, source: SegmentState, target: SegmentState) -> None:
        self._merged[source.name] = (source, target.segment_id)
        self._merged.move_to_end(source.name)  # a name that is used again would stay where it was
        if len(self._merged) > MERGED_NAMES_MAX:
            self._merged.popitem(last=False)


def check_count(source_names: Sequence[str]) -> None:
    """Raise InvalidArgumentError for a batch of too many sources."""
    if len(source_names) > MERGE_SOURCES_MAX:
        raise InvalidArgumentError(
            f"a batch of {len(source_names)} merges exceeds the limit of {MERGE_SOURCES_MAX}: nothing "
            "was merged, send smaller ones"
        )


def _check_room(sources: Sequence[SegmentState | None], error: TooManyActiveSegmentsError) -> None:
    """Raise InvalidArgumentError if a batch itself takes all the room: it would be refused for ever."""
    held = len({each for each in sources if each and not (each.accepted_merged or each.accepted_deleted)})
    if held + _BESIDE_SOURCES >= error.active_max:
        raise InvalidArgumentError(
            f"a batch of merges has more sources than fit into the {error.active_max} segments that their "
            "container may have in memory: nothing was merged, send smaller ones or raise active_segments_max"
        ) from error


class _Whole:
    """Refuses sources that no merge takes, all of one request or none, before any is sealed; in a later
    portion of a batch, all that are left.
    """

    def __init__(self, target: SegmentState, sources: Sequence[SegmentState | None]) -> None:
        self._target = target
        self._sources = sources
        self._is_decided = False
        self._refusal: InvalidArgumentError | None = None

    def look(self) -> None:
        """Refuse them as they are now. That the target takes none comes first."""
        target = self._target
        if not (target.accepted_sealed or target.accepted_deleted or target.accepted_merged):
            for source in filter(None, self._sources):
                if not (source.accepted_deleted or source.accepted_merged):
                    transitions.check_whole(target, source)

    def check(self) -> None:
        """Refuse each if one is to be refused when the first is decided: the line may have truncated it."""
        if not self._is_decided:
            self._is_decided = True
            try:
                self.look()
            except InvalidArgumentError as error:
                self._refusal = error
        if self._refusal is not None:
            raise self._refusal

    def propose_seal(self, source: SegmentState, sequence: int) -> ops.Seal:
        self.check()
        return transitions.propose_seal(source, sequence)


class _EmptySourceError(Exception):
    """The log has no merge of nothing, and no deletion with updates of another segment."""


class _NotUpdatedError(Exception):
    """The updates of a merge were refused, and with them what follows."""


def _lengths_in_order(extents: Sequence[Extent]) -> list[int]:
    """Return where each merge of a batch left the end of the target.

    A source that was gone had no operation: its answer may come before those in front of it have added theirs
    or when those behind it have.
    """
    lengths: list[int] = []
    for begin, end in extents:
        lengths.append(max(end, lengths[-1]) if begin is None and lengths else end)
    length_max = lengths[-1] if lengths else 0
    for index, (begin, _) in reversed(list(enumerate(extents))):
        lengths[index] = min(lengths[index], length_max)
        length_max = lengths[index] if begin is None else begin
    return lengths


def _release(source: SegmentState | None) -> None:
    if source is not None:
        source.release()


def _look_at(future: asyncio.Future[Any]) -> None:
    """Take note of an error whose caller may have been cancelled: asyncio would complain about it."""
    if not future.cancelled():
        future.exception()

"""What retention does to one stream in one period.

1. A tail cut joins the retention set, unless one was taken less than a period ago, or nothing was written
   since.
2. The policy chooses a cut of the set, or the lower bound of the subscribers.
3. The stream is truncated there, by the same workflow as when a user asks for it.
4. Members of the set that the head has passed are dropped.

Each step is decided on rows and written under their versions, and may be repeated: a controller that dies,
or a second one that believes to own the bucket, changes nothing but the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.policies.lasting_time import LastingTime
from headrace.controller.policies.lower_bound import LowerBound
from headrace.controller.policies.retention import (
    LOWER_BOUND,
    BoundToMember,
    Choice,
    choose_bound,
    choose_unbound,
    thinned,
)
from headrace.controller.store.contract import Write
from headrace.controller.store.layout import details_table
from headrace.controller.store.rows.stream_row import StreamRow, StreamState
from headrace.controller.streams.bucket_index import BucketMember
from headrace.controller.streams.cut_reader import CutReader
from headrace.controller.streams.cut_sizes import parts_between, to_be_measured, total_bytes
from headrace.controller.streams.cuts import relate_cuts, sorted_cut
from headrace.controller.streams.retention_sets import RetentionSet, SetMember
from headrace.controller.streams.stream import Stream
from headrace.controller.streams.subscribers import Subscribers
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.errors import (
    InvalidArgumentError,
    MetadataConflictError,
    NoSuchStreamError,
    StreamBusyError,
    StreamSealedError,
    UnknownOutcomeError,
)
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.model.stream_cut import Relation
from headrace.runtime.logs import logger

_log = logger(__name__)

MEMBERS_MAX: Final = 500
"""Of one set: of a policy of a week, cuts lie 20 to 40 minutes apart."""

_YOUNG: Final = 0.9
"""Part of the period within which a tail cut counts as taken: rounds are not exactly a period apart."""

_MEASURED_AT_ONCE: Final = 1000
"""Segments whose lengths are read together: fewer calls; all that lie between two cuts may be a million."""
_ATTEMPTS_MAX: Final = 5

Cut = dict[int, int]


@dataclass(slots=True)
class RetentionStatistics:
    """Counts since creation."""

    streams: int = 0
    tail_cuts: int = 0
    truncations: int = 0
    failures: int = 0


class StreamRetention:
    """Enforces the policy of one stream after the other. Used on the controller's loop."""

    def __init__(self, context: ControllerContext, requests: StreamRequests) -> None:
        self.statistics = RetentionStatistics()
        self._context = context
        self._requests = requests
        self._subscribers = Subscribers(context.store)
        self._period_ms = round(context.config.retention.period_s * 1000)
        self._time = LastingTime(self._period_ms)

    async def enforce(self, member: BucketMember) -> None:
        """Do the work of one period for the stream of ``member``; remove the member if there is none.

        Raises:
            HeadraceError: what is not done yet is done in the next period.
        """
        stream = await self._context.directory.find(member.scope, member.stream)
        if stream is None or not has_policy(stream.row):
            await self._context.bucket_index.remove(member)
            return
        policy, now_ms = stream.row.config.retention, self._now_ms()
        if policy.kind is RetentionKind.NONE or 0 <= now_ms - member.since_ms < self._period_ms:
            return  # it is too early, unless the clock went back since
        if stream.row.state in {StreamState.CREATING, StreamState.SEALING, StreamState.SEALED}:
            return
        self.statistics.streams += 1
        present = await self._with_tail_cut(stream, policy)
        if not present.members:
            return
        cut = await self._choose(stream, policy, present, now_ms)
        if cut is not None:
            await self._truncate(stream, cut)
        await self._drop_passed(stream, present)

    def _now_ms(self) -> int:
        """Return the time that counts here: not that of a wall clock that has just jumped ahead."""
        monotonic_ms = round(asyncio.get_running_loop().time() * 1000)
        counted = self._time.look(self._context.clock.now_ms(), monotonic_ms)
        if counted.jumped_ms:
            _log.warning(
                "the wall clock jumped ahead; retention follows it if that lasts longer than a period",
                jumped_s=counted.jumped_ms // 1000,
                period_s=self._period_ms / 1000,
            )
        return counted.time_ms

    # ---------------------------------------------------------------------------------- the set

    async def _with_tail_cut(self, stream: Stream, policy: RetentionPolicy) -> RetentionSet:
        """Return the set, with a tail cut of now if it is time for one, or if the clock went back."""
        uid = stream.uid
        for attempt in range(_ATTEMPTS_MAX):
            present = await self._context.retention_sets.read(uid)
            members = list(present.members)
            last_ms = members[-1].time_ms if members else 0
            if members and 0 <= self._now_ms() - last_ms < self._period_ms * _YOUNG:
                return present
            tail = await self._read_tail(stream)
            # After the lengths: nothing in front of the cut is younger.
            time_ms = max(self._now_ms(), last_ms + 1)
            if tail is None:
                return present
            latest = await self._context.retention_sets.find_cut(uid, members[-1]) if members else None
            if members and latest is None:
                if attempt + 1 < _ATTEMPTS_MAX:
                    continue  # another owner dropped it meanwhile
                members = []  # it is lost: sizes are counted from the head again
            if latest is None and is_untouched(stream.row, tail):
                return present
            if latest == tail:
                return present  # nothing was written: its time would say more than is known
            base = latest if latest is not None else dict(stream.row.truncation or ())
            size_bytes = await self._bytes_between(stream, base, tail)
            added = SetMember(time_ms, size_bytes + (members[-1].size_bytes if members else 0))
            members.append(added)
            remaining = [members[index] for index in thinned(members, policy.kind, MEMBERS_MAX)]
            try:
                changed = await self._context.retention_sets.write(uid, present, remaining, {added: tail})
            except (MetadataConflictError, UnknownOutcomeError):
                continue
            self.statistics.tail_cuts += 1
            await self._check_exists(stream)
            return changed
        return await self._context.retention_sets.read(uid)

    async def _read_tail(self, stream: Stream) -> Cut | None:
        """Return the tail cut of the active epoch; None if the stream was scaled and truncated meanwhile."""
        segment_ids = stream.row.epoch.segment_ids()
        found = await self._context.segments.find(stream.segments(segment_ids))
        tail: Cut = {}
        for segment_id, facts in zip(segment_ids, found, strict=True):
            if facts is None:
                return None
            tail[segment_id] = facts.length
        return tail

    async def _check_exists(self, stream: Stream) -> None:
        """Leave no set behind if the stream was deleted while a cut was taken."""
        try:
            await stream.refresh()
        except NoSuchStreamError:
            keys = await self._context.retention_sets.keys(stream.uid)
            await self._context.store.update(details_table(stream.uid), [Write(key, None) for key in keys])
            raise

    async def _drop_passed(self, stream: Stream, present: RetentionSet) -> None:
        """Drop the members that the head has reached: up to the most recent of them."""
        epochs, members = stream.epochs(), present.members
        if epochs.row.truncation is None:
            return
        cuts = CutReader(epochs)
        head = await cuts.place(dict(epochs.row.truncation))
        low, high = 0, len(members)
        middle = 0  # the first question is whether there is anything to drop
        while low < high:
            cut = await self._context.retention_sets.find_cut(stream.uid, members[middle])
            if cut is not None and relate_cuts(head, await cuts.place(cut)) is not Relation.EQUAL_OR_AFTER:
                high = middle
            else:
                low = middle + 1
            middle = (low + high) // 2
        if low:
            try:
                await self._context.retention_sets.write(stream.uid, present, members[low:], {})
            except MetadataConflictError:
                return  # of another owner, who drops them too

    # ---------------------------------------------------------------------------------- the choice

    async def _choose(
        self, stream: Stream, policy: RetentionPolicy, present: RetentionSet, now_ms: int
    ) -> Cut | None:
        all_reported = await self._subscribers.cuts(stream)
        epochs = stream.epochs()
        segments = await epochs.find_segments({each for reported in all_reported for each in reported})
        bound = LowerBound(segments.get)
        for reported in all_reported:
            bound.include(reported)
            await asyncio.sleep(0)
        if not bound.offsets:
            return await self._cut_of(stream, present, choose_unbound(present.members, policy, now_ms))
        retained = 0
        if policy.kind is RetentionKind.SIZE:
            latest = await self._context.retention_sets.find_cut(stream.uid, present.members[-1])
            if latest is None:
                return None
            retained = await self._bytes_between(stream, bound.offsets, latest)
        cuts = CutReader(epochs)
        placed_bound = await cuts.place(bound.offsets)
        asking = choose_bound(present.members, policy, now_ms, retained)
        choice: Choice = None
        answer: Relation | None = None
        while True:
            try:
                question = next(asking) if answer is None else asking.send(answer)
            except StopIteration as chosen:
                choice = chosen.value
                break
            cut = await self._cut_of(stream, present, question.index)
            if cut is None:
                return None  # another owner is at work
            placed = await cuts.place(cut)
            if isinstance(question, BoundToMember):
                answer = relate_cuts(placed_bound, placed)
            else:
                answer = relate_cuts(placed, placed_bound)
        if choice == LOWER_BOUND:
            return bound.offsets
        return await self._cut_of(stream, present, choice)

    async def _cut_of(self, stream: Stream, present: RetentionSet, choice: Choice) -> Cut | None:
        if choice is None:
            return None
        return await self._context.retention_sets.find_cut(stream.uid, present.members[choice])

    async def _bytes_between(self, stream: Stream, lower: Mapping[int, int], upper: Mapping[int, int]) -> int:
        total = 0
        waiting: list[int] = []
        async for some in stream.cuts().walk_between(lower, upper):
            waiting += some
            if len(waiting) >= _MEASURED_AT_ONCE:
                total += await self._bytes_of(stream, waiting, lower, upper)
                waiting = []
        return total + await self._bytes_of(stream, waiting, lower, upper)

    async def _bytes_of(
        self, stream: Stream, segment_ids: list[int], lower: Mapping[int, int], upper: Mapping[int, int]
    ) -> int:
        parts = parts_between(segment_ids, lower, upper)
        return total_bytes(parts, await stream.sealed_lengths(to_be_measured(parts)))

    async def _truncate(self, stream: Stream, cut: Cut) -> None:
        """Truncate, unless the cut lies before the head, or crosses it: then a later one is chosen soon."""
        head, cuts = stream.row.truncation, stream.cuts()
        if head == sorted_cut(cut):
            return
        if head is not None and await cuts.relate(cut, dict(head)) is not Relation.EQUAL_OR_AFTER:
            return
        try:
            await self._requests.truncate(stream.scope, stream.name, cut)
        except (StreamBusyError, StreamSealedError, InvalidArgumentError) as error:
            _log.debug("stream is not truncated in this period", stream=stream.full_name, error=str(error))
            return
        self.statistics.truncations += 1
        _log.debug("retention truncated a stream", stream=stream.full_name)


def has_policy(row: StreamRow) -> bool:
    """Whether the stream has a retention policy, or is about to get one. Pure."""
    configs = [row.config] if row.updating is None else [row.config, row.updating]
    return any(config.retention.kind is not RetentionKind.NONE for config in configs)


def is_untouched(row: StreamRow, tail: Cut) -> bool:
    """Whether nothing lies between the head and ``tail``. Pure."""
    if row.truncation is not None:
        return row.truncation == sorted_cut(tail)
    return row.epoch.epoch == 0 and not any(tail.values())

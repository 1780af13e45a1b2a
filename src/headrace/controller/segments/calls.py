"""Calls to segment stores that may be repeated without end: what is done already counts as done.

Many segments are asked for at once, with a bound on the calls in flight. A call that certainly did not
happen, or may have, is sent again with growing delays; what is refused for good is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from headrace.errors import (
    HeadraceError,
    NoSuchSegmentError,
    OffsetMismatchError,
    OverloadError,
    OwnershipError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    UnknownOutcomeError,
)
from headrace.limits import BULK_NAMES_MAX
from headrace.model.policies import ScalingKind, ScalingPolicy
from headrace.model.segment_access import SegmentAccess, SegmentFacts
from headrace.runtime.entropy import Entropy
from headrace.runtime.retry import RetryPolicy, retry

R = TypeVar("R")

IN_FLIGHT_MAX: Final = 128
_RETRY: Final = RetryPolicy(initial_s=0.02, multiplier=2.0, delay_max_s=5.0, attempts=12)
_TRANSIENT: Final = (OwnershipError, OverloadError, UnknownOutcomeError)

NO_SCALING: Final = ScalingPolicy()


class SegmentCalls:
    """The controller's calls to the data plane. Segments are given by their qualified names."""

    def __init__(self, access: SegmentAccess, entropy: Entropy) -> None:
        self.access = access
        """The calls as they are, each made once."""
        self._access = access
        self._entropy = entropy
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def create(
        self, segments: Sequence[str], *, policy: ScalingPolicy = NO_SCALING, rollover_bytes: int = 0
    ) -> None:
        """Create every segment that does not exist."""
        scale_type = int(policy.kind)
        rate = 0 if policy.kind is ScalingKind.FIXED else policy.target_rate

        async def create(segment: str) -> None:
            try:
                await self._access.create_segment(
                    segment, scale_type=scale_type, target_rate=rate, rollover_bytes=rollover_bytes
                )
            except SegmentExistsError:
                return

        await self._each(segments, create)

    async def delete(self, segments: Iterable[str]) -> None:
        """Delete every segment that exists, many with one call."""
        await self._bulk(list(segments), self._access.delete_segments)

    async def seal(self, segments: Iterable[str]) -> dict[str, int]:
        """Seal every segment that is not sealed; return their final lengths. Raises NoSuchSegmentError."""
        lengths: dict[str, int] = {}

        async def seal(segment: str) -> None:
            try:
                lengths[segment] = await self._access.seal_segment(segment)
            except SegmentSealedError:
                lengths[segment] = (await self._access.segment_info(segment)).length

        await self._each(segments, seal)
        return lengths

    async def sealed_lengths(self, segments: Sequence[str]) -> dict[str, int]:
        """Return the lengths of those segments that exist and are sealed."""
        found = zip(segments, await self.find(segments), strict=True)
        return {segment: facts.length for segment, facts in found if facts is not None and facts.sealed}

    async def truncate(self, offsets: Mapping[str, int]) -> None:
        """Truncate each segment at its offset, unless it is truncated beyond it or gone.

        Raises:
            SegmentTruncatedError, InvalidArgumentError: an offset lies beyond the end of its segment.
        """

        async def truncate(segment: str) -> None:
            try:
                await self._access.truncate_segment(segment, offsets[segment])
            except NoSuchSegmentError:
                return
            except SegmentTruncatedError as error:
                if error.start_offset < offsets[segment]:
                    raise

        await self._each(offsets, truncate)

    async def update_policy(self, segments: Iterable[str], policy: ScalingPolicy) -> None:
        """Set what to measure in every segment that still takes appends."""
        rate = 0 if policy.kind is ScalingKind.FIXED else policy.target_rate

        async def update(segment: str) -> None:
            try:
                await self._access.update_policy(segment, int(policy.kind), rate)
            except SegmentSealedError:
                return

        await self._each(segments, update)

    async def info(self, segments: Sequence[str]) -> list[SegmentFacts]:
        """Return what is known of each segment, in their order. Raises NoSuchSegmentError."""
        known: list[SegmentFacts] = []
        for segment, facts in zip(segments, await self.find(segments), strict=True):
            if facts is None:
                raise NoSuchSegmentError(segment)
            known.append(facts)
        return known

    async def find(self, segments: Sequence[str]) -> list[SegmentFacts | None]:
        """Return what is known of each segment, in their order, many with one call; None: there is none."""
        found: list[SegmentFacts | None] = []
        for answers in await self._bulk(segments, self._access.segment_infos):
            found += answers
        return found

    async def changed(self, marker: bytes) -> tuple[bytes, Sequence[tuple[str, int]]]:
        """Return a marker, and names and lengths of what changed since ``marker``: see
        :meth:`SegmentAccess.changed_segments`.
        """
        return await self._access.changed_segments(marker)

    async def merge(self, targets: Mapping[str, Sequence[str]]) -> dict[str, list[int]]:
        """Merge the sources of each target in their order; return the target's length after each.

        A source that is gone was merged before. Raises NoSuchSegmentError, SegmentSealedError (targets).
        """
        lengths: dict[str, list[int]] = {}

        async def merge(target: str) -> None:
            lengths[target] = await self._access.merge_batch(target, targets[target])

        await self._each(targets, merge)
        return lengths

    async def append(self, segment: str, data: bytes, offset: int) -> bool:
        """Append at ``offset``; return False if other bytes are there.

        They may be those of an attempt of this call whose reply was lost. Raises NoSuchSegmentError,
        SegmentSealedError.
        """

        async def append() -> bool:
            try:
                await self._access.append(segment, data, expected_offset=offset)
            except OffsetMismatchError:
                return False
            return True

        return await self._answer(append)

    async def read(self, segment: str, offset: int, length_max: int) -> bytes:
        """Return up to ``length_max`` bytes, none at the end.

        Raises NoSuchSegmentError, SegmentTruncatedError.
        """

        async def read() -> bytes:
            return (await self._access.read(segment, offset, length_max, wait=False)).to_bytes()

        return await self._answer(read)

    async def get_attribute(self, segment: str, attribute_id: bytes) -> int:
        """Return the value, or ATTRIBUTE_NULL if it is not set. Raises NoSuchSegmentError."""
        return await self._answer(lambda: self._access.get_attribute(segment, attribute_id))

    async def update_attribute(self, segment: str, attribute_id: bytes, value: int, expected: int) -> bool:
        """Set ``value`` if the attribute is ``expected``; return whether an attempt of this call did.

        False is also returned for an attempt whose reply was lost. Raises NoSuchSegmentError,
        SegmentSealedError.
        """
        return await self._answer(
            lambda: self._access.update_attribute(segment, attribute_id, value, expected)
        )

    async def create_tables(self, segments: Iterable[str], *, key_length: int, rollover_bytes: int) -> None:
        """Create every table segment that does not exist."""

        async def create(segment: str) -> None:
            try:
                await self._access.create_table(segment, key_length=key_length, rollover_bytes=rollover_bytes)
            except SegmentExistsError:
                return

        await self._each(segments, create)

    async def delete_tables(self, segments: Iterable[str]) -> None:
        async def delete(segment: str) -> None:
            try:
                await self._access.delete_table(segment, must_be_empty=False)
            except NoSuchSegmentError:
                return

        await self._each(segments, delete)

    async def _each(self, segments: Iterable[str], call: Callable[[str], Awaitable[None]]) -> None:
        """Call for every segment at once, wait for all of them, then raise the first failure."""
        names = list(segments)
        if len(names) == 1:
            await self._persistently(names[0], call)
            return
        outcomes = await asyncio.gather(
            *(self._persistently(name, call) for name in names), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome

    async def _bulk(self, segments: Sequence[str], call: Callable[[Sequence[str]], Awaitable[R]]) -> list[R]:
        """Call for up to ``BULK_NAMES_MAX`` segments at a time; return the answers in their order."""
        answers: list[R] = []
        for start in range(0, len(segments), BULK_NAMES_MAX):
            batch = segments[start : start + BULK_NAMES_MAX]

            async def call_batch(batch: Sequence[str] = batch) -> None:
                answers.append(await call(batch))

            async with self._slots:
                await self._retried(call_batch)
        return answers

    async def _answer(self, call: Callable[[], Awaitable[R]]) -> R:
        """Return the answer of a call about one segment."""
        answers: list[R] = []

        async def ask() -> None:
            answers.append(await call())

        async with self._slots:
            await self._retried(ask)
        return answers[-1]

    async def _persistently(self, segment: str, call: Callable[[str], Awaitable[None]]) -> None:
        async with self._slots:
            await self._retried(lambda: call(segment))

    async def _retried(self, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await call()
        except _TRANSIENT:
            await retry(_RETRY, call, entropy=self._entropy, retryable=_transient)


def _transient(error: Exception) -> bool:
    return isinstance(error, HeadraceError) and isinstance(error, _TRANSIENT)

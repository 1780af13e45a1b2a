"""Rewrites chunks of one container in the background: small ones merged, truncated ones shortened.

It goes round over the segments, within a budget of requests and bytes. A segment is looked at again only when
it has changed. A store that fails ends a round, and the next one begins after a longer pause. An operator may
pause it at run time: the current step ends, and the next one begins when it is resumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final, Literal

from headrace.errors import (
    ContainerOfflineError,
    CorruptionError,
    FencedOutError,
    HeadraceError,
    NoSuchSegmentError,
)
from headrace.storage.chunks.optimiser_config import OptimiserConfig
from headrace.storage.chunks.optimiser_switch import OptimiserSwitch
from headrace.storage.chunks.rewriter import RewriteStatistics
from headrace.storage.chunks.segment_info import StoredSegmentInfo
from headrace.storage.chunks.segment_storage import ChunkedSegmentStorage
from headrace.storage.providers.wrappers.token_bucket import RequestBudget

_logger = logging.getLogger(__name__)

_STEPS_MAX: Final = 1000
"""Steps for one segment in one round: others have their turn."""


State = Literal["resting", "working", "pausing", "paused"]
"""Between two rounds; in one; in the last step before a pause; until it is resumed."""


@dataclass(slots=True)
class OptimiserStatistics:
    """Counts since the start, and gauges: ``state``, and ``candidates_left`` of the last round."""

    state: State
    rounds: int
    rounds_failed: int
    segments_seen: int
    segments_damaged: int
    candidates_left: int
    """Segments with small chunks on average for which a round has not come to the end, or found damage."""
    rewrites: RewriteStatistics


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a segment was looked at, and what it was then."""

    offset: int
    chunk_count: int
    start_offset: int
    sealed: bool

    def is_of(self, info: StoredSegmentInfo) -> bool:
        seen = (self.chunk_count, self.start_offset, self.sealed)
        return seen == (info.chunk_count, info.start_offset, info.sealed)


class StorageOptimiser:
    """Used on the container's loop. ``names`` iterates names of segments in storage, some in each round;
    ``switch`` pauses it.
    """

    def __init__(
        self,
        storage: ChunkedSegmentStorage,
        names: Callable[[], AsyncIterator[str]],
        config: OptimiserConfig,
        switch: OptimiserSwitch,
    ) -> None:
        self._storage = storage
        self._names = names
        self._config = config
        self._switch = switch
        self._works = False
        """In a round, and not held by the switch."""
        self._rewriter = storage.make_rewriter(RequestBudget(config.requests_per_s, config.second_bytes_max))
        self._done: OrderedDict[str, _Place] = OrderedDict()
        self._rounds = self._failed = self._seen = self._damaged = self._left = 0

    async def run(self) -> None:
        """Go round until cancelled, or until the container stops.

        Raises:
            FencedOutError: a newer owner has the container.
        """
        pause_s = self._config.interval_s
        while True:
            await asyncio.sleep(pause_s)
            try:
                await self._go_round()
                pause_s = self._config.interval_s
            except FencedOutError:
                raise
            except ContainerOfflineError:
                return
            except HeadraceError as error:
                self._failed += 1
                pause_s = min(2 * pause_s, max(self._config.retry_max_s, self._config.interval_s))
                _logger.warning("rewriting chunks failed, next attempt in %.0f s: %s", pause_s, error)

    async def _go_round(self) -> None:
        left = 0
        await self._switch.wait_on()
        self._rounds += 1
        self._works = True
        try:
            async for segment in self._names():
                await self._hold()
                left += not await self._look_at(segment)
        finally:
            self._works = False
        self._left = left

    async def _hold(self) -> None:
        """Wait between two steps while the switch is off. Segments may change meanwhile, as during a step."""
        if self._switch.is_paused:
            self._works = False
            await self._switch.wait_on()
            self._works = True

    async def _look_at(self, segment: str) -> bool:
        """Rewrite what is worth it; return whether nothing is left."""
        try:
            info = await self._storage.info(segment)
            if info is None or not info.chunk_count:
                return True
            place = self._done.get(segment)
            if place is not None and place.is_of(info):
                self._done.move_to_end(segment)
                return True
            self._seen += 1
            if not await self._rewriter.is_candidate(segment):
                return True
            return await self._rewrite(segment, 0 if place is None else place.offset)
        except NoSuchSegmentError:
            return True
        except CorruptionError as error:
            self._damaged += 1
            damage = str(error)
        # Readers find it, too, and an operator may repair it; others are rewritten all the same.
        _logger.warning("damaged data: %s; the chunks of %r are left as they are", damage, segment)
        return False

    async def _rewrite(self, segment: str, offset: int) -> bool:
        is_done = False
        for _ in range(_STEPS_MAX):
            await self._hold()
            step = await self._rewriter.merge_some(segment, offset)
            offset, is_done = step.place, step.is_done
            if is_done:
                break
        info = await self._storage.info(segment)
        if info is not None:
            count = info.chunk_count if is_done else -1
            self._done[segment] = _Place(offset, count, info.start_offset, info.sealed)
            if len(self._done) > self._config.segments_max:
                self._done.popitem(last=False)
        return is_done

    def _state(self) -> State:
        if self._switch.is_paused:
            return "pausing" if self._works else "paused"
        return "working" if self._works else "resting"

    def statistics(self) -> OptimiserStatistics:
        return OptimiserStatistics(
            self._state(),
            self._rounds,
            self._failed,
            self._seen,
            self._damaged,
            self._left,
            self._rewriter.statistics,
        )

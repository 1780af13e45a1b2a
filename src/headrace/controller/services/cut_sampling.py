"""Samples the streams that grow: where each of them was at which time.

Every period the segment stores are asked which segments have changed: nothing is asked about idle ones. Of a
stream with a changed segment a complete cut is made, of the segments of one version of its row, and added to
its series. All lengths were read before the time of the sample is: what is acknowledged after that time lies
at or behind the cut, also if the clock is set back meanwhile.

A sample that fails is taken again with the next period. Series are written under the version of their row,
so two controllers that both believe to own a bucket disturb each other, and spoil nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.policies.cut_series import CUT_BYTES_MAX, add_sample, levels_of
from headrace.controller.store.rows.cut_series_row import CutSample, Offsets, SeriesRow, full_size_bytes
from headrace.controller.store.rows.stream_row import StreamState
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.cuts_in_time import read_series, write_series
from headrace.errors import HeadraceError, MetadataConflictError, NoSuchSegmentError, NoSuchStreamError
from headrace.model.names import SYSTEM_SCOPE, find_stream_segment
from headrace.runtime.logs import logger
from headrace.runtime.loop_budget import LoopBudget

_log = logger(__name__)

_NAMES_PER_ITERATION: Final = 1000
_SAMPLED_AT_ONCE: Final = 32
"""Streams sampled side by side: each waits for the data plane, which has clients to serve meanwhile."""
_WAITING_MAX: Final = 100_000

StreamName = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _RoundStart:
    """When a round began, by the clock and by the loop."""

    clock_ms: int
    loop_s: float


@dataclass(slots=True)
class CutSamplingStatistics:
    """Gauges of now and counts since creation."""

    streams_waiting: int
    rounds: int
    samples: int
    failures: int
    too_large: int


class CutSampling:
    """Feeds the series of the streams whose buckets this controller owns. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._config = context.config.cut_series
        self._levels = levels_of(self._config.period_ms)
        self._marker = b""
        self._owned: set[int] = set()
        self._round: _RoundStart | None = None
        self._former_round: _RoundStart | None = None
        self._waiting: dict[StreamName, dict[int, int]] = {}
        """Streams to sample, with the lengths of their changed segments."""
        self._series: OrderedDict[bytes, tuple[SeriesRow, int]] = OrderedDict()
        self._rounds = self._samples = self._failures = self._too_large = 0

    async def run(self) -> None:
        """Sample until cancelled."""
        while True:
            await asyncio.sleep(self._config.period_s)
            try:
                await self.sample_once()
            except HeadraceError as error:
                _log.warning("streams could not be sampled and will be", error=str(error))
            except Exception as error:  # noqa: BLE001 - the next period may succeed
                _log.error("sampling streams failed", exc_info=error)

    async def sample_once(self) -> None:
        """Take one sample of each stream that changed since the last call, as far as the bound allows."""
        self._rounds += 1
        now = _RoundStart(self._context.clock.now_ms(), asyncio.get_running_loop().time())
        self._former_round, self._round = self._round, now
        await self._look()
        chosen = list(self._waiting)[: self._config.samples_per_round_max]
        for start in range(0, len(chosen), _SAMPLED_AT_ONCE):
            names = chosen[start : start + _SAMPLED_AT_ONCE]
            await asyncio.gather(*(self._sample(name, self._waiting.pop(name)) for name in names))

    def statistics(self) -> CutSamplingStatistics:
        return CutSamplingStatistics(
            len(self._waiting), self._rounds, self._samples, self._failures, self._too_large
        )

    # ---------------------------------------------------------------------------------- what changed

    async def _look(self) -> None:
        """Note which streams changed; all that are active if a bucket was not owned before."""
        buckets = self._context.buckets
        owned = set(buckets.owned())
        marker = self._marker if owned <= self._owned else b""
        self._marker, changed = await self._context.segments.changed(marker)
        self._owned = owned
        budget = LoopBudget(_NAMES_PER_ITERATION)
        for name, length in changed:
            await budget.spend()
            found = find_stream_segment(name)
            if found is None or found[0] == SYSTEM_SCOPE or found[1].startswith("_"):
                continue
            scope, stream, segment_id = found
            if buckets.bucket_of(scope, stream) in owned:
                self._wait((scope, stream), {segment_id: length})

    def _wait(self, name: StreamName, lengths: dict[int, int]) -> None:
        if name in self._waiting or len(self._waiting) < _WAITING_MAX:
            self._waiting.setdefault(name, {}).update(lengths)

    # ---------------------------------------------------------------------------------- one stream

    async def _sample(self, name: StreamName, lengths: dict[int, int]) -> None:
        try:
            await self._add_sample(name, lengths)
        except (NoSuchStreamError, NoSuchSegmentError):
            return  # it is being deleted, or was truncated just now: its next change is noticed
        except HeadraceError as error:
            self._failures += 1
            if not isinstance(error, MetadataConflictError):
                _log.warning("a stream is sampled later", stream="/".join(name), error=str(error))
            self._wait(name, lengths)

    async def _add_sample(self, name: StreamName, lengths: dict[int, int]) -> None:
        stream = await self._find(name, lengths)
        if stream is None or stream.row.deleting or stream.row.state is StreamState.CREATING:
            return
        series, version = await self._read(stream.uid)
        last = series.last()
        offsets = await self._complete(stream, lengths, () if last is None else last.offsets)
        if full_size_bytes(offsets) > CUT_BYTES_MAX:
            self._too_large += 1
            return
        sample = CutSample(self._now_ms(), offsets)  # after the lengths were read
        addition = add_sample(series, sample, self._levels)
        if addition is None:
            return
        self._series.pop(stream.uid, None)
        version = await write_series(self._context.store, stream, addition, version)
        self._samples += 1
        self._keep(stream.uid, addition.row, version)

    def _now_ms(self) -> int:
        """Return a time not before any at which something may have been acknowledged that was just read: of a
        clock that was set back since the former round, the time it would show otherwise.
        """
        now_ms = self._context.clock.now_ms()
        if self._former_round is None:
            return now_ms
        elapsed_s = asyncio.get_running_loop().time() - self._former_round.loop_s
        return max(now_ms, self._former_round.clock_ms + int(1000 * elapsed_s))

    async def _find(self, name: StreamName, lengths: dict[int, int]) -> Stream | None:
        """Return the stream; as it is known if its segments are the changed ones, else as it is now."""
        known = self._context.directory.known(*name)
        if known is not None and all(known.row.epoch.find(segment_id) for segment_id in lengths):
            return known
        return await self._context.directory.find(*name)

    async def _complete(self, stream: Stream, lengths: dict[int, int], last: Offsets) -> Offsets:
        """Return a cut of the active segments: a length just read, else the last one known, else asked for.

        Raises:
            NoSuchSegmentError: a segment is gone.
        """
        known = {**dict(last), **lengths}
        active = sorted(segment.segment_id for segment in stream.row.epoch.segments)
        missing = [segment_id for segment_id in active if segment_id not in known]
        if missing:
            facts = await self._context.segments.info(stream.segments(missing))
            known.update(zip(missing, (fact.length for fact in facts), strict=True))
        return tuple((segment_id, known[segment_id]) for segment_id in active)

    async def _read(self, uid: bytes) -> tuple[SeriesRow, int]:
        found = self._series.get(uid)
        return await read_series(self._context.store, uid) if found is None else found

    def _keep(self, uid: bytes, row: SeriesRow, version: int) -> None:
        self._series[uid] = row, version
        while len(self._series) > self._config.series_cached_max:
            self._series.popitem(last=False)

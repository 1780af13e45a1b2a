"""The frames of an owner until their answers, over one ledger after another. What is decided is in
``log_plan``.

Each frame is copied once: a connection may still send it to the slowest bookie when its memory is used again.
"""

from __future__ import annotations

import asyncio
import contextlib
from bisect import bisect_left
from typing import NamedTuple

from headrace.errors import HeadraceError, StorageFullError, WalWriteError
from headrace.runtime.latency import LATENCY_EDGES_S
from headrace.wal.bookkeeper.config import LedgerLogConfig
from headrace.wal.bookkeeper.ledger_io import end_ledger
from headrace.wal.bookkeeper.ledger_metadata import LedgerMetadata
from headrace.wal.bookkeeper.ledger_writer import LedgerWriter, Progress, Stop
from headrace.wal.bookkeeper.log_changes import add_ledger
from headrace.wal.bookkeeper.log_plan import LogPlan, Outcome, Phase, Placed
from headrace.wal.bookkeeper.next_ledger import LedgerMaker, NextLedger
from headrace.wal.bookkeeper.open_ledger import OpenLedger
from headrace.wal.bookkeeper.owned_log import OwnedLog
from headrace.wal.bookkeeper.renewed_session import wal_errors
from headrace.wal.bookkeeper.wire_format import master_key
from headrace.wal.contract import WalStatistics
from headrace.wal.frame import Done, Frame


class _Content(NamedTuple):
    frame: Frame
    payload: bytes


class LedgerAppending:
    """Made once a log is taken, for its owner. Used on one loop.

    ``known``: the metadata of the ledgers of the log; those that are added or end here are entered.
    """

    def __init__(
        self,
        maker: LedgerMaker,
        log: OwnedLog,
        known: dict[int, LedgerMetadata],
        next_address: int,
        config: LedgerLogConfig,
        statistics: WalStatistics,
    ) -> None:
        self._maker = maker
        self._log = log
        self._known = known
        self._config = config
        self._statistics = statistics
        self._plan: LogPlan[_Content] = LogPlan(next_address, ledger_bytes_max=config.ledger_bytes_max)
        self._open: OpenLedger | None = None
        self._written: dict[int, OpenLedger] = {}  # those that a bookie may still get something of
        self._next: NextLedger | None = None
        self._is_adding = False
        self._rolling: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._separates = False
        self._is_degraded = False
        self._is_ended = False
        self._waits = True
        self._hurry = asyncio.Event()
        self._failure: Exception | None = None
        self._failed: list[Frame] = []
        self._changed = asyncio.Event()

    # ---- what is asked of it

    def append(self, frame: Frame, done: Done) -> None:
        """See ``Wal.append``."""
        loop = asyncio.get_running_loop()
        frame.done = done
        frame.started_at = loop.time()
        if self._failure is not None:
            frame.address = self._plan.next_address
            self._failed.append(frame)
            loop.call_soon(self._answer_failed)
            return
        payload = bytes(frame.view[: frame.length])
        placed, outcome = self._plan.append(_Content(frame, payload), len(payload))
        frame.address = placed.address
        self._apply(outcome)
        self._go_on()

    def separate(self) -> None:
        """See ``Wal.separate``."""
        if self._plan.phase is Phase.WRITING and self._plan.writer is not None:
            self._separates = bool(self._plan.writer.next_entry)
            self._go_on()

    def stop_waiting(self) -> None:
        """See ``Wal.stop_waiting``."""
        self._waits = False
        self._hurry.set()

    async def wait_idle(self) -> None:
        """Wait until every frame is answered."""
        while self.frames_pending:
            self._changed.clear()
            await self._changed.wait()

    async def end(self) -> None:
        """Nothing is in flight any more, and nothing follows: end the ledger, so that no recovery has to."""
        self._is_ended = True
        for work in (self._rolling, self._looking):
            if work is not None:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._config.drain_s):
                await self._wait_drained()
        if self._plan.phase is not Phase.FAILED:
            with contextlib.suppress(HeadraceError, TimeoutError):
                async with asyncio.timeout(self._config.answer_s):
                    await self._end_ledger()
        while self._written:
            self._written.popitem()[1].close()
        if self._next is not None and self._is_adding:
            self._next.abort()  # the log may have it
        elif self._next is not None:
            await self._maker.discard(self._next)

    @property
    def frames_pending(self) -> int:
        """Frames without an answer."""
        return self._plan.in_flight + len(self._failed)

    @property
    def next_address(self) -> int:
        return self._plan.next_address

    def confirmed_of(self, ledger: int) -> int:
        """Return the last entry that was acknowledged of the ledger that is written."""
        writer = self._plan.writer
        assert writer is not None
        assert writer.ledger == ledger
        return writer.confirmed

    def fill_statistics(self, statistics: WalStatistics) -> None:
        """Enter gauges of now."""
        statistics.frames_in_flight = self.frames_pending
        statistics.bytes_in_flight = self._plan.bytes_in_flight
        statistics.frames_queued = self._plan.frames_queued
        statistics.degraded = int(self._is_degraded)
        writer = self._plan.writer
        written = {} if writer is None else {writer.ledger: writer.length}
        statistics.log_bytes = sum(
            written.get(each.ledger, self._known[each.ledger].length) for each in self._log.node.ledgers
        )

    # ---- answers

    def _on_progress(self, writer: LedgerWriter, progress: Progress) -> None:
        ledger = self._written.get(writer.ledger)
        if ledger is not None and writer.stop_cause is not Stop.FENCED:
            for bookie in progress.given_up:
                self._maker.suspect(bookie)
        self._apply(self._plan.on_progress(writer, progress))
        if ledger is not None and ledger is not self._open and ledger.is_drained:
            del self._written[writer.ledger]
            ledger.close()
        self._changed.set()
        self._go_on()

    def _apply(self, outcome: Outcome[_Content]) -> None:
        if outcome.send:
            assert self._open is not None
            for placed, add in outcome.send:
                self._open.send(add, placed.frame.payload)
        if outcome.acknowledged:
            self._acknowledge(outcome.acknowledged)

    def _acknowledge(self, placed: list[Placed[_Content]]) -> None:
        now = asyncio.get_running_loop().time()
        statistics = self._statistics
        for each in placed:
            frame = each.frame.frame
            seconds = now - frame.started_at
            statistics.count_frame(each.size, seconds)
            statistics.disk_writes += 1
            statistics.disk_seconds_total += seconds
            statistics.disk_by_bucket[bisect_left(LATENCY_EDGES_S, seconds)] += 1
            _answer(frame, None)
        self._changed.set()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        for placed in self._plan.fail().acknowledged:
            self._failed.append(placed.frame.frame)
        self._answer_failed()

    def _answer_failed(self) -> None:
        failed, self._failed = self._failed, []
        for frame in failed:
            _answer(frame, self._failure)
        self._changed.set()

    # ---- from one ledger to the next

    def _go_on(self) -> None:
        """Begin what is to be done beside the frames."""
        if self._is_ended or self._failure is not None:
            return
        loop, plan = asyncio.get_running_loop(), self._plan
        if self._rolling is None and (plan.wants_roll or plan.wants_ledger or self._separates):
            self._rolling = loop.create_task(self._roll())
            self._rolling.add_done_callback(self._on_rolled)
        if self._looking is None and self._is_degraded:
            self._looking = loop.create_task(self._look_for_more())

    def _on_rolled(self, rolling: asyncio.Task[None]) -> None:
        self._rolling = None
        if not rolling.cancelled():
            error = rolling.exception()
            if isinstance(error, Exception):
                self._fail(error)
                raise error
            self._go_on()

    async def _look_for_more(self) -> None:
        """Go on in a ledger on more bookies once there are as many."""
        while self._is_degraded and self._failure is None:
            await asyncio.sleep(self._config.full_check_s)
            writer = self._plan.writer
            if writer is None or not self._may_take():
                continue
            with contextlib.suppress(HeadraceError):
                found = await self._maker.make(self._log.path, more_than=len(writer.bookies))
                if found is not None and self._may_take():
                    self._next, self._separates = found, True
                    self._go_on()
                elif found is not None:
                    await self._maker.discard(found)
        self._looking = None

    def _may_take(self) -> bool:
        """Whether nothing is on its way to another ledger."""
        return self._rolling is None and self._next is None

    async def _roll(self) -> None:
        """Go on in another ledger, whatever it takes."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                with wal_errors("the nodes of the log cannot be reached"):
                    await self._roll_once()
            except StorageFullError as error:
                failure: Exception = error
                if not self._statistics.space_waiting:
                    self._statistics.space_waits += 1
                    self._statistics.space_waiting = 1
                is_over = not self._waits
            except WalWriteError as error:
                failure = error
                is_over = not self._waits or loop.time() - began > self._config.patience_s
            except HeadraceError as error:
                failure, is_over = error, True
            else:
                self._statistics.space_waiting = 0
                return
            writer = self._plan.writer
            goes_on = self._plan.phase is Phase.WRITING and writer is not None and writer.stop_cause is None
            if is_over and not goes_on:
                self._statistics.space_waiting = 0
                self._fail(failure)
                return
            if goes_on:
                await asyncio.sleep(self._config.pause_s)
            else:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._config.pause_s):
                        await self._hurry.wait()

    async def _roll_once(self) -> None:
        plan = self._plan
        await self._log.check()
        found = self._next
        if found is None or not (found.is_connected or self._is_adding):
            self._next = None
            found = self._next = await self._maker.make(self._log.path)
        assert found is not None
        await self._end_ledger()
        self._known[found.number] = found.metadata
        number = found.number
        self._is_adding = True  # it may be in the log from now on, even if that has no answer
        await self._log.change(lambda node: add_ledger(node, number, plan.first_unanswered))
        self._next, self._is_adding = None, False
        self._separates = False
        self._is_degraded = found.is_degraded
        writer = LedgerWriter(
            number, found.metadata.bookies, found.quorums, behind_bytes_max=self._config.behind_bytes_max
        )
        key = master_key(found.metadata.password)
        self._open = self._written[number] = OpenLedger(
            writer, found.connections, key, self._on_progress, timeout_s=self._config.answer_s
        )
        self._apply(plan.begin_ledger(writer))

    async def _end_ledger(self) -> None:
        """Close the ledger that is written, if there is one; answer what it holds."""
        plan, open_ledger = self._plan, self._open
        if plan.phase is Phase.WRITING:
            plan.begin_roll()
        if open_ledger is None:
            return
        writer = open_ledger.writer
        ended = await end_ledger(
            self._maker.store, writer.ledger, writer.confirmed, writer.confirmed_length, self._log.check
        )
        self._open = None
        self._known[writer.ledger] = ended
        self._apply(plan.end_ledger(ended.last_entry))
        if open_ledger.is_drained:
            self._written.pop(writer.ledger, None)
            open_ledger.close()

    async def _wait_drained(self) -> None:
        while not all(ledger.is_drained for ledger in self._written.values()):
            self._changed.clear()
            await self._changed.wait()


def _answer(frame: Frame, error: Exception | None) -> None:
    done, frame.done = frame.done, None
    assert done is not None
    done(frame, error)

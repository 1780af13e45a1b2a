"""Handles the requests to the owner of a bucket: reads its segment and calls the handlers.

Events of one stream are handled one after the other, those of different streams at once. An event is handled
at least once: the next owner begins at the checkpoint, which passes no event that is not done.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.events.event import RequestEvent, request_segment
from headrace.controller.events.frames import FoundEvent, find_events
from headrace.controller.events.queue import TRANSIENT
from headrace.controller.events.request_format import encode_event
from headrace.controller.policies.event_progress import EventProgress, Ticket
from headrace.controller.store.rows.event_rows import FailedEventRow, ProgressRow
from headrace.errors import HeadraceError, MetadataConflictError, StreamBusyError
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy, retry
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

UNFINISHED_MAX: Final = 1000
CHECKPOINT_S: Final = 2.0
TRUNCATE_BYTES: Final = 64 << 10
_READ_BYTES: Final = 128 << 10
_DAMAGED_BYTES_MAX: Final = 4096
_REASON_CHARS_MAX: Final = 1000
_LAST_WRITE_S: Final = 1.0
_RETRY: Final = RetryPolicy(initial_s=0.05, multiplier=2.0, delay_max_s=10.0, attempts=1)
_PATIENT: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1000)

_Item = RequestEvent | FoundEvent
"""An event, or damaged bytes in its place."""


@dataclass(slots=True)
class ProcessorStatistics:
    """Events that are not done now, and counts since creation, of all buckets."""

    unfinished: int = 0
    handled: int = 0
    postponed: int = 0
    retried: int = 0
    set_aside: int = 0


class EventProcessor:
    """A ``BucketWork``. Used on the controller's loop."""

    def __init__(self, context: ControllerContext, *, unfinished_max: int = UNFINISHED_MAX) -> None:
        self._context = context
        self._unfinished_max = unfinished_max
        self._statistics = ProcessorStatistics()

    @property
    def name(self) -> str:
        return "events"

    async def run(self, bucket: int) -> None:
        """Handle the events of ``bucket``, until cancelled or something fails for good.

        Raises:
            MetadataConflictError: another controller owns the bucket.
        """
        await _Run(self._context, bucket, self._unfinished_max, self._statistics).run()

    def is_idle(self) -> bool:
        """Whether every event that was read is done."""
        return not self._statistics.unfinished

    def statistics(self) -> ProcessorStatistics:
        return self._statistics


class _Run:
    """The events of one bucket, from a checkpoint on."""

    def __init__(
        self, context: ControllerContext, bucket: int, unfinished_max: int, statistics: ProcessorStatistics
    ) -> None:
        self._context = context
        self._bucket = bucket
        self._segment = request_segment(bucket)
        self._unfinished_max = unfinished_max
        self._statistics = statistics
        self._progress: EventProgress[_Item] = EventProgress(0)
        self._row, self._version = ProgressRow(), 0
        self._failed = 0
        self._truncated = 0
        self._done = asyncio.Event()
        """Set when an event is done: there is capacity for another one."""
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._supervisor = Supervisor(f"events {bucket}", self._on_failure)

    async def run(self) -> None:
        rows, access = self._context.event_progress, self._context.segments.access
        self._row, self._version = await rows.load(self._bucket)
        self._failed = self._row.failed
        facts = await access.segment_info(self._segment)
        self._truncated = facts.start_offset
        begins = facts.start_offset
        if facts.start_offset <= self._row.offset <= facts.length:
            begins = self._row.offset
        self._progress = EventProgress(begins)
        try:
            self._supervisor.spawn("read", self._read())
            self._supervisor.spawn("checkpoint", self._write_checkpoints())
            await self._failure
        finally:
            await self._supervisor.stop()
            self._statistics.unfinished -= self._progress.unfinished
            with contextlib.suppress(HeadraceError, TimeoutError):
                async with asyncio.timeout(_LAST_WRITE_S):
                    await self._write_checkpoint()

    def _on_failure(self, _: str, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    # ---------------------------------------------------------------------------------- read

    async def _read(self) -> None:
        access = self._context.segments.access
        data = b""
        while True:
            begins = self._progress.end
            found = await access.read(self._segment, begins + len(data), _READ_BYTES, wait=True)
            data += found.to_bytes()
            for item in find_events(data, begins, at_tail=found.at_tail or found.end_of_segment):
                while self._progress.unfinished >= self._unfinished_max:
                    self._done.clear()
                    await self._done.wait()
                self._arrive(item)
            data = data[self._progress.end - begins :]
            if found.end_of_segment:
                _log.error("the segment of requests is sealed", segment=self._segment)
                return

    def _arrive(self, found: FoundEvent) -> None:
        """Queue an event. Damaged bytes are those of no stream."""
        event = found.event
        stream = "" if event is None else f"{event.scope}/{event.stream}"
        self._statistics.unfinished += 1
        if self._progress.arrive(found.offset, found.end, stream, event or found):
            self._supervisor.spawn(stream, self._handle_all(stream))

    # ---------------------------------------------------------------------------------- handle

    async def _handle_all(self, stream: str) -> None:
        """Handle the events of one stream until none is left."""
        failures = 0
        while (ticket := self._progress.start(stream)) is not None:
            if await self._is_done(ticket):
                failures = 0
                self._progress.complete(ticket)
                self._statistics.unfinished -= 1
                self._done.set()
            else:
                failures += 1
                await asyncio.sleep(_RETRY.delay_s(failures, self._context.entropy.random()))

    async def _is_done(self, ticket: Ticket[_Item]) -> bool:
        """Handle an event once; return whether it is done. If not, it is queued again."""
        try:
            await self._handle(ticket)
        except StreamBusyError:
            self._statistics.postponed += 1
            self._progress.postpone(ticket)
            return False
        except TRANSIENT as error:
            self._statistics.retried += 1
            self._progress.retry(ticket)
            _log.warning("a request is retried", stream=ticket.stream, error=str(error))
            return False
        return True

    async def _handle(self, ticket: Ticket[_Item]) -> None:
        item = ticket.event
        if isinstance(item, FoundEvent):
            await self._set_aside(ticket, item.data[:_DAMAGED_BYTES_MAX], item.reason)
            return
        try:
            await self._context.events.dispatch(item)
        except TRANSIENT:
            raise
        except Exception as error:  # noqa: BLE001 - one event must not hold up those behind it for ever
            _log.error("a request failed", stream=ticket.stream, kind=item.kind.name, exc_info=error)
            await self._set_aside(ticket, encode_event(item), f"{type(error).__name__}: {error}")
        else:
            self._statistics.handled += 1

    async def _set_aside(self, ticket: Ticket[_Item], data: bytes, reason: str) -> None:
        context = self._context
        endpoint = context.buckets.endpoint
        number, self._failed = self._failed, self._failed + 1
        self._statistics.set_aside += 1
        row = FailedEventRow(
            ticket.offset,
            context.clock.now_ms(),
            str(endpoint) if endpoint.port else endpoint.host,  # a free port is known once it is bound
            reason[:_REASON_CHARS_MAX],
            data,
        )
        await retry(
            _PATIENT,
            lambda: context.event_progress.set_aside(self._bucket, number, row),
            entropy=context.entropy,
            retryable=TRANSIENT,
        )
        _log.warning("a request was set aside", bucket=self._bucket, offset=ticket.offset, reason=reason)

    # ---------------------------------------------------------------------------------- checkpoint

    async def _write_checkpoints(self) -> None:
        while True:
            await asyncio.sleep(CHECKPOINT_S)
            try:
                await self._write_checkpoint()
            except MetadataConflictError:
                raise  # another controller owns the bucket
            except TRANSIENT as error:
                _log.warning("a checkpoint is written later", bucket=self._bucket, error=str(error))

    async def _write_checkpoint(self) -> None:
        """Write how far the events are done, and drop what lies before from the segment."""
        row = ProgressRow(self._progress.checkpoint, self._failed)
        if row != self._row:
            self._version = await self._context.event_progress.write(self._bucket, row, self._version)
            self._row = row
        if row.offset - self._truncated >= TRUNCATE_BYTES:
            await self._context.segments.truncate({self._segment: row.offset})
            self._truncated = row.offset

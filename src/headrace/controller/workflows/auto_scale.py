"""Act on reports of the load of segments: splits and merges by the ordinary scale request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.events.queue import Events
from headrace.controller.policies.auto_scale import AutoScale, decide
from headrace.controller.store.contract import ABSENT, Write
from headrace.controller.store.layout import details_table, load_marks_key
from headrace.controller.store.rows.load_marks_row import LoadMarksRow, decode_load_marks, encode_load_marks
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.scale_stream import request_scale
from headrace.errors import (
    MetadataConflictError,
    NoSuchStreamError,
    PreconditionError,
    StreamSealedError,
    UnknownOutcomeError,
)
from headrace.model.names import find_stream_segment
from headrace.model.segment_report import SegmentReport, decode_report, encode_report
from headrace.runtime.logs import logger

_log = logger(__name__)

_ATTEMPTS_MAX: Final = 50


async def post_reports(events: Events, reports: Iterable[SegmentReport]) -> None:
    """Have the owners of the streams' buckets act on reports. Returns once all are posted.

    Raises OwnershipError, OverloadError, UnknownOutcomeError: some may not be.
    """
    posts = [
        events.post(RequestEvent(EventKind.SCALE_REPORT, *found[:2], encode_report(report)))
        for report in reports
        if (found := find_stream_segment(report.segment)) is not None
    ]
    await asyncio.gather(*posts)


class LoadReports:
    """The handler of ``EventKind.SCALE_REPORT``. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def handle(self, event: RequestEvent) -> None:
        """Do what a report asks for, if the stream is still as the report says. May be repeated.

        Raises:
            StreamBusyError: another scale is pending; try again.
            DataCorruptionError: the event is no report.
        """
        report = decode_report(event.payload)
        found = find_stream_segment(report.segment)
        if found is None or found[:2] != (event.scope, event.stream):
            return
        stream = await self._context.directory.find(event.scope, event.stream)
        if stream is None:
            return
        decision = await self._mark(stream, found[2], report)
        if not decision.sealed:
            return
        try:
            await request_scale(
                self._context, stream, decision.sealed, decision.ranges, self._context.clock.now_ms()
            )
        except (PreconditionError, StreamSealedError, NoSuchStreamError):
            return  # it is not as it was: a later report will say what it needs
        _log.info(
            "segments are scaled for their load",
            stream=stream.full_name,
            load=report.load.name,
            permille=report.permille,
            sealed=len(decision.sealed),
            created=len(decision.ranges),
        )

    async def _mark(self, stream: Stream, segment_id: int, report: SegmentReport) -> AutoScale:
        """Decide, and write the marks that the decision depends on."""
        store = self._context.store
        table, key = details_table(stream.uid), load_marks_key(stream.uid)
        for _ in range(_ATTEMPTS_MAX):
            found = await store.get(table, key)
            marks = LoadMarksRow() if found is None else decode_load_marks(found.value)
            decision = decide(stream.row, marks, segment_id, report, self._context.clock.now_ms())
            if decision.marks is marks:
                return decision
            version = ABSENT if found is None else found.version
            try:
                await store.update(table, [Write(key, encode_load_marks(decision.marks), version)])
            except (MetadataConflictError, UnknownOutcomeError):
                continue
            return decision
        raise MetadataConflictError(f"the marks of stream {stream.full_name} are changed by too many callers")

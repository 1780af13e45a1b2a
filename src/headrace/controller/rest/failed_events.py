"""The requests that controllers set aside, in the REST interface. Source: ``docs/reference/rest.md``."""

from __future__ import annotations

from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from headrace.controller.events.request_format import decode_event
from headrace.controller.rest.models import FailedEvent, FailedEvents
from headrace.controller.server import Controller
from headrace.controller.store.rows.event_rows import FailedEventRow
from headrace.errors import DataCorruptionError
from headrace.web.answers import answer
from headrace.web.refusals import Handler

FAILED_PATH = "/v1/debug/failed-events"


def failed_events_handler(controller: Controller) -> Handler:
    """Return what answers a GET of ``FAILED_PATH``."""

    async def show_failed(_: Request) -> Response:
        context = controller.context
        found = await context.event_progress.failed(context.buckets.count)
        events = [_failed_event(bucket, row) for bucket, row in found.rows]
        return answer(FailedEvents(events, found.dropped))

    return show_failed


def _failed_event(bucket: int, row: FailedEventRow) -> FailedEvent:
    """Describe a request that was set aside."""
    try:
        event = decode_event(row.data)
    except DataCorruptionError:
        kind = stream = ""
    else:
        kind, stream = event.kind.name, f"{event.scope}/{event.stream}"
    time = datetime.fromtimestamp(row.time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return FailedEvent(time, bucket, row.offset, kind, stream, row.controller, row.reason, row.data.hex())

"""What the REST interface shows of the inside of a running process: every ``statistics()`` there is, and
the requests that controllers set aside.

The answer follows the classes: a field that is added to one of them appears here by itself. Its size follows
the number of containers, not what they hold. Source: ``docs/reference/rest.md``.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.controller.events.request_format import decode_event
from headrace.controller.rest.models import FailedEvent, FailedEvents
from headrace.controller.rest.store_beside import StoreBeside
from headrace.controller.server import Controller
from headrace.controller.store.rows.event_rows import FailedEventRow
from headrace.errors import DataCorruptionError
from headrace.runtime.statistics import plain_values
from headrace.web.answers import answer
from headrace.web.refusals import Handler, refusal

PATH = "/v1/debug/statistics"
FAILED_PATH = "/v1/debug/failed-events"
_SHOWN_CHARS: Final = 40


def debug_handlers(controller: Controller, store: StoreBeside | None) -> dict[str, Handler]:
    """Return what answers a GET of each path under ``/v1/debug``; ``store`` is the segment store, if one
    is here.
    """

    async def show(request: Request) -> Response:
        found = store.statistics() if store is not None else {}
        wanted = request.query_params.get("container")
        if wanted is not None:
            containers = found.get("containers")
            by_name = (
                {str(key): value for key, value in containers.items()} if isinstance(containers, dict) else {}
            )
            if wanted not in by_name:
                return refusal(404, f"there is no running container {wanted[:_SHOWN_CHARS]!r}", "container")
            found["containers"] = {wanted: by_name[wanted]}
        found["controller"] = controller.statistics()
        return answer(plain_values(found))

    async def show_failed(_: Request) -> Response:
        context = controller.context
        found = await context.event_progress.failed(context.buckets.count)
        events = [_failed_event(bucket, row) for bucket, row in found.rows]
        return answer(FailedEvents(events, found.dropped))

    return {PATH: show, FAILED_PATH: show_failed}


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

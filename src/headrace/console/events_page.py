"""Some events of a stream, from its head, its last ones, from a cut or a time on."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.console.frame import Frame
from headrace.controller.rest.event_pages import LIMIT, LIMIT_MAX, decoding_of, find_events
from headrace.controller.rest.event_preview import DECODINGS, preview
from headrace.controller.rest.event_reading import BYTES_MAX, SECONDS_MAX, FoundEvent, FoundEvents
from headrace.controller.server import Controller
from headrace.errors import HeadraceError
from headrace.model.segment_id import segment_id_text
from headrace.model.stream_cut import StreamCut
from headrace.web.refusals import status_of

_SHOWN_BYTES: Final = 8 << 10
"""Of one event."""
_LIMITS: Final = (20, 100, 500)
_NOT_FOUND: Final = 404


class EventsPages:
    """Makes this page for who asks."""

    def __init__(self, controller: Controller, frame: Frame) -> None:
        self._context = controller.context
        self._frame = frame

    async def show(self, request: Request) -> Response:
        """Answer with the page. What is wrong with the question is said above the form that asks it."""
        scope, name = request.path_params["scope"], request.path_params["stream"]
        fault, decode, status = "", "auto", 200
        found = FoundEvents([], {}, "")
        try:
            decode = decoding_of(request)
            found = await find_events(self._context, request)
        except HeadraceError as error:
            fault, status = str(error), status_of(error)
            if status == _NOT_FOUND or status >= 500:
                raise
        asked = request.query_params
        at = asked.get("at", "")
        is_time = at.isascii() and at.isdigit() and len(at) <= 14
        return self._frame.page(
            request,
            "events.html",
            status,
            scope=scope,
            name=name,
            fault=fault,
            rows=[_row(each, decode) for each in found.events],
            ended_by=found.ended_by,
            next_cut=StreamCut.from_offsets(scope, name, found.behind).as_text() if not fault else "",
            decode=decode,
            decodings=DECODINGS,
            limits=_LIMITS,
            limit=asked.get("limit") or str(LIMIT),
            limit_max=LIMIT_MAX,
            bytes_max=BYTES_MAX,
            seconds_max=SECONDS_MAX,
            begin="cut" if asked.get("cut") else "at" if at else asked.get("from") or "head",
            since=datetime.fromtimestamp(int(at) / 1000, UTC) if is_time and int(at) < 10**14 else None,
        )


def _row(event: FoundEvent, decode: str) -> dict[str, Any]:
    data = event.data[:_SHOWN_BYTES]
    is_whole = len(data) == event.size
    shown = preview(data, decode, is_whole=is_whole)
    text = shown.data
    if shown.encoding == "json":
        text = json.dumps(text, ensure_ascii=False, indent=2 if decode == "json" else None)
    elif shown.encoding == "hex":
        text = " ".join(text[at : at + 8] for at in range(0, len(text), 8))
    return {
        "segment": segment_id_text(event.segment_id),
        "offset": event.offset,
        "size": event.size,
        "encoding": shown.encoding,
        "text": text,
        "is_whole": is_whole,
    }

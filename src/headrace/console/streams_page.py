"""The first pages: what there is, and how it is; all streams, sorted and searched."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.console.frame import Frame
from headrace.console.policy_words import retention_words, scaling_words
from headrace.controller.rest.controller_part import ControllerPart
from headrace.controller.rest.models import StreamFacts
from headrace.controller.rest.stream_listing import LIMIT_MAX, list_streams
from headrace.controller.server import Controller
from headrace.security.access import may_read
from headrace.security.resources import ROOT
from headrace.web.admission import shows
from headrace.web.asked_stores import AskedStores
from headrace.web.process_parts import Contributor

_ROWS: Final = 100
"""Of one page."""
_LARGEST: Final = 8
_LOOKS_MAX: Final = 20
"""Pages of the listing, of 5,000 rows each, that are looked at for one page of ours."""
_SEARCH_CHARS_MAX: Final = 200

_ORDERS: Final[dict[str, Callable[[StreamFacts], Any]]] = {
    "name": lambda each: (each.scope_name, each.stream_name),
    "state": lambda each: each.state,
    "segments": lambda each: each.segments,
    "scales": lambda each: each.stream_epoch,
    "bytes": lambda each: each.bytes,
    "created": lambda each: each.created,
}


class StreamsPages:
    """Makes these pages for who asks."""

    def __init__(self, controller: Controller, stores: AskedStores | None, frame: Frame) -> None:
        self._controller = controller
        self._stores = stores
        self._frame = frame

    async def overview(self, request: Request) -> Response:
        """Answer with health, totals and the largest streams."""
        streams, is_all = await self._find(request, "")
        parts: list[Contributor] = []
        if may_read(request.state.caller, ROOT):
            parts += ControllerPart(self._controller).contributors()
            parts += [] if self._stores is None else await self._stores.health()
        largest = sorted(streams, key=lambda each: -each.bytes)[:_LARGEST]
        return self._frame.page(
            request,
            "overview.html",
            streams=streams,
            is_all=is_all,
            segments=sum(each.segments for each in streams),
            size=sum(each.bytes for each in streams),
            scopes=len({each.scope_name for each in streams}),
            largest=[_row(each) for each in largest],
            parts=parts,
            waiting=[part for part in parts if not part.ready],
        )

    async def listing(self, request: Request) -> Response:
        """Answer with the table of streams, a page of it."""
        search = request.query_params.get("search", "")[:_SEARCH_CHARS_MAX]
        asked = request.query_params.get("sort", "name")
        order, backwards = asked.removeprefix("-"), asked.startswith("-")
        if order not in _ORDERS:
            order, backwards = "name", False
        streams, is_all = await self._find(request, search)
        streams.sort(key=_ORDERS["name"])
        streams.sort(key=_ORDERS[order], reverse=backwards)
        pages = max(1, -(-len(streams) // _ROWS))
        number = request.query_params.get("page", "1")
        page = min(pages, int(number)) if number.isascii() and number.isdigit() and len(number) < 7 else 1
        page = max(1, page)
        return self._frame.page(
            request,
            "streams.html",
            search=search,
            sort=f"-{order}" if backwards else order,
            rows=[_row(each) for each in streams[(page - 1) * _ROWS : page * _ROWS]],
            total=len(streams),
            is_all=is_all,
            page=page,
            pages=pages,
        )

    async def _find(self, request: Request, search: str) -> tuple[list[StreamFacts], bool]:
        """Return the streams that match, and whether these are all."""
        context, found, token = self._controller.context, list[StreamFacts](), ""
        for _ in range(_LOOKS_MAX):
            page = await list_streams(
                context, lambda resource: shows(request, resource), search, LIMIT_MAX - len(found), token
            )
            found += page.streams
            token = page.token
            if not token or len(found) >= LIMIT_MAX:
                break
        return found, not token


def _row(facts: StreamFacts) -> dict[str, Any]:
    return {
        "scope": facts.scope_name,
        "name": facts.stream_name,
        "state": facts.state.lower().replace("_", " "),
        "segments": facts.segments,
        "scales": facts.stream_epoch,
        "bytes": facts.bytes,
        "created": facts.created,
        "scaling": scaling_words(facts.scaling_policy),
        "retention": retention_words(facts.retention_policy),
        "tags": facts.tags,
    }

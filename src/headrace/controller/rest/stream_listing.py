"""``GET /v1/streams``: streams of all scopes with what is known of each, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.controller.context import ControllerContext
from headrace.controller.rest.documents import stream_property
from headrace.controller.rest.models import StreamFacts, StreamFactsPage
from headrace.controller.rest.options import count_of
from headrace.controller.store.rows.stream_row import StreamRow, decode_stream
from headrace.errors import NoSuchScopeError
from headrace.model.names import SYSTEM_SCOPE, segment_name
from headrace.model.segment_access import SegmentFacts
from headrace.runtime.loop_budget import LoopBudget
from headrace.security.resources import stream_resource
from headrace.web.admission import shows
from headrace.web.answers import answer
from headrace.web.refusals import Handler, InvalidFieldError

LISTING_PATH: Final = "/v1/streams"
LIMIT_MAX: Final = 1000
_LIMIT: Final = 100
ROWS_MAX: Final = 5000
"""Rows of streams that are looked at for one page, whether they belong to it or not."""
_PAGE_ROWS: Final = 200
_SEGMENTS_MAX: Final = 50_000
"""Segments that are asked about for one page: a stream whose segments are beyond it shows 0 bytes."""
_YIELD_ROWS: Final = 100
_SEARCH_CHARS_MAX: Final = 200
_PAGE_NAMES: Final = 1000

Shown = Callable[[str], bool]
"""Whether a resource is shown to who asks."""


async def list_streams(
    context: ControllerContext, shown: Shown, search: str = "", limit: int = _LIMIT, token: str = ""
) -> StreamFactsPage:
    """Return a page of the streams of users whose names or tags have ``search``, from ``token`` on.

    Raises:
        InvalidFieldError: the token is none.
    """
    wanted, found, looked_at = search.lower(), list[tuple[str, str, StreamRow]](), 0
    after_scope, position = _position_of(token)
    budget = LoopBudget(_YIELD_ROWS)
    for scope in await _scope_names(context):
        if scope < after_scope or scope == SYSTEM_SCOPE:
            continue
        at = position if scope == after_scope else b""
        while True:
            if len(found) >= limit or looked_at >= ROWS_MAX:
                return StreamFactsPage(await _facts_of(context, found), f"{scope}:{at.hex()}")
            try:
                count = min(_PAGE_ROWS, limit - len(found))
                rows, at = await context.directory.page(scope, at, count)
            except NoSuchScopeError:
                break  # it was deleted meanwhile
            if not rows:
                break
            looked_at += len(rows)
            for name, row in rows:
                await budget.spend()
                if name.startswith("_") or not shown(stream_resource(scope, name)):
                    continue
                stream = decode_stream(row.value)
                if _matches(wanted, f"{scope}/{name}", stream):
                    found.append((scope, name, stream))
    return StreamFactsPage(await _facts_of(context, found), "")


def listing_handler(context: ControllerContext) -> Handler:
    """Return what answers a GET of ``LISTING_PATH``."""

    async def show(request: Request) -> Response:
        asked = request.query_params
        page = await list_streams(
            context,
            lambda resource: shows(request, resource),
            asked.get("search", "")[:_SEARCH_CHARS_MAX],
            count_of(request, "limit", LIMIT_MAX, _LIMIT),
            asked.get("token", ""),
        )
        return answer(page)

    return show


def _matches(wanted: str, full_name: str, stream: StreamRow) -> bool:
    if not wanted or wanted in full_name.lower():
        return True
    return any(wanted in tag.lower() for tag in stream.config.tags)


def _position_of(token: str) -> tuple[str, bytes]:
    scope, _, position = token.partition(":")
    try:
        return scope, bytes.fromhex(position)
    except ValueError:
        raise InvalidFieldError("token", "this is no token of a page before") from None


async def _scope_names(context: ControllerContext) -> list[str]:
    names: list[str] = []
    token = b""
    while True:
        page, token = await context.scopes.names(token, _PAGE_NAMES)
        if not page:
            return sorted(names)
        names += page


async def _facts_of(
    context: ControllerContext, found: Sequence[tuple[str, str, StreamRow]]
) -> list[StreamFacts]:
    names: list[str] = []
    for scope, name, row in found:
        segments = row.epoch.segment_ids()
        if len(names) + len(segments) <= _SEGMENTS_MAX:
            names += [segment_name(scope, name, segment_id) for segment_id in segments]
    known = dict(zip(names, await context.segments.find(names), strict=True))
    return [_describe(scope, name, row, known) for scope, name, row in found]


def _describe(scope: str, name: str, row: StreamRow, known: dict[str, SegmentFacts | None]) -> StreamFacts:
    size = 0
    for segment_id in row.epoch.segment_ids():
        facts = known.get(segment_name(scope, name, segment_id))
        size += 0 if facts is None else facts.length - facts.start_offset
    shown = stream_property(scope, name, row.config)
    return StreamFacts(
        scope,
        name,
        row.state.name,
        row.created_ms,
        len(row.epoch.segments),
        row.epoch.epoch,
        size,
        shown.scaling_policy,
        shown.retention_policy,
        shown.tags,
    )

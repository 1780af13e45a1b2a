"""Reader groups, and the health of what serves: of this controller, of stores and containers."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from headrace.console.frame import Frame
from headrace.controller.rest.controller_part import ControllerPart
from headrace.controller.rest.group_readers import read_group, segments_of
from headrace.controller.server import Controller
from headrace.errors import NoSuchScopeError
from headrace.model.names import READER_GROUP_PREFIX
from headrace.security.resources import stream_resource
from headrace.web.admission import shows
from headrace.web.asked_stores import AskedStores

_GROUPS_MAX: Final = 1000
_PAGE_ROWS: Final = 500
_ROWS_MAX: Final = 20_000
"""Of streams and groups that are looked at."""
_SEGMENTS_MAX: Final = 500


class StatePages:
    """Makes these pages for who asks."""

    def __init__(self, controller: Controller, stores: AskedStores | None, frame: Frame) -> None:
        self._controller = controller
        self._context = controller.context
        self._stores = stores
        self._frame = frame

    async def health(self, request: Request) -> Response:
        """Answer with the state of every part, those first that are not ready."""
        parts = [*ControllerPart(self._controller).contributors()]
        parts += [] if self._stores is None else await self._stores.health()
        parts.sort(key=lambda part: part.ready)
        return self._frame.page(request, "health.html", parts=parts)

    async def groups(self, request: Request) -> Response:
        """Answer with the names of reader groups."""
        found: list[tuple[str, str]] = []
        looked_at, is_all = 0, True
        for scope in await self._context.scopes.all():
            token = b""
            while is_all:
                try:
                    rows, token = await self._context.directory.page_in(scope, token, _PAGE_ROWS)
                except NoSuchScopeError:
                    break
                if not rows:
                    break
                looked_at += len(rows)
                found += [
                    (scope.name, name.removeprefix(READER_GROUP_PREFIX))
                    for name, _ in rows
                    if name.startswith(READER_GROUP_PREFIX)
                    and shows(request, stream_resource(scope.name, name))
                ]
                is_all = looked_at < _ROWS_MAX and len(found) < _GROUPS_MAX
        return self._frame.page(request, "groups.html", groups=sorted(found)[:_GROUPS_MAX], is_all=is_all)

    async def group(self, request: Request) -> Response:
        """Answer with one group: who reads what, and how far they are behind the tail."""
        scope, name = request.path_params["scope"], request.path_params["group"]
        group = await self._controller.groups.get(scope, name)
        state = await read_group(self._context, scope, name)
        segments = segments_of(state)
        shown = segments[:_SEGMENTS_MAX]
        facts = await self._context.segments.find([each.segment for each in shown])
        rows: list[dict[str, Any]] = []
        for each, known in zip(shown, facts, strict=True):
            offset = each.offset if known is None or each.offset >= 0 else known.length
            rows.append(
                {
                    "segment": each.segment,
                    "reader": each.reader_id if isinstance(each.reader_id, str) else "",
                    "offset": offset,
                    "behind": None if known is None else max(0, known.length - offset),
                }
            )
        return self._frame.page(
            request,
            "group.html",
            scope=scope,
            name=name,
            streams=[position.full_name for position in group.row.config.starts],
            readers=[] if state is None else sorted(state.assigned),
            rows=rows,
            left_out=len(segments) - len(shown),
            behind=sum(row["behind"] or 0 for row in rows),
        )

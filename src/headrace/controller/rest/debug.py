"""What the REST interface shows of the inside of a running process: every ``statistics()`` there is.

The answer follows the classes: a field that is added to one of them appears here by itself. Its size follows
the number of containers, not what they hold. Source: ``docs/reference/rest.md``.
"""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headrace.controller.rest.refusals import guarded, refusal
from headrace.controller.rest.server_inside import ServerInside
from headrace.controller.server import Controller
from headrace.runtime.statistics import plain_values

PATH = "/v1/debug/statistics"
_SHOWN_CHARS: Final = 40


def debug_routes(controller: Controller, inside: ServerInside | None) -> list[Route]:
    """Return the routes under ``/v1/debug``; ``inside`` describes the segment store, if one is here."""

    async def show(request: Request) -> Response:
        found = inside.statistics() if inside is not None else {}
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
        return JSONResponse(plain_values(found))

    return [Route(PATH + tail, guarded(show), methods=["GET"]) for tail in ("", "/")]

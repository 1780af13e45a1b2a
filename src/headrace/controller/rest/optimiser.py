"""The storage optimisers of the process, in the REST interface: how far they are, and a pause of all of them.

Of our own. Source: ``docs/reference/rest.md``.
"""

from __future__ import annotations

from typing import Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace.controller.rest.models import OptimiserRequest, OptimiserStatus
from headrace.controller.rest.store_beside import StoreBeside
from headrace.web.answers import answer
from headrace.web.bodies import body_of
from headrace.web.refusals import Handler, refusal

PATH: Final = "/v1/storage/optimiser"


def optimiser_handlers(store: StoreBeside | None) -> dict[str, Handler]:
    """Return what answers each verb of ``PATH``; ``store`` is the segment store, if one is here."""

    async def show(_: Request) -> Response:
        if store is None:
            return refusal(404, "there is no segment store in this process")
        return answer(msgspec.convert(store.optimisers(), OptimiserStatus))

    async def switch(request: Request) -> Response:
        paused = (await body_of(request, OptimiserRequest)).paused
        if store is not None:
            store.pause_optimisers(paused=paused)
        return await show(request)

    return {"GET": show, "PUT": switch}

"""What a process answers about segment stores, and does to them: statistics, health, storage optimisers.

The answer of statistics follows their classes: a field that is added to one of them appears by itself. Its
size follows the number of containers, not what they hold. Source: ``docs/reference/rest.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from headrace.runtime.statistics import plain_values
from headrace.web.answers import answer
from headrace.web.asked_stores import AskedStores
from headrace.web.bodies import body_of
from headrace.web.health import describe_all
from headrace.web.models import OptimiserRequest, OptimiserStatus
from headrace.web.process_parts import Contributor
from headrace.web.refusals import Handler, refusal

STATISTICS_PATH: Final = "/v1/debug/statistics"
OPTIMISER_PATH: Final = "/v1/storage/optimiser"
HEALTH_PATH: Final = "/v1/cluster/health"
_SHOWN_CHARS: Final = 40
_NUMBER_CHARS: Final = 9


def statistics_handler(stores: AskedStores | None, own: Callable[[], Mapping[str, object]] = dict) -> Handler:
    """Return what answers a GET of the statistics: of ``stores``, and ``own`` ones of the process."""

    async def show(request: Request) -> Response:
        wanted = request.query_params.get("container")
        found: dict[str, Any] = {}
        if wanted is None:
            found = {} if stores is None else await stores.statistics()
        else:
            known = wanted.isascii() and wanted.isdigit() and len(wanted) <= _NUMBER_CHARS
            if stores is not None and known:
                found = await stores.statistics(int(wanted))
            if not found.get("containers"):
                return refusal(404, f"there is no running container {wanted[:_SHOWN_CHARS]!r}", "container")
        return answer({**found, **plain_values(own())})

    return show


def optimiser_handlers(stores: AskedStores | None) -> dict[str, Handler]:
    """Return what answers each verb of ``OPTIMISER_PATH``."""

    async def show(_: Request) -> Response:
        if stores is None:
            return refusal(404, "there is no segment store in this process")
        return answer(msgspec.convert(await stores.optimisers(), OptimiserStatus))

    async def switch(request: Request) -> Response:
        paused = (await body_of(request, OptimiserRequest)).paused
        if stores is not None:
            await stores.pause_optimisers(paused=paused)
        return await show(request)

    return {"GET": show, "PUT": switch}


def cluster_health_handler(
    stores: AskedStores | None, own: Callable[[], Sequence[Contributor]] = lambda: ()
) -> Handler:
    """Return what answers a GET of the health of all processes: of ``stores``, and of the ``own`` one."""

    async def show(_: Request) -> Response:
        found = [*own(), *(() if stores is None else await stores.health())]
        return answer(describe_all({each.name: each for each in found}))

    return show

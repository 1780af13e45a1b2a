"""What every process answers to those who watch it: health and metrics, of whatever parts it has.

A process without a controller answers nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

from starlette.types import ASGIApp

from headrace.security.access import Gatekeeper
from headrace.web.application import make_application, make_routes
from headrace.web.asked_stores import AskedStores
from headrace.web.health import health_handlers
from headrace.web.metrics.metric import Metric
from headrace.web.metrics.page import PATH as METRICS_PATH
from headrace.web.metrics.page import metrics_handler
from headrace.web.process_parts import ProcessPart, contributors_of, metrics_of, statistics_of, status_of
from headrace.web.refusals import Handler
from headrace.web.rules import PROCESS_RULES
from headrace.web.store_pages import OPTIMISER_PATH, STATISTICS_PATH, optimiser_handlers, statistics_handler

_PATHS: Final = (
    f"there are /live, /ready, /health, /v1/health, /metrics, {STATISTICS_PATH} and {OPTIMISER_PATH}"
)


def probe_handlers(
    parts: Sequence[ProcessPart], metrics: Sequence[Metric], version: str, *, with_details: bool
) -> dict[str, Handler]:
    """Return what answers a GET of each path of health, and of metrics in the order of this table.

    ``with_details``: whether the documents of health that everybody may ask for have them.
    """
    contributors, status = partial(contributors_of, parts), partial(status_of, parts)
    return {
        **health_handlers(contributors, status, with_details=with_details),
        METRICS_PATH: metrics_handler(metrics, partial(statistics_of, parts), version),
    }


def probe_application(
    parts: Sequence[ProcessPart],
    stores: AskedStores,
    version: str,
    gatekeeper: Gatekeeper | None = None,
    hosts: Iterable[str] = (),
) -> ASGIApp:
    """Return the application of a process with these parts and no controller; ``stores``: its segment store.

    With a ``gatekeeper`` callers need what they need at a controller: nothing for probes, permission to read
    the root for metrics. ``hosts``: names under which it answers, beside addresses and localhost.
    """
    handlers = probe_handlers(parts, metrics_of(parts), version, with_details=gatekeeper is None)
    handlers[STATISTICS_PATH] = statistics_handler(stores)
    table = {path: {"GET": handler} for path, handler in handlers.items()}
    table[OPTIMISER_PATH] = optimiser_handlers(stores)
    return make_application(make_routes(table, PROCESS_RULES, gatekeeper), hosts, _PATHS)

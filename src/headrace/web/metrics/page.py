"""``GET /metrics``: the statistics as systems for monitoring read them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response

from headrace.web.metrics.collector import StatisticsCollector
from headrace.web.metrics.metric import Metric
from headrace.web.refusals import Handler

PATH: Final = "/metrics"


def metrics_handler(
    metrics: Sequence[Metric], find_statistics: Callable[[], Mapping[str, object]], version: str
) -> Handler:
    """Return what answers a GET of ``/metrics``: text, in the format that the header ``Accept`` asks for."""
    registry = CollectorRegistry()
    registry.register(StatisticsCollector(metrics, find_statistics, version))
    for collector in (ProcessCollector, PlatformCollector, GCCollector):
        collector(registry=registry)

    async def show(request: Request) -> Response:
        try:
            encode, content_type = choose_encoder(request.headers.get("accept", ""))
        except TypeError:  # a version that is no number
            encode, content_type = choose_encoder("")
        return Response(encode(registry), headers={"content-type": content_type})

    return show

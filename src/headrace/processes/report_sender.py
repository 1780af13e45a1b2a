"""Reports of loads on their way from a segment store to any controller of its cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from headrace.errors import HeadraceError, UnreachableError
from headrace.model.endpoint import Endpoint
from headrace.model.segment_report import SegmentReport, encode_report
from headrace.processes.controller_calls import ControllerCalls
from headrace.rpc.generated import internal_pb2 as ib

_TIMEOUT_S: Final = 20.0
"""Of one call; a controller posts a report to a bucket again for some seconds before it gives up."""


class ReportSender:
    """Asks one controller as long as it takes reports, and then the next one."""

    def __init__(self, controllers: Callable[[], Sequence[Endpoint]], calls: ControllerCalls) -> None:
        """``controllers``: returns those that are alive now."""
        self._controllers = controllers
        self._calls = calls
        self._next = 0

    async def send(self, reports: Sequence[SegmentReport]) -> None:
        """Raises UnreachableError: no controller is known; HeadraceError: this one did not take them."""
        known = self._controllers()
        if not known:
            raise UnreachableError("the cluster has no controller now")
        request = ib.ReportLoadsRequest(reports=map(encode_report, reports))
        try:
            await self._calls.ask(known[self._next % len(known)], "reportLoads", request, _TIMEOUT_S)
        except HeadraceError:
            self._next += 1
            raise

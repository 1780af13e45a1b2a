"""The calls of our own between processes of one cluster. Page: ``docs/formats/internal-calls.md``."""

from __future__ import annotations

from headrace.controller.context import ControllerContext
from headrace.controller.workflows.auto_scale import post_reports
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.model.segment_report import REPORTS_MAX, decode_report
from headrace.rpc.generated import internal_pb2 as ib


class InternalCalls:
    """Hints of other processes."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def report_loads(self, request: ib.ReportLoadsRequest) -> ib.ReportLoadsResponse:
        if len(request.reports) > REPORTS_MAX:
            raise InvalidArgumentError(f"{len(request.reports)} reports in one call: {REPORTS_MAX} at most")
        try:
            reports = [decode_report(report) for report in request.reports]
        except DataCorruptionError as error:
            raise InvalidArgumentError(f"nothing was taken: {error}") from None
        await post_reports(self._context.events, reports)
        return ib.ReportLoadsResponse()

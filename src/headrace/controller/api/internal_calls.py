"""The calls of our own between processes of one cluster. Page: ``docs/formats/internal-calls.md``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.streams.stream import Stream
from headrace.controller.workflows.auto_scale import post_reports
from headrace.controller.workflows.transactions import Transactions
from headrace.errors import DataCorruptionError, InvalidArgumentError, ThrottledError
from headrace.model.segment_report import REPORTS_MAX, decode_report
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import internal_pb2 as ib

WAIT_S_MAX: Final = 5.0
WAITING_MAX: Final = 256
"""Waits at a time, a quarter of all calls: those of clients are answered beside them."""
TXNS_MAX: Final = 4096


class InternalCalls:
    """Hints for other processes: whoever gets no answer looks at the rows."""

    def __init__(self, context: ControllerContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions
        self._waiting = 0

    async def report_loads(self, request: ib.ReportLoadsRequest) -> ib.ReportLoadsResponse:
        if len(request.reports) > REPORTS_MAX:
            raise InvalidArgumentError(f"{len(request.reports)} reports in one call: {REPORTS_MAX} at most")
        try:
            reports = [decode_report(report) for report in request.reports]
        except DataCorruptionError as error:
            raise InvalidArgumentError(f"nothing was taken: {error}") from None
        await post_reports(self._context.events, reports)
        return ib.ReportLoadsResponse()

    async def wait_stream(self, request: ib.WaitStreamRequest) -> ib.WaitResponse:
        stream = await self._owned(request.streamInfo)
        if stream is None or stream.uid != request.streamUid:
            return ib.WaitResponse(isOver=True)
        engine = self._context.engine
        async with self._wait(request.waitMs):
            engine.wake(stream)  # the event that says that there is work may come later
            await engine.wait_changed(stream, request.version)
        return ib.WaitResponse(isOver=stream.gone or stream.version > request.version)

    async def wait_transactions(self, request: ib.WaitTransactionsRequest) -> ib.WaitResponse:
        if len(request.txnIds) > TXNS_MAX:
            raise InvalidArgumentError(f"{len(request.txnIds)} transactions in one call: {TXNS_MAX} at most")
        stream = await self._owned(request.streamInfo)
        if stream is None or stream.uid != request.streamUid:
            return ib.WaitResponse(isOver=True)
        txn_ids = [txn_id_from_message(txn_id) for txn_id in request.txnIds]
        is_over = False
        async with self._wait(request.waitMs):
            is_over = await self._transactions.finish(stream, txn_ids)
        return ib.WaitResponse(isOver=is_over)

    @asynccontextmanager
    async def _wait(self, wait_ms: int) -> AsyncIterator[None]:
        """End what is awaited inside after ``wait_ms``. Raises ThrottledError: too many wait."""
        if self._waiting >= WAITING_MAX:
            raise ThrottledError(f"{WAITING_MAX} calls of other controllers wait here: look at the rows")
        self._waiting += 1
        try:
            async with asyncio.timeout(min(max(wait_ms, 0) / 1000, WAIT_S_MAX)):
                yield
        except TimeoutError:
            pass
        finally:
            self._waiting -= 1

    async def _owned(self, info: pb.StreamInfo) -> Stream | None:
        """Return the stream, if it exists.

        Raises SessionExpiredError: this controller does not do its work.
        """
        buckets = self._context.buckets
        buckets.term(buckets.bucket_of(info.scope, info.stream))
        return await self._context.directory.find(info.scope, info.stream)

"""Whom a segment store tells of its loads."""

import pytest

from headrace.errors import ConnectionLostError, UnreachableError
from headrace.model.endpoint import Endpoint
from headrace.model.segment_report import Load, SegmentReport, decode_report
from headrace.processes.report_sender import ReportSender

FIRST, SECOND = Endpoint("a", 1), Endpoint("b", 2)
REPORTS = [SegmentReport("s/t/0.#epoch.0", Load.HOT, 5, 2, 2000), SegmentReport("s/t/1", Load.COLD, 5)]


class Calls:
    def __init__(self):
        self.dead, self.told = set(), []

    async def ask(self, where, method, request, timeout_s):
        if where in self.dead:
            raise ConnectionLostError("gone")
        self.told.append((where, method, [decode_report(each) for each in request.reports]))


async def test_one_controller_is_told_until_it_does_not_answer_and_then_the_next():
    calls, known = Calls(), [FIRST, SECOND]
    sender = ReportSender(lambda: known, calls)
    await sender.send(REPORTS)
    await sender.send(REPORTS[:1])
    assert calls.told == [(FIRST, "reportLoads", REPORTS), (FIRST, "reportLoads", REPORTS[:1])]
    calls.dead.add(FIRST)
    with pytest.raises(ConnectionLostError):
        await sender.send(REPORTS)  # the queue sends them again
    await sender.send(REPORTS)
    assert calls.told[-1] == (SECOND, "reportLoads", REPORTS)


async def test_reports_are_refused_while_no_controller_is_there():
    with pytest.raises(UnreachableError, match="no controller"):
        await ReportSender(list, Calls()).send(REPORTS)

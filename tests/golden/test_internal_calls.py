"""The bytes of internal calls are pinned: processes of different versions understand each other."""

from pathlib import Path

import pytest

from headrace.model.segment_report import Load, SegmentReport, encode_report
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import internal_pb2 as ib

GOLDEN = Path(__file__).parent / "rpc" / "internal_v1"
STREAM = pb.StreamInfo(scope="s", stream="t")
UID = bytes(range(16))
MESSAGES = {
    "report_loads": ib.ReportLoadsRequest(
        reports=[encode_report(SegmentReport("s/t/0.#epoch.0", Load.HOT, 1_700_000_000_000, 2, 2500))]
    ),
    "reports_taken": ib.ReportLoadsResponse(),
    "wait_stream": ib.WaitStreamRequest(
        streamInfo=STREAM, streamUid=bytes(range(16)), version=7, waitMs=5000
    ),
    "wait_transactions": ib.WaitTransactionsRequest(
        streamInfo=STREAM,
        streamUid=UID,
        txnIds=[pb.TxnId(highBits=3, lowBits=10_240), pb.TxnId(highBits=-1, lowBits=2)],
        waitMs=100,
    ),
    "over": ib.WaitResponse(isOver=True),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_bytes_it_always_had(name):
    pinned = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert MESSAGES[name].SerializeToString(deterministic=True) == pinned
    assert type(MESSAGES[name]).FromString(pinned) == MESSAGES[name]


def test_every_message_is_pinned():
    assert {path.stem for path in GOLDEN.iterdir()} == set(MESSAGES)
    assert {type(each).DESCRIPTOR.name for each in MESSAGES.values()} == set(
        ib.DESCRIPTOR.message_types_by_name
    )

"""The bytes of reports are pinned, and damage to one does not go unnoticed."""

from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.model.segment_report import Load, SegmentReport, decode_report, encode_report

GOLDEN = Path(__file__).parent / "segment_report" / "v1"
TIME_MS = 1_700_000_000_000
REPORTS = {
    "hot": SegmentReport("s/t/0.#epoch.0", Load.HOT, TIME_MS, 2, 2500),
    "cold": SegmentReport("s/t/7.#epoch.3", Load.COLD, TIME_MS, 0, 120, 900_000),
    "silent": SegmentReport("s/t/7.#epoch.3", Load.SILENT, TIME_MS),
    "warm": SegmentReport("s/t/7.#epoch.3", Load.WARM, TIME_MS, 0, 640),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_has_the_bytes_it_always_had(name):
    pinned = bytes.fromhex((GOLDEN / f"{name}.hex").read_text())
    assert encode_report(REPORTS[name]) == pinned
    assert decode_report(pinned) == REPORTS[name]


def test_every_load_is_pinned():
    assert {report.load for report in REPORTS.values()} == set(Load)
    assert {path.stem for path in GOLDEN.iterdir()} == set(REPORTS)


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        encode_report(REPORTS["hot"])[:26],
        b"\x02" + encode_report(REPORTS["hot"])[1:],
        b"\x01\x05" + encode_report(REPORTS["hot"])[2:],
        encode_report(REPORTS["hot"]) + b"\xff",
        encode_report(REPORTS["hot"]) + bytes(1000),
    ],
)
def test_what_is_no_report_is_refused(damaged):
    with pytest.raises(DataCorruptionError):
        decode_report(damaged)

"""The header-file layout and the list of an export are what they always were."""

from pathlib import Path

from headrace.storage.transfer.export_format import LIST_NAME, ExportedSegment, decode_list, encode_list
from headrace.storage.transfer.header_layout import HeaderEntry, decode_header, encode_header

GOLDEN = Path(__file__).parent
SEGMENT = "demo/orders/0.#epoch.0"
ENTRIES = [HeaderEntry(offset, f"{SEGMENT}$offset_{offset}") for offset in (0, 100, 200)]
SEGMENTS = [
    ExportedSegment(SEGMENT, 0, 250, True, 0x12345678, {"event_count": 10}),
    ExportedSegment("demo/orders/1.#epoch.0", 100, 100, False, 0, {}),
]


def test_a_header_is_pinned():
    data = (GOLDEN / "header_layout" / "v1" / "header.txt").read_bytes()
    assert encode_header(ENTRIES) == data
    assert decode_header(data) == ENTRIES


def test_a_list_is_pinned():
    data = (GOLDEN / "storage_export" / "v1" / LIST_NAME).read_bytes()
    assert encode_list(SEGMENTS, 1764000000000) == data
    assert list(decode_list(data)) == SEGMENTS

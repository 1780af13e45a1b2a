"""Records as they were first written; docs/formats/record.md."""

import json
from pathlib import Path

import pytest

from headrace.client.records.envelope import (
    NO_KEY,
    decode_headers,
    encode_headers,
    prefix_of,
    read_head,
)

VECTORS = json.loads((Path(__file__).parent / "record/v1/vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS)
def test_a_record_has_the_bytes_it_always_had(vector):
    record = bytes.fromhex(vector["record"])
    headers = {name: bytes.fromhex(value) for name, value in vector["headers"].items()}
    key, value = vector["key"], bytes.fromhex(vector["value"])
    assert prefix_of(key, vector["time_ms"], encode_headers(headers)) + value == record
    head = read_head(record, 0, len(record))
    assert head == (NO_KEY if key is None else len(key), len(encode_headers(headers)), vector["time_ms"])
    assert record[head.value_begin :] == value
    assert decode_headers(record[head.value_begin - head.headers_length : head.value_begin]) == headers

"""Operations survive their bytes, and damaged bytes are called what they are."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.operations.codec import decode, encode

i64 = st.integers(-(1 << 63), (1 << 63) - 1)
u63 = st.integers(0, (1 << 63) - 1)
data = st.binary(max_size=300)
values = st.dictionaries(st.binary(min_size=1, max_size=40), i64, max_size=5)
rows = st.dictionaries(st.text(max_size=20), st.none() | st.binary(max_size=40), max_size=5)
full_rows = st.dictionaries(st.text(max_size=20), st.binary(max_size=40), max_size=5)

operations = st.one_of(
    st.builds(
        ops.AppendBatch,
        u63,
        u63,
        u63,
        st.binary(min_size=16, max_size=16),
        i64,
        st.integers(0, (1 << 32) - 1),
        data,
    ),
    st.builds(ops.Append, u63, u63, u63, values, data),
    st.builds(ops.Seal, u63, u63, u63),
    st.builds(ops.Truncate, u63, u63, u63),
    st.builds(ops.Merge, u63, u63, u63, u63, u63, values),
    st.builds(ops.Delete, u63, u63),
    st.builds(ops.MapSegment, u63, u63, st.text(max_size=60), values),
    st.builds(ops.UpdateAttributes, u63, u63, values),
    st.builds(ops.CheckpointBegin, u63, u63, u63),
    st.builds(ops.CheckpointPart, u63, u63, st.lists(data, max_size=4), full_rows),
    st.builds(ops.CheckpointEnd, u63, u63, u63, u63),
    st.builds(ops.StorageRows, u63, rows),
    st.builds(ops.EvictSegments, u63, st.lists(u63, max_size=5)),
    st.builds(
        lambda sequence, leaving: ops.EvictSegments(
            sequence, [segment_id for segment_id, _ in leaving], [keys for _, keys in leaving]
        ),
        u63,
        st.lists(
            st.tuples(u63, st.lists(st.text(max_size=9), min_size=1, max_size=3)), min_size=1, max_size=4
        ),
    ),
    st.builds(ops.ActivateSegment, u63, u63, data, full_rows),
)


def whole(operation):
    return b"".join(bytes(piece) for piece in encode(operation))


@given(operations)
def test_every_operation_survives_its_bytes(operation):
    decoded = decode(memoryview(whole(operation)))
    assert whole(decoded) == whole(operation)
    assert type(decoded) is type(operation)
    assert decoded == operation


@given(operations, st.data())
def test_a_cut_operation_is_corruption_and_nothing_else(operation, draw):
    encoded = whole(operation)
    cut = draw.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(DataCorruptionError):
        decode(memoryview(encoded[:cut]))


@given(operations)
def test_a_left_over_byte_is_corruption(operation):
    with pytest.raises(DataCorruptionError):
        decode(memoryview(whole(operation) + b"\0"))


@given(st.binary(max_size=200))
def test_garbage_decodes_or_is_corruption(garbage):
    with contextlib.suppress(DataCorruptionError):
        decode(memoryview(garbage))


@given(operations, st.integers(0, 255))
def test_an_unknown_version_is_refused(operation, version):
    encoded = bytearray(whole(operation))
    known = (1, 2) if isinstance(operation, ops.EvictSegments | ops.ActivateSegment) else (1,)
    if version not in known:
        encoded[1] = version
        with pytest.raises(DataCorruptionError, match=f"version {version}"):
            decode(memoryview(encoded))

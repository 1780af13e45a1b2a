"""A name that is accepted can be stored: its longest chunk name is one that every provider takes."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX
from headrace.model.names import transaction_segment_name, transient_segment_name
from headrace.segmentstore.segment_names import (
    PRIMARY_NAME_BYTES_MAX,
    SEGMENT_NAME_BYTES_MAX,
    check_segment_name,
)
from headrace.storage.chunks.chunk_names import chunk_name, parse_chunk_name
from headrace.storage.providers.contract import check_chunk_name
from headrace.storage.providers.files.chunk_paths import encode_chunk_path

#: Of 4,096 bytes that a path may have; the rest is the data directory's.
PATH_CHARS_MAX = 3400

LONGEST = ["x" * PRIMARY_NAME_BYTES_MAX, "ü" * (PRIMARY_NAME_BYTES_MAX // 2), "a/" * 400 + "a", "." * 836]


def longest_chunk(segment):
    return chunk_name(2**31 - 1, f"{segment}.{INT64_MAX:x}", INT64_MAX, INT64_MAX, 8 * "f", 12 * b"\xff")


def parents_and_marked(name):
    yield name
    yield transaction_segment_name(name, (1 << 128) - 1)
    yield transient_segment_name(name, 16 * b"\xff", 16 * b"\xff")


parts = st.text(st.sampled_from("ab.#%ü漢😀\ud800"), min_size=1, max_size=300)


@given(st.lists(parts, min_size=1, max_size=400).map("/".join))
@example(LONGEST[0])
@example(LONGEST[1])
@example(LONGEST[2])
@example(LONGEST[3])
def test_what_is_accepted_can_be_stored(name):
    try:
        check_segment_name(name)
    except InvalidArgumentError:
        return
    for segment in parents_and_marked(name):
        check_segment_name(segment)
        check_chunk_name(longest_chunk(segment))
        assert len(encode_chunk_path(longest_chunk(segment))) <= PATH_CHARS_MAX
        assert parse_chunk_name(longest_chunk(segment)).segment == f"{segment}.{INT64_MAX:x}"


@pytest.mark.parametrize("name", LONGEST)
def test_names_up_to_the_limit_are_accepted(name):
    check_segment_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a//b",
        "/a",
        "a/",
        "a\0b",
        "x" * (PRIMARY_NAME_BYTES_MAX + 1),
        "ü" * (PRIMARY_NAME_BYTES_MAX // 2 + 1),
        "_system/containers/x",
        "p" * (SEGMENT_NAME_BYTES_MAX - 44) + "#transaction." + 32 * "0",
    ],
)
def test_what_storage_would_never_take_is_refused(name):
    with pytest.raises(InvalidArgumentError):
        check_segment_name(name)

"""Chunk paths, chunk names, rows, checksums: round trips and refusals for any input."""

import contextlib
from array import array
from dataclasses import replace

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import CorruptionError
from headrace.storage.chunks.append_plan import slice_buffers
from headrace.storage.chunks.checksums import extend_checksums, verify_blocks
from headrace.storage.chunks.chunk_names import ChunkName, chunk_name, parse_chunk_name
from headrace.storage.metadata import rows
from headrace.storage.providers.files.chunk_paths import (
    decode_chunk_path,
    encode_chunk_path,
    is_chunk_entry,
    prefix_directory,
)
from tests.effort import examples

any_text = st.text(st.characters(), min_size=1, max_size=60)
path_text = st.text(st.sampled_from("ab/.%#~ E-chunk\0ü\ud800"), min_size=1, max_size=450) | st.builds(
    # what is odd lies where parts are cut
    lambda directory, size, rest: directory + "a" * size + rest,
    st.sampled_from(["", "s/"]),
    st.sampled_from([197, 199, 200, 201, 399, 400]),
    st.text(st.sampled_from("../%a"), max_size=6),
)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
lengths = st.integers(0, (1 << 63) - 1)


@given(any_text | path_text)
def test_a_chunk_path_names_one_chunk_and_stays_below_the_root(name):
    path = encode_chunk_path(name)
    assert decode_chunk_path(path) == name
    parts = path.split("/")
    assert all(0 < len(part.encode("ascii")) <= 255 for part in parts)
    assert all(map(is_chunk_entry, parts))
    assert not any(part.startswith(".") for part in parts)
    assert "\0" not in path
    assert not any(part.endswith(".chunk") for part in parts[:-1])


@given(path_text, path_text)
def test_two_names_never_share_a_path(one, other):
    assert (encode_chunk_path(one) == encode_chunk_path(other)) == (one == other)


@given(path_text, st.integers(0, 450))
def test_a_chunk_lies_below_the_directory_of_each_of_its_prefixes(name, size):
    directory = prefix_directory(name[:size])
    assert encode_chunk_path(name).startswith(directory + "/" if directory else "")


@given(any_text | path_text)
def test_a_path_that_was_not_made_by_us_is_no_chunk(path):
    name = decode_chunk_path(path)
    assert name is None or encode_chunk_path(name) == path


@given(
    st.integers(0, 2**31),
    any_text,
    st.integers(0, 10**18),
    st.integers(0, 10**18),
    st.binary(min_size=12, max_size=12),
)
def test_a_chunk_name_is_taken_apart_into_what_made_it(container, segment, epoch, offset, random):
    name = chunk_name(container, segment, epoch, offset, "0123abcd", random)
    made = ChunkName(segment, epoch, offset, "0123abcd", random[:4].hex(), container)
    assert parse_chunk_name(name) == made
    earlier = f"{segment}.E-{epoch}-O-{offset}.0123abcd{random.hex()}"
    assert parse_chunk_name(earlier) == replace(made, container=None)


@given(any_text | path_text)
def test_other_names_are_no_chunk_names(name):
    assert parse_chunk_name(name) is None


# ---- rows

segment_rows = st.builds(
    rows.SegmentRow,
    int64,
    int64,
    int64,
    st.booleans(),
    int64,
    int64,
    st.integers(0, 2**32 - 1),
    any_text,
    any_text,
)


@st.composite
def chunk_rows(draw):
    block = draw(st.integers(1, 1 << 20))
    length = draw(st.integers(0, 300 * block))
    count = rows.tail_block_count(length, block)
    return rows.ChunkRow(draw(int64), length, block, array("I", range(count)), draw(any_text))


CODECS = {
    "segment": (segment_rows, rows.encode_segment_row, rows.decode_segment_row),
    "chunk": (chunk_rows(), rows.encode_chunk_row, rows.decode_chunk_row),
    "checksum": (
        st.builds(lambda n: array("I", [n] * 256), st.integers(0, 2**32 - 1)),
        rows.encode_checksum_row,
        rows.decode_checksum_row,
    ),
    "garbage": (
        st.builds(rows.GarbageRow, any_text, st.integers(0, 2**32 - 1)),
        rows.encode_garbage_row,
        rows.decode_garbage_row,
    ),
    "incarnation": (
        st.text("0123456789abcdef", min_size=8, max_size=8),
        rows.encode_incarnation_row,
        rows.decode_incarnation_row,
    ),
}


@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=examples(50))
@given(data=st.data())
def test_any_row_is_decoded_to_itself_and_any_damage_is_refused(kind, data):
    strategy, encode, decode = CODECS[kind]
    row = data.draw(strategy)
    encoded = encode(row)
    assert decode(encoded) == row
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    damaged = bytearray(encoded)
    damaged[bit // 8] ^= 1 << (bit % 8)
    for wrong in [bytes(damaged), encoded[: bit // 8], encoded + b"\0"]:
        with pytest.raises(CorruptionError):
            decode(wrong)


@pytest.mark.parametrize("kind", CODECS)
@settings(max_examples=examples(100))
@given(body=st.binary(max_size=80))
def test_bytes_with_a_right_checksum_are_decoded_or_refused_but_never_crash(kind, body):
    _, _, decode = CODECS[kind]
    body = b"\x01" + body
    with contextlib.suppress(CorruptionError):
        decode(body + crc32c(body).to_bytes(4, "big"))


# ---- checksums


@given(st.lists(st.binary(max_size=50), max_size=12), st.integers(1, 9), st.integers(0, 12))
def test_checksums_do_not_depend_on_how_the_bytes_came(parts, block, cut):
    whole = b"".join(parts)
    length, tail, groups = 0, array("I"), []
    for part in (parts[:cut], parts[cut:]):
        full, tail = extend_checksums(tail, length, block, part)
        groups += full
        length += sum(map(len, part))
    assert len(groups) == rows.full_group_count(length, block)
    assert len(tail) == rows.tail_block_count(length, block)
    every = [checksum for group in groups for checksum in group] + list(tail)
    assert every == [crc32c(whole[at : at + block]) for at in range(0, length, block)]
    verify_blocks(memoryview(whole), block, array("I", every), "chunk", 0)


@given(st.lists(st.binary(max_size=9), max_size=9), st.data())
def test_a_slice_of_buffers_is_the_slice_of_their_bytes(buffers, data):
    whole = b"".join(buffers)
    begin = data.draw(st.integers(0, len(whole)))
    length = data.draw(st.integers(0, len(whole) - begin))
    assert (
        b"".join(slice_buffers([memoryview(b) for b in buffers], begin, length))
        == whole[begin : begin + length]
    )

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.wal.config import BLOCK_BYTES
from headrace.wal.record_format import (
    KIND_CLOSE,
    KIND_DATA,
    RECORD_CONTENT_BYTES_MAX,
    RECORD_HEADER_BYTES,
    decode_header,
    encode_header,
    find_headers,
    is_whole,
    padded_bytes,
    seal_record,
)

WORD = st.integers(0, 2**64 - 1)


def encode(content, *, kind=KIND_DATA, epoch=1, number=1, sequence=1, durable=0, first=1, log=7, fill=0xEE):
    raw = memoryview(bytearray([fill]) * padded_bytes(len(content)))
    raw[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + len(content)] = content
    encode_header(
        raw,
        kind=kind,
        length=len(content),
        epoch=epoch,
        file_number=number,
        sequence=sequence,
        durable_sequence=durable,
        file_first_sequence=first,
        log=log,
    )
    seal_record(raw, len(content))
    return raw


@given(
    content=st.binary(max_size=10_000),
    kind=st.sampled_from([KIND_DATA, KIND_CLOSE]),
    epoch=WORD,
    number=WORD,
    sequences=st.tuples(WORD, WORD, WORD).filter(lambda s: max(s[0], s[1]) < s[2]),
    log=WORD,
)
def test_a_record_round_trips(content, kind, epoch, number, sequences, log):
    durable, first, sequence = sequences
    raw = encode(
        content,
        kind=kind,
        epoch=epoch,
        number=number,
        sequence=sequence,
        durable=durable,
        first=first,
        log=log,
    )
    header = decode_header(raw)
    assert header[1:] == (kind, len(content), epoch, number, sequence, durable, first, log)
    assert is_whole(raw, 0, header)
    assert bytes(raw[RECORD_HEADER_BYTES:][: len(content)]) == content


@given(st.binary(max_size=9_000))
def test_padding_fills_blocks_with_zeros_whatever_was_there(content):
    raw = encode(content)
    assert len(raw) % BLOCK_BYTES == 0
    assert len(raw) - RECORD_HEADER_BYTES - len(content) < BLOCK_BYTES
    assert not any(raw[RECORD_HEADER_BYTES + len(content) :])


@pytest.mark.parametrize("length", [0, 1, 4031, 4032, 4033, 8128, 8129])
def test_padded_bytes_is_the_least_multiple_that_holds_header_and_content(length):
    assert padded_bytes(length) - BLOCK_BYTES < RECORD_HEADER_BYTES + length <= padded_bytes(length)


def test_every_flipped_bit_of_header_and_content_is_noticed():
    raw = encode(b"some content")
    for offset in range(RECORD_HEADER_BYTES + 12):
        for bit in range(8):
            raw[offset] ^= 1 << bit
            header = decode_header(raw)
            assert header is None or not is_whole(raw, 0, header), (offset, bit)
            raw[offset] ^= 1 << bit


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes_are_no_record_or_not_whole(data, offset):
    header = decode_header(memoryview(data), offset)
    assert header is None or not is_whole(memoryview(data), offset, header)


def test_a_hostile_length_is_refused_before_anything_is_read():
    raw = encode(b"")
    raw[12:16] = (RECORD_CONTENT_BYTES_MAX + 1).to_bytes(4, "big")
    assert decode_header(raw) is None


def test_a_record_that_ends_beyond_the_buffer_is_not_whole():
    raw = encode(b"x" * 5000)
    header = decode_header(raw)
    assert not is_whole(raw[: RECORD_HEADER_BYTES + 4999], 0, header)
    assert is_whole(raw[: RECORD_HEADER_BYTES + 5000], 0, header)


@given(st.lists(st.sampled_from(["empty", "record", "shifted"]), max_size=6), st.integers(0, BLOCK_BYTES - 1))
def test_headers_are_found_at_the_start_of_blocks_only(kinds, cut):
    blocks, expected = b"", []
    for sequence, kind in enumerate(kinds, 1):
        block = bytes(BLOCK_BYTES)
        if kind == "record":
            expected.append((len(blocks), sequence))
            block = bytes(encode(b"content", sequence=sequence))
        elif kind == "shifted":
            block = (b"\0" * 8 + bytes(encode(b"content", sequence=sequence)))[:BLOCK_BYTES]
        blocks += block
    window = memoryview(blocks + b"HRWR"[:cut] + bytes(cut)[4:])
    assert [(at, header.sequence) for at, header in find_headers(window)] == expected

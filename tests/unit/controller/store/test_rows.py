import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.controller.store.rows.configuration_fields import read_configuration
from headrace.errors import DataCorruptionError
from headrace.limits import INT64_MAX
from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.policies import RetentionKind, RetentionPolicy, StreamConfiguration
from tests.unit.controller.store.row_samples import SAMPLES

kinds = pytest.mark.parametrize("name", SAMPLES)


@kinds
def test_a_row_survives_its_bytes(name):
    row, encode, decode = SAMPLES[name]
    assert decode(encode(row)) == row


@kinds
def test_a_row_cut_short_anywhere_is_corrupt(name):
    row, encode, decode = SAMPLES[name]
    data = encode(row)
    for length in range(len(data)):
        with pytest.raises(DataCorruptionError):
            decode(data[:length])


@kinds
def test_a_row_with_more_behind_it_is_corrupt(name):
    row, encode, decode = SAMPLES[name]
    with pytest.raises(DataCorruptionError):
        decode(encode(row) + b"\x00")


@kinds
def test_a_row_of_another_kind_or_version_is_corrupt(name):
    row, encode, decode = SAMPLES[name]
    data = bytearray(encode(row))
    for position, value in ((0, 0x7A), (1, 99)):
        changed = bytearray(data)
        changed[position] = value
        with pytest.raises(DataCorruptionError):
            decode(bytes(changed))


@pytest.mark.slow
@kinds
def test_a_flipped_bit_gives_another_row_or_a_corrupt_one_and_nothing_else(name):
    row, encode, decode = SAMPLES[name]
    data = encode(row)
    for position in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            try:
                decode(bytes(changed))
            except DataCorruptionError:
                continue


@given(st.binary(max_size=200))
def test_any_bytes_are_a_row_or_corrupt(data):
    for name, (_, _, decode) in SAMPLES.items():
        kind = SAMPLES[name][1](SAMPLES[name][0])[:2]
        try:
            decode(kind + data)
        except DataCorruptionError:
            continue


@given(st.integers(0, (1 << 64) - 1))
def test_unsigned_numbers_survive_in_no_more_than_ten_bytes(value):
    writer = FieldWriter()
    writer.uint(value)
    data = writer.to_bytes()
    assert len(data) == max(1, -(-value.bit_length() // 7))
    assert FieldReader(data).uint() == value


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_signed_numbers_survive(value):
    writer = FieldWriter()
    writer.sint(value)
    assert FieldReader(writer.to_bytes()).sint() == value


@pytest.mark.parametrize("data", [b"\x80" * 11 + b"\x01", b"\xff" * 9 + b"\x7f", b"\x80"])
def test_numbers_that_are_too_long_or_cut_short_are_corrupt(data):
    with pytest.raises(DataCorruptionError):
        FieldReader(data).uint()


def test_a_list_longer_than_its_row_is_refused_before_it_is_read():
    writer = FieldWriter()
    writer.uint(1 << 60)
    with pytest.raises(DataCorruptionError):
        FieldReader(writer.to_bytes()).count()


@pytest.mark.parametrize("kind", [RetentionKind.TIME, RetentionKind.SIZE])
def test_a_retention_of_zero_that_an_early_release_stored_is_none(kind):
    writer = FieldWriter(b"x", 1)
    for number in (0, 0, 0, 1, kind, 0, INT64_MAX, 0, 0, 0):
        writer.uint(number)
    read = read_configuration(FieldReader(writer.to_bytes(), b"x", (1,)))
    assert read == StreamConfiguration(retention=RetentionPolicy.none())

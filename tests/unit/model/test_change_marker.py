"""Markers of changes: joined over stores, and refused when they are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError
from headrace.model.change_marker import Looked, decode_marker, encode_marker, extend_marker, join_markers

INT64 = st.integers(0, 2**63 - 1)
LOOKS = st.dictionaries(st.integers(0, 7), st.builds(Looked, INT64, INT64))


@given(LOOKS)
def test_a_marker_is_read_as_it_was_written(looks):
    assert decode_marker(encode_marker(looks)) == looks


@given(st.lists(LOOKS, max_size=4))
def test_joined_markers_say_of_each_container_what_its_last_owner_said(stores):
    joined = decode_marker(join_markers(map(encode_marker, stores)))
    assert joined.keys() == {container for looks in stores for container in looks}
    for container, looked in joined.items():
        assert looked == max(looks[container] for looks in stores if container in looks)


@given(LOOKS, LOOKS)
def test_what_nobody_looked_at_stays_as_it_was(looks, former):
    extended = decode_marker(extend_marker(encode_marker(looks), encode_marker(former)))
    assert extended == {**former, **looks}


@pytest.mark.parametrize("data", [b"x", bytes(19), bytes(20 * 4000)])
def test_what_is_no_marker_is_refused(data):
    with pytest.raises(InvalidArgumentError):
        decode_marker(data)

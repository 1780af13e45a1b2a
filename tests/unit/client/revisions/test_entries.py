"""Entries of a shared state, and what is made of them, in any order of reading."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.revisions.entries import (
    StateEntry,
    UpdatesEntry,
    decode_entry,
    encode_state,
    encode_updates,
)
from headrace.client.revisions.replay import Replay
from headrace.client.revisions.revision import Revision
from headrace.errors import DataCorruptionError, InvalidArgumentError


@given(st.lists(st.binary(max_size=20), max_size=5))
def test_updates_come_back(updates):
    entry = decode_entry(encode_updates(updates))
    assert isinstance(entry, UpdatesEntry)
    assert [bytes(each) for each in entry.updates] == updates


@given(st.binary(max_size=50))
def test_a_state_comes_back(state):
    assert decode_entry(encode_state(state)) == StateEntry(memoryview(state))


@given(st.binary(max_size=24))
def test_any_bytes_are_an_entry_or_corruption(data):
    try:
        entry = decode_entry(data)
    except DataCorruptionError:
        return
    if isinstance(entry, UpdatesEntry):
        assert encode_updates([bytes(each) for each in entry.updates]) == data


@pytest.mark.parametrize(
    "data",
    [b"", b"\0\0\0", b"\0\0\0\3", b"\0\0\0\2\0\0\0", b"\0\0\0\2\0\0\0\5abc", b"\0\0\0\2\xff\xff\xff\xff"],
)
def test_what_is_no_entry_is_corruption(data):
    with pytest.raises(DataCorruptionError):
        decode_entry(data)


def test_a_revision_as_text():
    revision = Revision(1234, 5)
    assert revision.as_text("s/t/0.#epoch.0") == "s/t/0.#epoch.0:1234:5"
    assert Revision.from_text("s/t/0.#epoch.0:1234:5") == revision
    for text in ("", "s/t/0:1", "s/t/0:1:x", "s/t/0:-1:0", "s/t/0:1:2:3", "s/t/0:\u0661:2"):
        with pytest.raises(InvalidArgumentError):
            Revision.from_text(text)


def replay():
    return Replay(bytes.decode, bytes.decode, lambda state, update: state + update)


def test_entries_may_be_read_again_from_anywhere():
    entries = [
        (encode_state(b"a"), 10),
        (encode_updates([b"b", b"c"]), 20),
        (encode_state(b"abc"), 30),
        (encode_updates([b"d"]), 40),
    ]
    for first in range(4):
        for again in range(4):
            read = replay()
            for payload, end in [*entries[first:], *entries[again:]]:
                read.read(payload, end)
            if first == again == 3:  # in front of the first state nothing counts
                assert read.revision is None
            else:
                assert (read.state, read.revision) == ("abcd", Revision(40, 0))


def test_a_part_of_an_entry_is_applied_once():
    read = replay()
    read.adopt("ab", Revision(20, 0))  # the first of three updates
    read.read(encode_updates([b"b", b"c", b"d"]), 20)
    assert (read.state, read.revision) == ("abcd", Revision(20, 2))


def test_an_update_that_cannot_be_applied_leaves_the_state_in_front_of_its_entry():
    read = replay()
    read.read(encode_state(b"a"), 10)
    with pytest.raises(DataCorruptionError, match="offset 20"):
        read.read(encode_updates([b"b", b"\xff"]), 20)
    assert (read.state, read.revision) == ("a", Revision(10))

"""Entries of shared states as the Java client writes and reads them; docs/formats/shared-state.md."""

from headrace.client.revisions.entries import (
    StateEntry,
    UpdatesEntry,
    decode_entry,
    encode_state,
    encode_updates,
)

ADD_READER = bytes.fromhex("000200010000000009000772656164657231")
ACQUIRE_SEGMENT = bytes.fromhex(
    "000500010000000022000772656164657231001773636f70652f73747265616d2f302e2365706f63682e30"
)
ONE = bytes.fromhex("0000000200000012") + ADD_READER
TWO = ONE + bytes.fromhex("0000002b") + ACQUIRE_SEGMENT


def test_updates_are_those_of_the_java_client():
    assert encode_updates([ADD_READER]) == ONE
    assert encode_updates([ADD_READER, ACQUIRE_SEGMENT]) == TWO
    entry = decode_entry(TWO)
    assert isinstance(entry, UpdatesEntry)
    assert [bytes(each) for each in entry.updates] == [ADD_READER, ACQUIRE_SEGMENT]


def test_a_whole_state_may_have_zeros_behind_it():
    assert encode_state(b"state") == b"\0\0\0\1state"
    entry = decode_entry(b"\0\0\0\1state" + bytes(210))
    assert isinstance(entry, StateEntry)
    assert bytes(entry.state) == b"state" + bytes(210)

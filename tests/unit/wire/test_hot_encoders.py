"""The encoders of the hot paths write what the ordinary ones write."""

from hypothesis import given
from hypothesis import strategies as st

from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model.tables import NOT_EXISTS, TableEntry
from headrace.wire import commands as c
from headrace.wire.acknowledgement import encode_data_appended
from headrace.wire.frames import encode
from headrace.wire.read_reply import (
    encode_segment_read_header,
    encode_segment_read_trailer,
)
from headrace.wire.table_replies import encode_table_entries_updated, encode_table_read

KEY = st.binary(min_size=1, max_size=9)
VERSION = st.integers(-1, INT64_MAX)
INT64 = st.integers(INT64_MIN, INT64_MAX)


@given(st.binary(min_size=16, max_size=16), INT64, INT64, INT64, INT64)
def test_an_acknowledgement_is_a_data_appended(writer, number, previous, request_id, offset):
    expected = encode(c.DataAppended(writer, number, previous, request_id, offset))
    assert encode_data_appended(writer, number, previous, request_id, offset) == expected


@given(st.text(max_size=20), INT64, st.booleans(), st.booleans(), st.lists(st.binary(max_size=9)), INT64)
def test_head_data_and_trailer_are_a_segment_read(segment, offset, at_tail, end, pieces, request_id):
    data = b"".join(pieces)
    expected = encode(c.SegmentRead(segment, offset, at_tail, end, data, request_id))
    head = encode_segment_read_header(segment, offset, at_tail, end, len(data))
    assert b"".join([head, *pieces, encode_segment_read_trailer(request_id)]) == expected


@given(INT64, st.lists(VERSION, max_size=3))
def test_an_answer_to_an_update_has_its_versions(request_id, versions):
    expected = encode(c.TableEntriesUpdated(request_id, versions))
    assert encode_table_entries_updated(request_id, versions) == expected


@given(
    INT64,
    st.text(max_size=20),
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=9), st.none() | st.tuples(st.binary(max_size=9), VERSION))
    ),
)
def test_an_answer_to_a_look_up_has_an_entry_per_key(request_id, segment, items):
    found = [rest and TableEntry(key, *rest) for key, rest in items]
    keys = [key for key, _ in items]
    entries = [entry or TableEntry(key, b"", NOT_EXISTS) for key, entry in zip(keys, found, strict=True)]
    assert encode_table_read(request_id, segment, keys, found) == encode(
        c.TableRead(request_id, segment, entries)
    )

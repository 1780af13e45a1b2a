import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.reader import event_columns
from headrace.client.reader.event_columns import find_parser
from headrace.errors import AnswerTooLargeError, EventNotDecodedError, InvalidArgumentError

GOOD = [b'{"a":1,"b":"x"}', b'{"a":2,\n "c":[1,2]}', b'{"b":"y"}']


def table_of(*pieces):
    """Return a table of events, one chunk for each piece, at offsets 0, 10, 20 of segment 3."""
    events = pa.chunked_array([pa.array(piece, pa.binary()) for piece in pieces], pa.binary())
    count = len(events)
    places = pa.array(range(0, 10 * count, 10), pa.int64())
    return pa.table({"event": events, "segment_id": pa.array([3] * count, pa.int64()), "offset": places})


members = st.dictionaries(
    st.sampled_from(["a", "b", "c d", "ü"]),
    st.integers(-(1 << 53), 1 << 53) | st.none(),
    min_size=1,
)


@given(st.lists(members, min_size=1, max_size=20), st.sampled_from([None, 2]))
def test_each_event_is_a_row_with_its_members(events, indent):
    table = table_of([json.dumps(each, indent=indent).encode() for each in events])
    found = find_parser("json")(table, "s/t")
    names = dict.fromkeys(name for each in events for name in each)
    assert found.to_pylist() == [
        {name: each.get(name) for name in names} | {"segment_id": 3, "offset": 10 * place}
        for place, each in enumerate(events)
    ]


def test_chunks_do_not_matter_and_there_may_be_none():
    found = find_parser("json")(table_of(GOOD[:2], [], GOOD[2:]), "s/t")
    assert found["b"].to_pylist() == ["x", None, "y"]
    assert find_parser("json")(table_of(), "s/t").num_rows == 0
    assert find_parser("utf8")(table_of(), "s/t").num_rows == 0
    assert find_parser(None)(table_of(GOOD), "s/t") == table_of(GOOD)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (b"{", "no json: "),
        (b"", "no json: "),
        (b'{"a":1}{"a":2}', "no json: "),
        (b"5", "no object of JSON but a int"),
        (b'[{"a":1}]', "no object of JSON but a list"),
    ],
)
def test_an_event_that_is_no_object_is_named_by_its_place(event, why):
    with pytest.raises(EventNotDecodedError, match=f"the event at 30 of segment 3 of s/t is {why}") as caught:
        find_parser("json")(table_of(GOOD, [event], GOOD), "s/t")
    assert caught.value.offset == 30


def test_a_member_of_two_types_fits_into_no_column():
    with pytest.raises(InvalidArgumentError, match=r"do not fit into columns.*number to string"):
        find_parser("json")(table_of(GOOD, [b'{"a":"text"}']), "s/t")


def test_text_is_checked():
    assert find_parser("utf8")(table_of(["grüße".encode()]), "s/t")["event"].to_pylist() == ["grüße"]
    with pytest.raises(EventNotDecodedError, match="at 10 of segment 3 of s/t is no utf8"):
        find_parser("utf8")(table_of([b"ok", b"\xff"]), "s/t")


def test_what_arrow_cannot_parse_at_once_is_too_large(monkeypatch):
    monkeypatch.setattr(event_columns, "JSON_BYTES_MAX", 10)
    with pytest.raises(AnswerTooLargeError, match="too much to parse"):
        find_parser("json")(table_of(GOOD), "s/t")


def test_other_serializers_make_no_columns():
    with pytest.raises(InvalidArgumentError, match="'pickle'"):
        find_parser("pickle")


BAD = [b"{", b"5", b""]
SCHEMA = pa.schema([("a", pa.int64()), ("price", pa.decimal128(9, 2)), ("at", pa.timestamp("ms", "UTC"))])


@pytest.mark.parametrize("pieces", [[[*GOOD, *BAD]], [BAD, GOOD], [BAD]])
def test_what_the_serializer_does_not_take_is_left_out_or_a_row_without_values(pieces):
    table = table_of(*pieces)
    is_good = [event in GOOD for event in table["event"].to_pylist()]
    rows = find_parser("json", "null")(table, "s/t").to_pylist()
    assert [row["offset"] for row in rows] == table["offset"].to_pylist()
    assert [any(row.get(name) for name in "abc") for row in rows] == is_good
    rows = find_parser("json", "skip")(table, "s/t").to_pylist()
    assert [row["offset"] for row in rows] == table.filter(pa.array(is_good))["offset"].to_pylist()


def test_what_is_no_text_is_left_out_or_null():
    table = table_of([b"a", b"\xff", b"c"])
    assert find_parser("utf8", "null")(table, "s/t")["event"].to_pylist() == ["a", None, "c"]
    assert find_parser("utf8", "skip")(table, "s/t")["offset"].to_pylist() == [0, 20]


def test_a_schema_says_which_members_are_columns_and_of_which_types():
    events = [b'{"a":1,"price":"1.10","at":"2026-01-02T03:04:05Z","more":[]}', b"{}"]
    found = find_parser("json", schema=SCHEMA)(table_of(events), "s/t")
    assert found.schema.names == ["a", "price", "at", "segment_id", "offset"]
    assert [field.type for field in found.schema][:3] == SCHEMA.types
    assert found["price"].to_pylist() == [Decimal("1.10"), None]
    assert find_parser("json", schema=SCHEMA)(table_of(), "s/t").schema == found.schema


def test_an_event_that_is_not_what_the_schema_says_is_named_left_out_or_null():
    table = table_of([b'{"a":%d}' % n if n % 7 else b'{"a":"x"}' for n in range(1, 30)] + [b"{"])
    with pytest.raises(EventNotDecodedError, match="event at 290"):  # what is no JSON comes first
        find_parser("json", schema=SCHEMA)(table, "s/t")
    with pytest.raises(EventNotDecodedError, match=r"event at 60 .* is not what the schema says"):
        find_parser("json", schema=SCHEMA)(table.slice(0, 29), "s/t")
    expected = [n if n % 7 else None for n in range(1, 30)]
    assert find_parser("json", "null", SCHEMA)(table, "s/t")["a"].to_pylist() == [*expected, None]
    assert find_parser("json", "skip", SCHEMA)(table, "s/t")["a"].to_pylist() == [n for n in expected if n]


def test_members_of_two_types_are_no_column_whatever_is_left_out():
    table = table_of([b'{"a":1}', b'{"a":"x"}'])
    for on_misfit in ("raise", "skip", "null"):
        with pytest.raises(InvalidArgumentError, match="do not fit into columns"):
            find_parser("json", on_misfit)(table, "s/t")


def test_a_schema_is_for_json_and_a_misfit_is_one_of_three():
    for arguments in (("utf8", "raise", SCHEMA), (None, "raise", SCHEMA), ("json", "raise", {"a": int})):
        with pytest.raises(InvalidArgumentError, match="schema"):
            find_parser(*arguments)
    with pytest.raises(InvalidArgumentError, match="on_error"):
        find_parser("json", "drop")

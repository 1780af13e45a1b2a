"""Primitives where they are peculiar."""

import struct

import pytest

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.limits import LIST_COUNT_MAX
from headrace.model.tables import TableEntry, TableKey
from headrace.wire import commands as c
from headrace.wire.fields import decode_text, encode_text
from headrace.wire.frames import decode_payload, encode


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"sc/st/0.#epoch.0", "sc/st/0.#epoch.0"),
        ("größe €".encode(), "größe €"),
        (b"a\xc0\x80b", "a\0b"),
        (b"\xed\xa0\xbd\xed\xb8\x80", "\U0001f600"),
        ("\U0001f600".encode(), "\U0001f600"),
        (b"a\0b", "a\0b"),
    ],
)
def test_standard_and_modified_utf8_are_both_read(data, text):
    assert decode_text(data) == text
    assert decode_text(memoryview(data)) == text


@pytest.mark.parametrize(
    "data", [b"\xff", b"\xc0\x81", b"\xed\xa0\xbd", b"\xed\xb8\x80\xed\xa0\xbd", b"\xe2\x82"]
)
def test_what_is_neither_form_of_utf8_is_refused(data):
    with pytest.raises(ProtocolError):
        decode_text(data)


def test_a_string_that_does_not_fit_its_length_is_not_written():
    assert len(encode_text("x" * 65_535)) == 65_537
    with pytest.raises(InvalidArgumentError):
        encode_text("x" * 65_536)
    with pytest.raises(InvalidArgumentError):
        encode_text("\ud83d")


def test_a_bool_is_true_for_any_byte_but_zero_and_written_as_one():
    for byte in range(256):
        reply = decode_payload(37, struct.pack(">qB", 1, byte))
        assert reply == c.SegmentAttributeUpdated(1, byte != 0)
        assert encode(reply)[-1] == (byte != 0)


def test_an_empty_table_key_is_neither_read_nor_written():
    head = struct.pack(">qHH", 1, 0, 0)
    java = head + struct.pack(">iii", 1, 12, 0)
    rust = head + struct.pack(">iiiq", 1, 12, 0, 5)
    for payload in (java, rust):
        with pytest.raises(ProtocolError):
            decode_payload(78, payload)
    with pytest.raises(InvalidArgumentError):
        encode(c.ReadTable(1, "", "", [TableKey(b"")]))
    with pytest.raises(InvalidArgumentError):
        encode(c.TableRead(1, "", [TableEntry(b"", b"")]))


@pytest.mark.parametrize("count", [-1, 1, 1 << 20, (1 << 31) - 1])
def test_a_list_longer_than_its_payload_is_refused_before_it_is_built(count):
    for type_id, payload in [
        (75, struct.pack(">qi", 1, count)),
        (78, struct.pack(">qHHi", 1, 0, 0, count)),
        (58, struct.pack(">qHHHi", 1, 0, 0, 0, count)),
        (90, struct.pack(">qHi", 1, 0, count)),
        (-6, struct.pack(">qi", 1, count)),
    ]:
        with pytest.raises(ProtocolError):
            decode_payload(type_id, payload + bytes(3))


def test_an_event_inside_a_conditional_append_has_type_zero():
    good = encode(c.ConditionalAppend(bytes(16), 1, 0, b"abc", 7))
    assert good[8 + 32 : 8 + 40] == b"\0\0\0\0\0\0\0\3"
    with pytest.raises(ProtocolError):
        decode_payload(5, good[8:40] + b"\0\0\0\1" + good[44:])


def test_an_unknown_kind_of_attribute_update_is_refused():
    payload = struct.pack(">qHHHi16sbqq", 1, 0, 0, 0, 1, bytes(16), 5, 0, 0)
    with pytest.raises(ProtocolError):
        decode_payload(58, payload)


@pytest.mark.parametrize(
    "command",
    [
        c.Hello(1 << 31, 0),
        c.SegmentAttribute(1 << 63, 0),
        c.SegmentAttribute(0, -(1 << 63) - 1),
        c.DataAppended(b"short", 1),
        c.SetupAppend(1, bytes(17), "", ""),
        c.CreateSegment(1, "", 0, 128, ""),
        c.TableEntriesUpdated(1, [1 << 63]),
        c.AppendBlock(bytes(16), bytes((1 << 24) - 1 - 8 - 16 + 1)),
    ],
)
def test_a_value_that_does_not_fit_is_refused_when_written(command):
    with pytest.raises(InvalidArgumentError):
        encode(command)


def test_fields_of_a_command_can_be_compared_but_a_command_is_no_key():
    assert c.KeepAlive() == c.KeepAlive()
    with pytest.raises(TypeError):
        hash(c.Hello(1, 2))


def test_a_list_of_too_many_elements_is_refused_before_it_is_built():
    names = struct.pack(">qHi", 1, 0, LIST_COUNT_MAX + 1) + bytes(2) * (LIST_COUNT_MAX + 1) + bytes(2)
    with pytest.raises(ProtocolError, match="exceeds the limit"):
        decode_payload(90, names)
    versions = struct.pack(">qi", 1, LIST_COUNT_MAX) + bytes(8 * LIST_COUNT_MAX)
    assert len(decode_payload(75, versions).updated_versions) == LIST_COUNT_MAX

"""Every command survives its own bytes; nothing else survives as anything but ProtocolError."""

import dataclasses
import random
import struct
from typing import get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import InvalidArgumentError, ProtocolError
from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.model.tables import TableEntry, TableKey
from headrace.wire import fields
from headrace.wire.catalogue import LAYOUTS, LIVES
from headrace.wire.commands.kinds import Command, Reply, Request
from headrace.wire.frames import FrameDecoder, decode_payload, encode, encode_parts
from headrace.wire.layouts import ELEMENT_BYTES
from tests.effort import examples

INT64 = st.integers(INT64_MIN, INT64_MAX)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
DATA = st.binary(max_size=40)
UUID = st.binary(min_size=16, max_size=16)
KEY = st.binary(min_size=1, max_size=20)
STRATEGIES = {
    fields.Int8: st.integers(-128, 127),
    fields.Int32: st.integers(-(1 << 31), (1 << 31) - 1),
    fields.Int64: INT64,
    fields.Bool: st.booleans(),
    fields.Uuid: UUID,
    fields.Text: TEXT,
    fields.View: DATA,
    fields.Rest: DATA,
    fields.Event: DATA,
    fields.Bytes: DATA,
    fields.TableKeys: st.lists(st.builds(TableKey, KEY, INT64), max_size=4),
    fields.TableEntries: st.lists(st.builds(TableEntry, KEY, DATA, INT64), max_size=4),
    fields.AttributeUpdates: st.lists(
        st.builds(AttributeUpdate, UUID, st.sampled_from(UpdateKind), INT64, INT64), max_size=4
    ),
    fields.Versions: st.lists(INT64, max_size=4),
    fields.Texts: st.lists(TEXT, max_size=4),
    fields.MergedSegments: st.lists(st.builds(fields.MergedSegment, TEXT, INT64), max_size=4),
    fields.FactsOfSegments: st.lists(
        st.builds(fields.ListedSegment, st.booleans(), st.booleans(), INT64, INT64), max_size=4
    ),
    fields.SizedNames: st.lists(st.tuples(TEXT, INT64), max_size=4),
    fields.ChunkInfos: st.lists(
        st.builds(fields.ChunkInfo, INT64, INT64, INT64, TEXT, st.booleans()), max_size=4
    ),
}
COMMANDS = [life.command for life in LIVES]
TYPE_ID = {life.command: life.type_id for life in LIVES}


def values_of(command):
    hints = get_type_hints(command, include_extras=True)
    return st.builds(command, **{f.name: STRATEGIES[hints[f.name]] for f in dataclasses.fields(command)})


def optional_fields(command):
    return [
        f.name
        for f in dataclasses.fields(command)
        if f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
    ]


any_command = st.sampled_from(COMMANDS).flatmap(values_of)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=examples(25))
def test_a_command_comes_back_as_it_was_sent(command, data):
    value = data.draw(values_of(command))
    frame = encode(value)
    type_id, size = struct.unpack_from(">ii", frame)
    assert type_id == TYPE_ID[command]
    assert size == len(frame) - 8
    assert decode_payload(type_id, memoryview(frame)[8:]) == value
    assert frame == b"".join(encode_parts(value))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=examples(10))
def test_the_memory_of_a_command_is_that_of_its_bytes_and_elements(command, data):
    value = data.draw(values_of(command))
    payload = memoryview(encode(value))[8:]
    lists = [found for f in dataclasses.fields(command) if isinstance(found := getattr(value, f.name), list)]
    expected = len(payload) + ELEMENT_BYTES * len(lists[0] if lists else [])
    layout = LAYOUTS[TYPE_ID[command]]
    assert layout.decoded_bytes(payload) == layout.memory_bytes(value, payload) == expected


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=examples(10))
def test_bytes_behind_the_last_known_field_are_ignored(command, data):
    value = data.draw(values_of(command))
    hints = get_type_hints(command, include_extras=True)
    if any(hints[f.name] is fields.Rest for f in dataclasses.fields(command)):
        return  # its last field has no end of its own
    extra = data.draw(st.binary(min_size=1, max_size=30))
    assert decode_payload(TYPE_ID[command], encode(value)[8:] + extra) == value


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=examples(10))
def test_a_truncated_payload_is_refused_or_reads_with_defaults_for_its_optional_tail(command, data):
    value = data.draw(values_of(command))
    payload = encode(value)[8:]
    optional = optional_fields(command)
    hints = get_type_hints(command, include_extras=True)
    has_rest = any(hints[f.name] is fields.Rest for f in dataclasses.fields(command))
    for cut in range(len(payload)):
        try:
            short = decode_payload(TYPE_ID[command], payload[:cut])
        except ProtocolError:
            continue
        missing_began = False
        for f in dataclasses.fields(command):
            if hints[f.name] is fields.Rest:
                continue
            if getattr(short, f.name) != getattr(value, f.name):
                missing_began = True
            if missing_began:
                default = f.default if f.default is not dataclasses.MISSING else f.default_factory()
                assert f.name in optional
                assert getattr(short, f.name) == default
        assert optional or has_rest


@pytest.mark.parametrize("command", [c for c in COMMANDS if optional_fields(c)], ids=lambda c: c.__name__)
@given(data=st.data())
@settings(max_examples=examples(10))
def test_every_optional_field_may_be_missing(command, data):
    value = data.draw(values_of(command))
    names = optional_fields(command)
    for keep in range(len(names) + 1):
        defaults = command(
            *[getattr(value, f.name) for f in dataclasses.fields(command) if f.name not in names[keep:]]
        )
        frame = encode(defaults)
        tail = encode(defaults)
        for name in reversed(names[keep:]):
            default = getattr(defaults, name)
            tail_bytes = {bool: 1, int: 8, str: 2, bytes: 4, list: 4}[type(default)]
            if name in {"key_length", "error_code"}:
                tail_bytes = 4
            tail = tail[:-tail_bytes]
        assert decode_payload(TYPE_ID[command], frame[8:]) == defaults
        assert decode_payload(TYPE_ID[command], tail[8:]) == defaults


@given(st.sampled_from(LIVES), st.binary(max_size=200))
@settings(max_examples=examples(1500))
def test_garbage_in_a_payload_is_a_command_or_a_protocol_error(life, garbage):
    try:
        command = decode_payload(life.type_id, garbage)
    except ProtocolError:
        return
    assert type(command) is life.command
    try:
        again = decode_payload(life.type_id, memoryview(encode(command))[8:])
    except InvalidArgumentError:  # a string of modified UTF-8 may be longer as UTF-8? it never is
        raise AssertionError from None
    assert again == command


@given(any_command, st.randoms(use_true_random=False))
@settings(max_examples=examples(400))
def test_flipped_bytes_are_a_command_or_a_protocol_error(command, random):
    frame = bytearray(encode(command))
    for _ in range(random.randint(1, 4)):
        frame[random.randrange(len(frame))] ^= 1 << random.randrange(8)
    decoder = FrameDecoder()
    decoder.feed(frame)
    try:
        for taken in decoder.commands():
            assert isinstance(taken, Command)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            decoder.next_frame()


@given(st.binary(max_size=400))
@settings(max_examples=examples(500))
def test_a_stream_of_garbage_is_commands_then_a_protocol_error(garbage):
    decoder = FrameDecoder()
    try:
        decoder.feed(garbage)
        for _ in decoder.commands():
            pass
    except ProtocolError:
        return
    assert decoder.pending_bytes <= len(garbage)


@given(st.lists(any_command, max_size=8), st.data())
@settings(max_examples=examples(200))
def test_chunking_never_matters(commands, data):
    stream = b"".join(encode(command) for command in commands)
    decoder = FrameDecoder(buffer_bytes=data.draw(st.sampled_from([64, 100, 4096])))
    taken = []
    at = 0
    while at < len(stream):
        size = data.draw(st.integers(1, max(1, len(stream) - at)))
        decoder.feed(stream[at : at + size])
        at += size
        # Views die with the next bytes: compare at once.
        while (command := decoder.next_command()) is not None:
            assert command == commands[len(taken)]
            taken.append(type(command))
        decoder.check()
    assert len(taken) == len(commands)
    assert decoder.pending_bytes == 0


def test_one_byte_at_a_time_gives_the_same_commands():
    source = random.Random(5)
    stream = bytearray()
    expected = []
    for life in LIVES:
        payload = source.randbytes(400)
        try:
            expected.append(encode(decode_payload(life.type_id, payload)))
        except ProtocolError:
            continue
        stream += struct.pack(">ii", life.type_id, len(payload)) + payload
    assert len(expected) >= 10
    decoder = FrameDecoder(buffer_bytes=64)
    taken = []
    for byte in stream:
        decoder.get_buffer()[0] = byte
        decoder.buffer_updated(1)
        taken += [encode(command) for command in decoder.commands()]
    assert taken == expected


def test_every_command_is_a_request_or_a_reply_and_every_request_names_its_replies():
    unanswered = {"AppendBlock", "Padding", "PartialEvent"}
    for life in LIVES:
        assert issubclass(life.command, Request | Reply)
        assert bool(life.replies) == (life.is_request and life.command.__name__ not in unanswered)
    answered = {reply for life in LIVES for reply in life.replies}
    assert all(issubclass(reply, Reply) for reply in answered)

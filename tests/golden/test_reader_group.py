"""Reader groups as the Java client writes and reads them; docs/formats/reader-group.md."""

import pytest

from headrace.client.groups.checkpoint_state import CheckpointState
from headrace.client.groups.config_codec import decode_config, encode_config
from headrace.client.groups.group_codec import (
    GroupCodec,
    decode,
    decode_checkpoints,
    encode_checkpoints,
    encode_state,
    encode_update,
)
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.updates import (
    AcquireSegment,
    AddReader,
    CheckpointPublished,
    CheckpointReader,
    ClearCheckpointsBefore,
    CreateCheckpoint,
    ReleaseSegment,
    RemoveOutstandingCheckpoints,
    RemoveReader,
    SegmentCompleted,
    StateInit,
    UpdateDistanceToTail,
    UpdatingConfig,
)
from headrace.client.revisions.entries import StateEntry, decode_entry, encode_updates
from headrace.client.segment_address import SegmentAddress
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED, StreamCut

S = SegmentAddress("scope", "stream", 0)
NEXT = SegmentAddress("scope", "stream", 1 << 32 | 1)
ALL = KeyRange(0.0, 1.0)
NAME = "001773636f70652f73747265616d2f302e2365706f63682e30"
UPDATES = [
    (AddReader("reader1"), "000200010000000009000772656164657231"),
    (
        RemoveReader("reader1", {S: 500}),
        f"00030001000000002b00077265616465723101{NAME}00000000000001f4",
    ),
    (ReleaseSegment("reader1", S, 500), f"00040001000000002a000772656164657231{NAME}00000000000001f4"),
    (AcquireSegment("reader1", S), f"000500010000000022000772656164657231{NAME}"),
    (
        UpdateDistanceToTail("reader1", 30000, {S: 500}, {S: ALL}),
        (
            f"00060002000000001100077265616465723100000000000075300100000032"
            f"01{NAME}00000000000000003ff000000000000000000000000001f4"
        ),
    ),
    (
        SegmentCompleted("reader1", S, {NEXT: (0,)}, {S: ALL, NEXT: KeyRange(0.0, 0.5)}),
        (
            f"000700020000000045000772656164657231{NAME}01001773636f70652f73747265616d2f312e2365706f63682e31"
            f"010000000000000000010000005302{NAME}00000000000000003ff0000000000000"
            "001773636f70652f73747265616d2f312e2365706f63682e3100000000000000003fe0000000000000"
        ),
    ),
    (
        CheckpointReader("cp1", "reader1", {S: 500}),
        f"000800010000000030000363703100077265616465723101{NAME}00000000000001f4",
    ),
    (CreateCheckpoint("cp1"), "0009000100000000050003637031"),
    (ClearCheckpointsBefore("cp1"), "000a000100000000050003637031"),
    (CheckpointPublished(True), "000b0001000000000101"),
    (UpdatingConfig(True), "000c0001000000000101"),
    (RemoveOutstandingCheckpoints(), "000d00010000000000"),
]

CONFIG = ReaderGroupConfig(
    starts={"scope/stream": StreamCut.from_offsets("scope", "stream", {0: 100})},
    ends={"scope/stream": UNBOUNDED},
    checkpoint_interval_ms=-1,
    generation=0,
    group_id=bytes.fromhex("00112233445566778899aabbccddeeff"),
)
CONFIG_BYTES = (
    "000003000000004affffffffffffffff0000000000000bb801000c73636f70652f73747265616d1a000101000000001200"
    "0c73636f70652f73747265616d0100206401000c73636f70652f73747265616d00010000004effffffffffffffff000000"
    "0000000bb801000c73636f70652f73747265616d1a0001010000000012000c73636f70652f73747265616d010020640100"
    "0c73636f70652f73747265616d0000000003020000001900000000000000000000112233445566778899aabbccddeeff"
)
DEFAULT_BYTES = (
    "000003000000003000000000000075300000000000000bb801000c73636f70652f73747265616d0001000c73636f70652f"
    "73747265616d00010000003400000000000075300000000000000bb801000c73636f70652f73747265616d0001000c7363"
    "6f70652f73747265616d0000000003020000001900ffffffffffffffff00000000000000000000000000000000"
)
INIT = StateInit(CONFIG, {S: 100})
INIT_BYTES = (
    f"0000000300000000e880c3{CONFIG_BYTES}01{NAME}0000000000000064000100000032"
    f"01{NAME}bff0000000000000bff00000000000000000000000000064020000000100"
)
CHECKPOINTS = CheckpointState(("cp1",), {"cp1": frozenset({"reader1"})}, {"cp1": {}}, {}, True)
CHECKPOINT_BYTES = "000002000000001e010003637031010003637031010007726561646572310100036370310000010000000101"
WHOLE = GroupState(
    CONFIG,
    CHECKPOINTS,
    distances={"reader1": (1 << 63) - 1},
    assigned={"reader1": {S: 100}},
    last_read={S: 100},
    ranges={S: ALL},
)
WHOLE_BYTES = (
    f"00010003000000013380c3{CONFIG_BYTES}2c{CHECKPOINT_BYTES}010007726561646572317fffffffffffffff00"
    f"010007726561646572"
    f"3101{NAME}00000000000000640000010000004c01{NAME}000000000000006401{NAME}"
    "00000000000000003ff0000000000000020000000100"
)


@pytest.mark.parametrize(("update", "expected"), UPDATES, ids=lambda each: type(each).__name__)
def test_updates(update, expected):
    assert encode_update(update).hex() == expected
    assert decode(bytes.fromhex(expected)) == update


@pytest.mark.parametrize(("config", "expected"), [(CONFIG, CONFIG_BYTES), (None, DEFAULT_BYTES)])
def test_configurations(config, expected):
    config = config or ReaderGroupConfig(starts={"scope/stream": UNBOUNDED}, ends={"scope/stream": UNBOUNDED})
    assert encode_config(config).hex() == expected
    read = decode_config(bytes.fromhex(expected))
    assert (read, read.generation, read.group_id) == (config, config.generation, config.group_id)


def test_the_beginning_of_a_group():
    assert encode_update(INIT).hex() == INIT_BYTES
    assert decode(bytes.fromhex(INIT_BYTES)) == INIT
    assert encode_state(GroupState.begin(INIT)).hex() == INIT_BYTES


def test_the_beginning_has_zeros_behind_it_that_other_clients_leave_there():
    entry = decode_entry(bytes.fromhex("00000001" + INIT_BYTES) + bytes(210))
    assert isinstance(entry, StateEntry)
    assert GroupCodec().decode_state(bytes(entry.state)) == GroupState.begin(INIT)


def test_a_whole_state():
    assert encode_checkpoints(CHECKPOINTS).hex() == CHECKPOINT_BYTES
    assert decode_checkpoints(bytes.fromhex(CHECKPOINT_BYTES)) == CHECKPOINTS
    assert encode_state(WHOLE).hex() == WHOLE_BYTES
    assert decode(bytes.fromhex(WHOLE_BYTES)) == WHOLE


def test_an_entry_of_two_updates():
    updates = [encode_update(AddReader("reader1")), encode_update(AcquireSegment("reader1", S))]
    assert encode_updates(updates).hex() == (
        f"00000002000000120002000100000000090007726561646572310000002b{UPDATES[3][1]}"
    )


def test_older_clients_leave_revisions_out_and_newer_ones_add_some():
    assert decode(bytes.fromhex("0006000100000000110007726561646572310000000000007530")) == (
        UpdateDistanceToTail("reader1", 30000)
    )
    assert decode(bytes.fromhex("000200020000000009000772656164657231010000000100")) == AddReader("reader1")
    unnumbered = bytes.fromhex("000500010000000019000772656164657231000e") + b"scope/stream/0"
    assert decode(unnumbered) == AcquireSegment("reader1", S), "a segment without an epoch is of epoch 0"


@pytest.mark.parametrize("data", ["000e00010000000000", "000201010000000009000772656164657231", "0002", "01"])
def test_what_no_client_of_today_writes_is_refused(data):
    with pytest.raises(InvalidArgumentError):
        decode(bytes.fromhex(data))

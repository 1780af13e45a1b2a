"""What is refused of what bookies and nodes say, and with which error."""

import pytest

from headrace.errors import (
    ChecksumMismatchError,
    DataCorruptionError,
    InvalidArgumentError,
    ProtocolError,
    UnsupportedError,
)
from headrace.model.endpoint import Endpoint
from headrace.rpc.generated import bookkeeper_pb2 as messages
from headrace.wal.bookkeeper.entry_format import decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import (
    MAGIC,
    Ensemble,
    LedgerMetadata,
    close_ledger,
    decode_ledger,
    encode_ledger,
)
from headrace.wal.bookkeeper.ledger_nodes import (
    bookie_names,
    check_layout,
    decode_bookie,
    decode_ledger_id,
    ledger_path,
)
from headrace.wal.bookkeeper.log_node import LedgerEntry, LogNode, decode_log, encode_log
from headrace.wal.bookkeeper.wire_format import (
    PACKET_BYTES_MAX,
    Answer,
    AnswerCutter,
    Code,
    Operation,
    Verdict,
    encode_answer,
)

LEDGER = LedgerMetadata(
    write_quorum=3, ack_quorum=2, ensembles=(Ensemble(0, ("a:1", "b:1", "c:1")),), password=b"pw"
)


# ---- packets


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (Code.OK, Verdict.OK),
        (Code.NO_ENTRY, Verdict.ABSENT),
        (Code.NO_LEDGER, Verdict.ABSENT),
        (Code.FENCED, Verdict.FENCED),
        (Code.IO_ERROR, Verdict.UNKNOWN),
        (Code.UNKNOWN_LEDGER_STATE, Verdict.UNKNOWN),
        (Code.UNAUTHORISED, Verdict.UNKNOWN),
        (4711, Verdict.UNKNOWN),
    ],
)
def test_only_a_plain_no_is_a_no(code, verdict):
    answer = Answer(Operation.READ, code, 7, 2, b"")
    assert answer.verdict is verdict
    assert str(int(code)) in answer.code_name


@pytest.mark.parametrize(
    "data",
    [
        (23).to_bytes(4, "big"),
        (PACKET_BYTES_MAX + 1).to_bytes(4, "big"),
        b"HTTP/1.1 400 Bad Request",
        encode_answer(Answer(3, 0, 7, 2, b"")),
        encode_answer(Answer(Operation.READ, 0, 7, 2, b"")).replace(b"\x02\x02", b"\x03\x02"),
        encode_answer(Answer(Operation.ADD, 0, 7, 2, b"x")),
    ],
)
def test_an_answer_that_is_none_ends_the_connection(data):
    with pytest.raises(ProtocolError):
        AnswerCutter().feed(data)


# ---- entries


def entry(payload=b"content", **changes):
    fields = {"ledger": 7, "entry": 2, "last_confirmed": 1, "length": 15, **changes}
    return encode_entry_head(**fields, payload=payload) + payload


def test_any_damaged_bit_of_an_entry_is_noticed():
    whole = entry()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ChecksumMismatchError):
            decode_entry(damaged, 7, 2)


def test_an_entry_in_another_place_is_refused():
    for data, number in ((entry(), 3), (entry(ledger=8), 2), (b"short", 2)):
        with pytest.raises(DataCorruptionError):
            decode_entry(data, 7, number)
    assert decode_entry(entry(), 7).entry == 2


# ---- metadata


def changed(**fields):
    message = messages.LedgerMetadata.FromString(encode_ledger(LEDGER).removeprefix(MAGIC)[1:])
    for name, value in fields.items():
        setattr(message, name, value)
    body = message.SerializeToString()
    return MAGIC + bytes([len(body)]) + body


@pytest.mark.parametrize(
    "fields",
    [
        {"ack_quorum": 4},
        {"ack_quorum": 0},
        {"write_quorum": 4},
        {"ensemble_size": 4},
        {"ensemble_size": 2**31 - 1},
        {"last_entry": -2},
        {"length": -1},
    ],
)
def test_metadata_that_contradict_themselves_are_refused(fields):
    assert decode_ledger(changed()) == LEDGER
    with pytest.raises(DataCorruptionError):
        decode_ledger(changed(**fields))


def test_ledgers_of_another_digest_or_version_are_not_read():
    with pytest.raises(UnsupportedError, match="HMAC"):
        decode_ledger(changed(digest=messages.LedgerMetadata.HMAC))
    with pytest.raises(UnsupportedError, match="version 2"):
        decode_ledger(MAGIC.replace(b"3", b"2") + b"anything")


def test_entries_are_found_among_the_bookies_of_their_ensemble():
    ledger = LedgerMetadata(
        write_quorum=2, ack_quorum=2, ensembles=(Ensemble(0, ("a:1", "b:1")), Ensemble(10, ("a:1", "c:1")))
    )
    assert decode_ledger(encode_ledger(ledger)) == ledger
    assert [ledger.ensemble_of(number)[1] for number in (0, 9, 10, 99)] == ["b:1", "b:1", "c:1", "c:1"]
    assert ledger.bookies == ("a:1", "c:1")


def test_what_this_client_does_not_know_of_a_ledger_stays():
    data = encode_ledger(LEDGER).removeprefix(MAGIC)[1:] + b"\xa0\x06\x2a"  # field 100
    closed = close_ledger(MAGIC + bytes([len(data)]) + data, 4, 50)
    assert closed.endswith(b"\xa0\x06\x2a")
    assert decode_ledger(closed).last_entry == 4


# ---- nodes


def test_ledgers_lie_where_bookkeeper_has_them():
    assert ledger_path(1) == "00/0000/L0001"
    assert ledger_path(2_147_483_646) == "21/4748/L3646"
    assert ledger_path(2_147_483_647) == "000/0000/0021/4748/L3647"
    assert decode_ledger_id("idgen/ID-0000000042") == 42
    with pytest.raises(UnsupportedError):
        decode_ledger_id("idgen/ID--2147483648")


def test_another_layout_is_refused():
    check_layout(b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1")
    with pytest.raises(InvalidArgumentError, match="initnewcluster"):
        check_layout(None)
    for data in (b"", b"1\n", b"2\norg.apache.bookkeeper.meta.FlatLedgerManagerFactory:1", b"\xff"):
        with pytest.raises(UnsupportedError):
            check_layout(data)


def test_bookies_say_where_they_are():
    info = messages.BookieInfo()
    info.endpoint.add(id="http", port=8080, host="x", protocol="http")
    info.endpoint.add(id="bookie", port=3181, host="host.example", protocol="bookie-rpc")
    info.properties["rack"] = "r1"
    named = decode_bookie("bookie-1", info.SerializeToString())
    assert (named.id, named.endpoint, named.zone) == ("bookie-1", Endpoint("host.example", 3181), "r1")
    for data in (b"", b"\xff\xff"):
        assert decode_bookie("one.example:3182", data).endpoint == Endpoint("one.example", 3182)
    with pytest.raises(DataCorruptionError):
        decode_bookie("no address", b"")
    assert bookie_names(["one.example:3181", "readonly"]) == ["one.example:3181"]


@pytest.mark.parametrize(
    "node",
    [
        LogNode(5, 3, 0),
        LogNode(5, 3, 1, (LedgerEntry(7, 0, 1),)),
        LogNode(5, 3, 1, (LedgerEntry(7, 9, 1), LedgerEntry(8, 1, 1))),
        LogNode(5, 3, 1, (LedgerEntry(7, 1, 1), LedgerEntry(7, 9, 1))),
        LogNode(5, 3, 1, (LedgerEntry(7, 1, 2), LedgerEntry(8, 9, 1))),
        LogNode(5, 3, 1, (LedgerEntry(7, 1, 4),)),
    ],
)
def test_a_log_that_contradicts_itself_is_refused(node):
    with pytest.raises(DataCorruptionError):
        decode_log(encode_log(node), 5)


def test_a_log_of_another_container_is_refused():
    with pytest.raises(DataCorruptionError):
        decode_log(encode_log(LogNode(5)), 6)
    for data in (b"", b"w\x02", encode_log(LogNode(5)) + b"\0", b"w\x01\x05\x00\x01\xff\xff\xff\x7f"):
        with pytest.raises(DataCorruptionError):
            decode_log(data, 5)

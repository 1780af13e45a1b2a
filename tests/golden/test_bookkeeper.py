"""What the log over BookKeeper writes and reads: BookKeeper's own bytes, as its Java classes make them."""

from pathlib import Path

import pytest

from headrace.errors import DataCorruptionError
from headrace.wal.bookkeeper.entry_format import NO_ENTRY, decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import (
    Ensemble,
    LedgerMetadata,
    LedgerState,
    begin_recovery,
    close_ledger,
    decode_ledger,
    encode_ledger,
)
from headrace.wal.bookkeeper.log_node import (
    LedgerEntry,
    LogNode,
    decode_log,
    decode_system,
    encode_log,
    encode_system,
)
from headrace.wal.bookkeeper.wire_format import LAST_ENTRY, encode_add, encode_read, master_key
from headrace.wal.log_system import LogSystem

FOLDER = Path(__file__).parent / "bookkeeper" / "v1"
LEDGER = 7
KEY = master_key(b"pw")
HEAD = encode_entry_head(LEDGER, 2, 1, 15, b"first")
OPEN = {
    "write_quorum": 3,
    "ack_quorum": 2,
    "ensembles": (Ensemble(0, ("b1.example:3181", "b2.example:3181", "b3.example:3181")),),
    "password": b"pw",
    "created_ms": 1_700_000_000_000,
    "token": 0x0123456789ABCDEF,
    "custom": {"application": b"headrace"},
}
LEDGERS = {
    "ledger_open": LedgerMetadata(**OPEN),
    "ledger_in_recovery": LedgerMetadata(**OPEN, state=LedgerState.IN_RECOVERY),
    "ledger_closed": LedgerMetadata(**OPEN, state=LedgerState.CLOSED, last_entry=300, length=70_000),
}
PACKETS = {
    "add": encode_add(KEY, HEAD, 5) + b"first",
    "recovery_add": encode_add(KEY, HEAD, 5, recovery=True) + b"first",
    "read": encode_read(LEDGER, 2),
    "fence": encode_read(LEDGER, LAST_ENTRY, KEY),
}
LOG = LogNode(5, 3, 301, (LedgerEntry(7, 1, 1), LedgerEntry(4_000_000_000, 302, 3)))


def golden(name):
    return (FOLDER / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", LEDGERS)
def test_metadata_of_ledgers_are_those_of_bookkeeper(name):
    assert encode_ledger(LEDGERS[name]) == golden(name)
    assert decode_ledger(golden(name)) == LEDGERS[name]


def test_a_state_changes_and_nothing_else():
    begun = begin_recovery(golden("ledger_open"))
    assert begun == golden("ledger_in_recovery")
    assert close_ledger(begun, 300, 70_000) == golden("ledger_closed")


@pytest.mark.parametrize("name", PACKETS)
def test_requests_are_those_of_bookkeeper(name):
    assert PACKETS[name] == golden(name)


def test_an_entry_is_that_of_bookkeeper():
    assert HEAD + b"first" == golden("entry")
    assert decode_entry(golden("entry"), LEDGER, 2) == (LEDGER, 2, 1, 15, b"first")
    assert NO_ENTRY == -1


def test_the_node_of_a_log_is_written_and_read_as_ever():
    assert encode_log(LOG) == golden("log")
    assert decode_log(golden("log"), 5) == LOG


def test_the_node_of_a_system_is_written_and_read_as_ever():
    system = LogSystem("00112233445566778899aabbccddeeff", 4)
    assert encode_system(system) == golden("system")
    assert decode_system(golden("system")) == system


@pytest.mark.parametrize("name", LEDGERS)
def test_no_part_of_metadata_is_taken_for_the_whole(name):
    data = golden(name)
    for end in range(len(data)):
        with pytest.raises(DataCorruptionError):
            decode_ledger(data[:end])

"""Whatever is written to bookies and nodes is read as the same; whatever else comes is refused, typed."""

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DataCorruptionError, HeadraceError
from headrace.wal.bookkeeper.entry_format import decode_entry, encode_entry_head
from headrace.wal.bookkeeper.ledger_metadata import (
    MAGIC,
    Ensemble,
    LedgerMetadata,
    LedgerState,
    close_ledger,
    decode_ledger,
    encode_ledger,
)
from headrace.wal.bookkeeper.ledger_nodes import check_layout, decode_bookie, decode_ledger_id, ledger_path
from headrace.wal.bookkeeper.log_node import LedgerEntry, LogNode, decode_log, encode_log
from headrace.wal.bookkeeper.wire_format import Answer, AnswerCutter, encode_answer

NUMBERS = st.integers(0, 2**62)


@st.composite
def ledgers(draw):
    ensemble = draw(st.integers(1, 5))
    write = draw(st.integers(1, ensemble))
    firsts = [0, *draw(st.lists(st.integers(1, 2**40), max_size=3, unique=True).map(sorted))]
    bookies = [f"b{number}:3181" for number in range(9)]
    state = draw(st.sampled_from(LedgerState))
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        write_quorum=write,
        ack_quorum=draw(st.integers(1, write)),
        ensembles=tuple(
            Ensemble(first, tuple(draw(st.permutations(bookies)))[:ensemble]) for first in firsts
        ),
        state=state,
        last_entry=firsts[-1] + draw(st.integers(-1, 2**40)) if closed else -1,
        length=draw(NUMBERS) if closed else 0,
        password=draw(st.binary(max_size=300)),
        created_ms=draw(NUMBERS),
        token=draw(NUMBERS),
        custom=draw(st.dictionaries(st.text(max_size=5), st.binary(max_size=9), max_size=3)),
    )


@given(ledgers())
def test_ledgers(ledger):
    assert decode_ledger(encode_ledger(ledger)) == ledger
    closed = decode_ledger(close_ledger(encode_ledger(ledger), 2**50, 9))
    assert (closed.last_entry, closed.length, closed.ensembles) == (2**50, 9, ledger.ensembles)


@given(NUMBERS, st.integers(0, 2**62), st.data(), st.binary(max_size=400))
def test_entries(ledger, entry, data, payload):
    last_confirmed = data.draw(st.integers(-1, entry - 1))
    length = len(payload) + data.draw(st.integers(0, 2**50))
    head = encode_entry_head(ledger, entry, last_confirmed, length, payload)
    assert decode_entry(head + payload, ledger, entry) == (ledger, entry, last_confirmed, length, payload)


@given(
    st.lists(
        st.builds(
            Answer, st.just(2), st.integers(0, 200), NUMBERS, st.integers(-1, 99), st.binary(max_size=60)
        )
    ),
    st.data(),
)
def test_answers_in_any_pieces(answers, data):
    received, cutter, found = b"".join(map(encode_answer, answers)), AnswerCutter(), []
    while received:
        count = data.draw(st.integers(1, len(received)))
        found += cutter.feed(received[:count])
        received = received[count:]
    assert found == answers


@given(NUMBERS, NUMBERS, st.integers(1, 2**62), st.lists(st.integers(1, 2**30), max_size=5))
def test_logs(container, container_epoch, truncation_address, firsts):
    entries = tuple(
        LedgerEntry(number, first, container_epoch) for number, first in enumerate(sorted(firsts))
    )
    node = LogNode(container, container_epoch, truncation_address, entries)
    assert decode_log(encode_log(node), container) == node


@given(st.binary(max_size=200))
def test_garbage_is_refused_with_a_typed_error(data):
    for read in (
        decode_ledger,
        lambda found: decode_ledger(MAGIC + bytes([len(found)]) + found),
        lambda found: decode_entry(found, 1),
        lambda found: decode_log(found, 1),
        lambda found: decode_log(b"w\x01" + found, 1),
        check_layout,
        lambda found: AnswerCutter().feed(found),
    ):
        with contextlib.suppress(HeadraceError):
            read(data)
    with contextlib.suppress(DataCorruptionError):
        decode_bookie("name", data)


@given(st.integers(0, 2**31 - 2))
def test_the_path_of_a_ledger_has_its_id(ledger):
    assert int(ledger_path(ledger).replace("/", "").replace("L", "")) == ledger
    assert decode_ledger_id(f"idgen/ID-{ledger:010}") == ledger

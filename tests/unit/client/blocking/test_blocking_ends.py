"""How writers and clients for threads end: everything is durable, or the program is told what is not."""

import asyncio
import gc
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from fake_server import FakeSystem

from headrace.client import ClientConfig
from headrace.client.blocking import connect
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.errors import (
    ClosedError,
    HeadraceError,
    LostWrites,
    NotDurableError,
    StreamSealedError,
    TransactionStateError,
)
from tests.effort import seeds

SHORT = ClientConfig(close_timeout_s=0.01)


@pytest.fixture(scope="module")
def server():
    """A system on a loop of its own."""
    thread = LoopThread("asyncio")
    made = FakeSystem()
    thread.run(made.__aenter__())
    made.thread = thread
    yield made
    thread.run(made.__aexit__())
    thread.stop()


@pytest.fixture
def stream(server, request):
    name = request.node.name.partition("[")[0][:200].replace("_", "-") + f"-{len(server.controller.epochs)}"
    server.controller.create("s", name, 2)
    return name


@pytest.fixture
def stalled(server):
    """Nothing is acknowledged; what is called lets it go on."""
    gate = server.thread.call(asyncio.Event)
    server.store.ack_gate = gate

    def go_on():
        server.store.ack_gate = None
        server.thread.call(gate.set)

    yield go_on
    go_on()


def stored(server, stream):
    found = []
    for _, data in sorted(server.controller.data_of("s", stream).items()):
        found += payloads(data, find_frames(data))
    return found


def test_the_end_of_a_client_makes_durable_what_its_writers_took(server, stream):
    server.controller.create("s", f"{stream}-bytes")
    with connect(server.uri) as client:
        writer = client.event_writer("s", stream)
        for number in range(20_000):
            writer.write(b"%d" % number, f"key{number % 7}")
        raw = client.byte_writer("s", f"{stream}-bytes")
        raw.write(b"some bytes")
    assert sorted(map(int, stored(server, stream))) == list(range(20_000))
    assert server.controller.data_of("s", f"{stream}-bytes") == {0: b"some bytes"}
    with pytest.raises(ClosedError):
        writer.write(b"late")
    writer.close()
    raw.close()


def test_the_end_of_a_client_says_how_much_of_which_stream_is_not_durable(server, stream, stalled):
    client = connect(server.uri, SHORT)
    writer = client.event_writer("s", stream)
    acks = [writer.write(b"%d" % number, "key") for number in range(100)]
    acks.append(writer.write_many([b"a", b"b"], "key"))
    with pytest.raises(NotDurableError) as caught:
        client.close()
    assert caught.value.lost == (LostWrites(f"s/{stream}", 102, "events"),)
    for ack in acks:
        with pytest.raises(HeadraceError):
            ack.wait(60)
    client.close()
    for call in (writer.flush, writer.close, lambda: writer.write(b"late")):
        with pytest.raises(HeadraceError):
            call()


def test_the_error_of_a_block_goes_on_with_a_note_of_what_is_not_durable(server, stream, stalled):
    with pytest.raises(ZeroDivisionError) as caught:
        _fail_after_writing(connect(server.uri, SHORT), stream)
    assert [f"1 events of s/{stream}" in note for note in caught.value.__notes__] == [True]


def _fail_after_writing(opened, stream):
    with opened as client:
        client.event_writer("s", stream).write(b"event")
        raise ZeroDivisionError


def test_what_a_program_was_told_already_is_not_said_again_by_the_end_of_its_client(server, stream):
    with connect(server.uri) as client:
        waiting, writing = client.event_writer("s", stream), client.event_writer("s", stream)
        client.seal_stream("s", stream)
        with pytest.raises(StreamSealedError):
            waiting.write(b"event").wait(60)
        ack = writing.write(b"event")
        while not ack.done():
            time.sleep(0.001)
        with pytest.raises(StreamSealedError):
            writing.write(b"again")


def test_a_failure_that_no_caller_was_told_is_said_by_the_end_of_the_client(server, stream):
    client = connect(server.uri)
    writer = client.event_writer("s", stream)
    client.seal_stream("s", stream)
    writer.write_many([b"a", b"b"], "key")
    with pytest.raises(NotDurableError, match=f"2 events of s/{stream}"):
        client.close()


def test_an_interrupted_end_may_be_repeated(server, stream, stalled):
    client = connect(server.uri)
    writer = client.event_writer("s", stream)
    ack = writer.write(b"event", "key")
    for end in (writer.close, client.close):
        with pytest.raises(KeyboardInterrupt):
            _interrupt(end)
    assert not ack.done()
    stalled()
    client.close()
    assert ack.done()
    writer.close()
    assert stored(server, stream) == [b"event"]


def _interrupt(end):
    """Let Ctrl-C come while ``end`` waits, for what does not come."""
    former = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        end()
    finally:
        signal.signal(signal.SIGALRM, former)


def test_threads_that_wait_for_space_are_refused_when_their_client_ends(server, stream, stalled):
    client = connect(server.uri, SHORT)
    writer = client.event_writer("s", stream)
    refused = []

    def write():
        try:
            while True:
                writer.write_many([b"x" * 1000] * 1000, "key")
        except HeadraceError as error:
            refused.append(error)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    while writer.statistics().bytes_held < writer.statistics().bytes_held_max:
        time.sleep(0.001)
    with pytest.raises(NotDurableError):
        client.close()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 3


@pytest.mark.parametrize("seed", seeds(12))
def test_whatever_threads_write_while_their_client_ends_is_stored_or_refused(server, stream, seed):
    draws = random.Random(seed)
    client = connect(server.uri)
    writer = client.event_writer("s", stream)
    taken = [[] for _ in range(3)]

    def write(number):
        mine = random.Random(f"{seed} {number}")
        count = 0
        try:
            while True:
                events = [b"%d:%d" % (number, count + each) for each in range(mine.choice([1, 1, 1, 40]))]
                ack = (
                    writer.write(events[0], "key")
                    if len(events) == 1
                    else writer.write_many(events, mine.choice(["key", None]))
                )
                count += len(events)
                taken[number].append((events, ack))
                if mine.random() < 0.01:
                    writer.flush()
        except HeadraceError:
            pass  # refused: nothing of it is in ``taken``

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(draws.random() * 0.01)
    if draws.random() < 0.5:
        writer.close()
    client.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    expected = []
    for events, ack in [each for mine in taken for each in mine]:
        ack.wait(60)
        expected += events
    assert sorted(stored(server, stream)) == sorted(expected)


@pytest.mark.parametrize("how", ["commit", "abort", "detach"])
def test_a_transaction_refuses_every_verb_with_its_state_once_it_has_ended(server, stream, how):
    with connect(server.uri) as client:
        writer = client.txn_writer("s", stream)
        transaction = writer.begin()
        transaction.write(b"event", "key")
        transaction.flush()
        getattr(transaction, how)()
        _check_ended(transaction, how)
        writer.close()
        with pytest.raises(ClosedError):
            writer.begin()
    _check_ended(transaction, how)


def _check_ended(transaction, how):
    verbs = [
        lambda: transaction.write(b"late"),
        lambda: transaction.write_many([b"late"]),
        lambda: transaction.write_atomic([b"late"], "key"),
        transaction.flush,
        transaction.commit,
        transaction.detach,
    ]
    if how == "abort":
        transaction.abort()
    else:
        verbs.append(transaction.abort)
    for verb in verbs:
        with pytest.raises(TransactionStateError, match={"abort": "aborted", "commit": "committed"}.get(how)):
            verb()
    transaction.close()


def test_a_forgotten_byte_stream_is_closed_and_what_it_lost_is_said_by_the_end_of_the_client(server, stream):
    name = f"{stream}-bytes"
    server.controller.create("s", name)
    client = connect(server.uri)
    client.byte_writer("s", name).write(b"some bytes")
    gc.collect()
    assert server.controller.data_of("s", name) == {0: b"some bytes"}
    writer = client.byte_writer("s", name)
    client.seal_stream("s", name)
    writer.write(b"more")
    del writer
    gc.collect()
    with pytest.raises(NotDurableError, match=f"4 bytes of s/{name}"):
        client.close()


def run_program(program):
    """Run a program in a process of its own; return its exit code and what it wrote to stderr."""
    source = str(Path(__file__).parents[4] / "src")
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        timeout=60,
        capture_output=True,
        check=False,
        env={"PYTHONPATH": source, "PATH": ""},
    )
    return done.returncode, done.stderr.decode()


@pytest.mark.cluster
@pytest.mark.parametrize("forgets", ["writer", "client"])
def test_a_program_that_forgets_to_close_stores_its_events(server, stream, forgets):
    context = "with connect(uri) as client:" if forgets == "writer" else "client = connect(uri)\nif True:"
    code, told = run_program(f"""
from headrace.client.blocking import connect
uri = {server.uri!r}
{context}
    writer = client.event_writer("s", {stream!r})
    for number in range(2_000):
        writer.write(b"%d" % number, str(number % 10))
""")
    assert (code, told) == (0, "")
    assert sorted(map(int, stored(server, stream))) == list(range(2_000))


@pytest.mark.cluster
def test_a_program_whose_client_is_not_closed_says_at_its_end_what_is_not_durable(server, stream, stalled):
    code, told = run_program(f"""
from headrace.client import ClientConfig
from headrace.client.blocking import connect
client = connect({server.uri!r}, ClientConfig(close_timeout_s=0.01))
client.event_writer("s", {stream!r}).write(b"event")
""")
    assert code == 0
    assert f"1 events of s/{stream}" in told

import io
import os
import pickle
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from fake_server import FakeSystem

from headrace.client import WriterConfig
from headrace.client.blocking import connect, writers
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.framing.event_framing import find_frames, payloads
from headrace.client.writer import routed_writer
from headrace.errors import (
    ClosedError,
    DeadlineExceededError,
    InvalidArgumentError,
    NoSuchStreamError,
    StreamSealedError,
    TransactionStateError,
)
from tests.effort import examples


@pytest.fixture(scope="module")
def server():
    """A system on a loop of its own."""
    thread = LoopThread("asyncio")
    made = FakeSystem()
    thread.run(made.__aenter__())
    yield made
    thread.run(made.__aexit__())
    thread.stop()


@pytest.fixture
def blocking(server):
    with connect(server.uri) as client:
        yield client


@pytest.fixture
def stream(server, request):
    name = request.node.name.partition("[")[0][:200].replace("_", "-")
    server.controller.create("s", name, 2)
    return name


def stored(server, stream):
    found = []
    for _, data in sorted(server.controller.data_of("s", stream).items()):
        found += payloads(data, find_frames(data))
    return found


def test_write_and_read_without_a_loop(server, blocking, stream):
    with blocking.event_writer("s", stream) as writer:
        writer.write(b"hello", "key").wait()
        writer.write_many([b"a", b"b", b"c"], "key").wait()
        writer.write_atomic([b"x", b"y"], "key").wait(120)
    with blocking.event_reader("s", stream, end="tail") as reader:
        assert [event.data for event in reader] == [b"hello", b"a", b"b", b"c", b"x", b"y"]
        assert reader.position() == blocking.tail_cut("s", stream)
    with blocking.event_reader("s", stream, start="tail") as reader, pytest.raises(TimeoutError):
        reader.next_batch(0.01)


def test_loops_that_are_left_cost_no_event(server, blocking, stream):
    events = [b"%d" % number for number in range(10)]
    with blocking.event_writer("s", stream) as writer:
        writer.write_many(events, "key")
    with blocking.event_reader("s", stream, end="tail") as reader:
        for event in reader:
            assert event.data == b"0"
            break
        position = reader.position()
        assert [event.data for event in reader] == events[1:]
    assert [event.data for event in blocking.read("s", stream, start=position)] == events[1:]
    loop = blocking.read("s", stream)
    for event in loop:
        assert event.data == b"0"
        break
    assert [event.data for event in loop] == events[1:]
    with blocking.event_reader("s", stream) as reader:
        next(reader)
        assert list(reader.next_batch(0)) == events[1:]
        batches = reader.batches()
        for _ in range(2):
            with pytest.raises(TimeoutError):
                reader.next_batch(0)
        blocking.seal_stream("s", stream)
        assert list(batches) == []


def test_calls_in_a_row_keep_their_order_whatever_their_form(server, blocking, stream):
    with blocking.event_writer("s", stream) as writer:
        for number in range(0, 3000, 6):
            writer.write(b"%d" % number, "key")
            writer.write_many([b"%d" % (number + 1), b"%d" % (number + 2)], "key")
            writer.write_atomic([b"%d" % (number + 3)], "key")
            writer.write(b"%d" % (number + 4), "key")
            writer.write(b"%d" % (number + 5), "key")
    assert stored(server, stream) == [b"%d" % number for number in range(3000)]


def test_threads_share_a_writer_and_each_keeps_its_order(server, blocking, stream):
    config = WriterConfig(window_bytes_max=64 << 10, block_bytes_max=4096)
    writer = blocking.event_writer("s", stream, config)

    def write(name):
        for number in range(2000):
            writer.write(b"%s:%d" % (name.encode(), number), name if number % 2 else f"{name}+")

    threads = [threading.Thread(target=write, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()
    found = stored(server, stream)
    assert len(found) == 8000
    for name in ("t0", "t1", "t2", "t3"):
        for odd in (0, 1):
            mine = [int(event.split(b":")[1]) for event in found if event.startswith(name.encode())]
            assert [number for number in mine if number % 2 == odd] == list(range(odd, 2000, 2))


def test_what_an_ack_stands_for_is_held_until_it_is_settled(server, blocking, stream):
    with blocking.event_writer("s", stream) as writer:
        ack = writer.write(b"event")
        ack.wait(120)
        assert ack.done()
        with pytest.raises(InvalidArgumentError):
            writer.write(b"")
        with pytest.raises(InvalidArgumentError):
            writer.write_many([b"good", b""]).wait()
        assert writer.statistics().bytes_held == 0
    assert stored(server, stream) == [b"event"]
    with pytest.raises(ClosedError):
        writer.write(b"late")


@contextmanager
def a_busy_loop(blocking):
    """Hold up the loop's thread: what is given meanwhile is taken afterwards."""
    gate = threading.Event()
    blocking._start()[0].call_soon(gate.wait)
    try:
        yield
    finally:
        gate.set()


@pytest.mark.slow
@pytest.mark.parametrize(
    "give",
    [
        lambda writer: writer.write(b"event", b"key"),
        lambda writer: writer.write(5, "key"),
        lambda writer: writer.write_many([b"good", b""]),
        lambda writer: writer.write_many([b"good", b"good"], ["key"]),
        lambda writer: writer.write_many([b"good", b"good"], ["key", b"key"]),
        lambda writer: writer.write_many(pa.array([b"good", b""])),
        lambda writer: writer.write_many(pa.array([b"good", None])),
        lambda writer: writer.write_many(pa.array([b"good"]), pa.array([5])),
        lambda writer: writer.write_atomic([b"good", b""], "key"),
        lambda writer: writer.write_atomic([b"good"], None),
    ],
)
def test_what_is_illegal_is_refused_at_once_and_nobody_elses_events(server, blocking, stream, give):
    with blocking.event_writer("s", stream) as writer, a_busy_loop(blocking):
        for _ in range(20):
            writer.write(b"before", "key")
        with pytest.raises(InvalidArgumentError):
            give(writer)
        for _ in range(20):
            writer.write(b"after", "key")
    assert stored(server, stream) == [b"before"] * 20 + [b"after"] * 20


def test_lists_are_their_callers_again_once_they_were_given(server, blocking, stream):
    with blocking.event_writer("s", stream) as writer, a_busy_loop(blocking):
        first = bytearray(b"one")
        events, keys = [first, b"two"], ["key", "key"]
        writer.write_many(events, keys)
        first[:] = b"???"
        events.clear()
        keys.clear()
        events.append(b"three")
        writer.write_atomic(events, "key")
        events.clear()
        writer.write_many(events)
        writer.write_atomic(events, "key")
    assert stored(server, stream) == [b"one", b"two", b"three"]


def test_single_events_of_more_than_one_call_may_bring_are_taken_in_parts(
    server, blocking, stream, monkeypatch
):
    for module in (routed_writer, writers):
        monkeypatch.setattr(module, "MANY_BYTES_MAX", 10_000, raising=False)
    events = [b"%03d" % number * 100 for number in range(100)]
    with blocking.event_writer("s", stream) as writer, a_busy_loop(blocking):
        for event in events:
            writer.write(event, "key")
    assert stored(server, stream) == events


def test_a_transaction_that_was_committed_takes_no_event(server, blocking, stream):
    with blocking.txn_writer("s", stream) as writer:
        transaction = writer.begin()
        transaction.commit()
        for late in (lambda: transaction.write(b"late"), transaction.flush):
            with pytest.raises(TransactionStateError, match="is committed"):
                late()


def test_waiting_is_bounded_on_request(server, blocking, stream):
    writer = blocking.event_writer("s", stream)
    server.store.faults.drop_before_append = 1.0
    try:
        ack = writer.write(b"event")
        with pytest.raises(DeadlineExceededError):
            ack.wait(0.05)
        with pytest.raises(TimeoutError):
            writer.flush(0.05)
    finally:
        server.store.faults.drop_before_append = 0.0
    writer.close()
    assert stored(server, stream) == [b"event"]


@pytest.mark.parametrize("form", ["list", "column"])
def test_batches_larger_than_the_window_wait_for_each_other(server, blocking, stream, form):
    config = WriterConfig(window_bytes_max=8192, block_bytes_max=1024)
    events = [b"x" * 100] * 200
    batch = events if form == "list" else pa.array(events)
    with blocking.event_writer("s", stream, config) as writer:
        acks = [writer.write_many(batch, "key") for _ in range(10)]
        acks += [writer.write(b"y" * 100, "key") for _ in range(100)]
        for ack in acks:
            ack.wait(120)
    assert stored(server, stream) == events * 10 + [b"y" * 100] * 100


def test_a_sealed_stream_fails_the_writer(server, blocking, stream):
    writer = blocking.event_writer("s", stream)
    writer.write(b"before", "a").wait()
    blocking.seal_stream("s", stream)
    with pytest.raises(StreamSealedError):
        writer.write(b"after", "a").wait()
    with pytest.raises(StreamSealedError):
        writer.write(b"again", "a")
    with pytest.raises(StreamSealedError):
        writer.close()


def test_a_transaction_commits_or_aborts_with_its_block(server, blocking, stream):
    with blocking.txn_writer("s", stream) as writer:
        with writer.begin() as transaction:
            transaction.write(b"in", "key")
            transaction.write_many([b"side"], "key")
        assert not transaction.is_open
        aborted = writer.begin()
        with pytest.raises(ZeroDivisionError), aborted:
            _fail_after_writing(aborted)
    assert stored(server, stream) == [b"in", b"side"]


def _fail_after_writing(transaction):
    transaction.write(b"never", "key")
    raise ZeroDivisionError


def test_ranges_cuts_and_lists_are_plain_values(server, blocking, stream):
    with blocking.event_writer("s", stream) as writer:
        writer.write_many([b"%d" % number for number in range(100)], "key")
    assert stream in list(blocking.list_streams("s"))
    tail = blocking.tail_cut("s", stream)
    [(segment_id, end)] = [item for item in tail.offsets.items() if item[1]]
    part = blocking.read_segment_range("s", stream, segment_id, 0, end)
    assert [data for batch in part.batches() for data in batch] == [b"%d" % number for number in range(100)]
    assert len(blocking.read_segment_range("s", stream, segment_id, 0, end).read_all()) == end
    assert blocking.segment_info("s", stream, segment_id).length == end
    with pytest.raises(NoSuchStreamError):
        blocking.head_cut("s", "missing")


def test_byte_streams_are_files(server, blocking):
    server.controller.create("s", "bytes")
    with blocking.byte_writer(
        "s", "bytes", WriterConfig(window_bytes_max=4096, block_bytes_max=1024)
    ) as file:
        for number in range(100):
            assert file.write(b"line %d of this file\n" % number) > 0
        file.flush()
        file.seal()
    with blocking.byte_reader("s", "bytes") as raw:
        lines = io.BufferedReader(raw).readlines()
    assert lines == [b"line %d of this file\n" % number for number in range(100)]
    with blocking.byte_reader("s", "bytes") as raw:
        assert raw.seek(-5, io.SEEK_END) == sum(map(len, lines)) - 5
        assert raw.read() == b"file\n"
        assert raw.seek(5) == raw.tell() == 5
        assert raw.read(2) == b"0 "
        assert raw.head_offset() == 0


def test_a_client_survives_pickling(server, blocking, stream):
    blocking.stream_info("s", stream)
    with pickle.loads(pickle.dumps(blocking)) as copy:  # our own bytes
        assert copy.stream_info("s", stream).head.offsets == {0: 0, 1: 0}


def test_a_closed_client_refuses(server, stream):
    client = connect(server.uri)
    client.stream_info("s", stream)
    client.close()
    client.close()
    with pytest.raises(ClosedError):
        client.stream_info("s", stream)


def test_what_reads_ends_quietly_whenever_it_is_collected(server, stream):
    client = connect(server.uri)
    client.write("s", stream, b"event")
    reader, loop = client.event_reader("s", stream), client.read("s", stream)
    next(loop)
    thread = LoopThread("asyncio")
    done = threading.Event()

    async def end():
        done.set()

    thread.call(lambda: thread.finish(end()))  # on its own
    assert done.wait(60)
    thread.stop()
    client.close()
    loop.close()
    reader.close()


def test_a_writer_whose_client_was_closed_refuses_every_write(server, stream):
    client = connect(server.uri)
    writer = client.event_writer("s", stream)
    writer.write(b"event", "key").wait(120)
    client.close()
    for _ in range(3):
        with pytest.raises(ClosedError):
            writer.write(b"late", "key")
    with pytest.raises(ClosedError):
        writer.flush()
    writer.close()  # nothing is missing


def run_program(program):
    """Run a program in a process of its own, as a user would; return what it wrote to stderr."""
    source = str(Path(__file__).parents[4] / "src")
    environment = {**os.environ, "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=60, capture_output=True, check=True, env=environment
    )
    return done.stderr.decode()


@pytest.mark.cluster
def test_a_forked_child_connects_again_and_its_parent_goes_on(server, stream):
    run_program(f"""
import os, sys
from headrace.client.blocking import connect, writers
client = connect({server.uri!r})
writer = client.event_writer("s", {stream!r})
writer.write(b"from the parent").wait()
loop = client.read("s", {stream!r})
next(loop)
pid = os.fork()
if pid == 0:
    loop.close()  # its thread is the parent's
    with client.event_writer("s", {stream!r}) as mine:
        mine.write(b"from the child").wait(120)
    client.close()
    os._exit(0)
writer.write(b"from the parent again").wait()
assert list(loop) == []
client.tail_cut("s", {stream!r})
writer.close()
client.close()
assert os.waitpid(pid, 0)[1] == 0
""")
    expected = [b"from the child", b"from the parent", b"from the parent again"]
    assert sorted(stored(server, stream)) == expected


@pytest.mark.cluster
@pytest.mark.slow
def test_a_program_forks_again_and_again(server, stream):
    run_program(f"""
import os
from headrace.client.blocking import connect
client = connect({server.uri!r})
for _ in range({examples(20)}):
    client.tail_cut("s", {stream!r})
    pid = os.fork()
    if pid == 0:
        client.tail_cut("s", {stream!r})
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
client.close()
""")


@pytest.mark.cluster
def test_a_program_that_forgets_to_close_still_ends(server, stream):
    told = run_program(f"""
from headrace.client.blocking import connect, writers
client = connect({server.uri!r})
writer = client.event_writer("s", {stream!r})
writer.write(b"event").wait()
loop = client.read("s", {stream!r}, follow=True)
assert next(loop).data == b"event"
""")
    assert not told
    assert stored(server, stream) == [b"event"]

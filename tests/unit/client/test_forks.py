"""What a child may do with what it inherits: programs that fork on purpose at one moment.

``tests/integration/test_forks.py`` forks at all moments.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_server import FakeSystem

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.framing.event_framing import find_frames, payloads

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def server():
    thread = LoopThread("asyncio")
    made = FakeSystem()
    thread.run(made.__aenter__())
    yield made
    thread.run(made.__aexit__())
    thread.stop()


def run_program(program):
    """Run a program in a process of its own; it and its children say nothing on standard error."""
    source = str(Path(__file__).parents[3] / "src")
    environment = {**os.environ, "PYTHONPATH": source, "PYTHONWARNINGS": "ignore::DeprecationWarning"}
    done = subprocess.run(
        [sys.executable, "-c", program], timeout=300, capture_output=True, check=False, env=environment
    )
    assert (done.returncode, done.stderr.decode()) == (0, ""), done.stderr.decode()
    return done.stdout.decode()


def stored(server, stream):
    found = []
    for _, data in sorted(server.controller.data_of("s", stream).items()):
        found += payloads(data, find_frames(data))
    return sorted(found)


def test_a_child_that_leaves_the_blocks_of_its_parent_ends_nothing(server):
    server.controller.create("s", "blocks", 1)
    run_program(f"""
import os, sys
import headrace
client = headrace.connect({server.uri!r})
with client.event_writer("s/blocks") as writer, client.event_reader("s/blocks") as reader:
    writer.write(b"one").wait()
    pid = os.fork()
    if pid == 0:
        sys.exit()  # through both blocks, and to the end of the interpreter
    assert os.waitpid(pid, 0)[1] == 0
    writer.write(b"two").wait()
    assert reader.next_batch() is not None
""")
    assert stored(server, "blocks") == [b"one", b"two"]


def test_events_of_a_child_are_refused_and_those_of_the_parent_sent_once(server):
    server.controller.create("s", "once", 1)
    run_program(f"""
import os, sys
import headrace
from headrace.errors import OpenedBeforeForkError

def refused(call, *arguments):
    try:
        call(*arguments)
    except OpenedBeforeForkError as error:
        assert str(error) == "EventWriter of s/once was opened before a fork: open it in this process", error
    else:
        raise AssertionError(call)

client = headrace.connect({server.uri!r})
writer = client.event_writer("s/once")
durable = writer.write(b"0")
durable.wait()
for number in range(1, 200):
    last = writer.write(b"%d" % number)  # most of them are not sent yet
pid = os.fork()
if pid == 0:
    refused(writer.write, b"lost")
    refused(writer.flush)
    durable.wait(0)
    try:
        assert last.done()  # by chance
    except OpenedBeforeForkError:
        refused(last.wait)
    sys.exit()
assert os.waitpid(pid, 0)[1] == 0
writer.close()
""")
    assert stored(server, "once") == sorted(b"%d" % number for number in range(200))


def test_a_child_of_a_child_works_too(server):
    server.controller.create("s", "generations", 1)
    run_program(f"""
import os, sys
import headrace
client = headrace.connect({server.uri!r})
client.write("s/generations", [b"0"])
for generation in range(1, 4):
    pid = os.fork()
    if pid:
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    client.write("s/generations", [b"%d" % generation])
""")
    assert stored(server, "generations") == [b"0", b"1", b"2", b"3"]


@pytest.mark.slow
def test_where_other_code_uses_grpc_a_child_is_told_why_it_has_no_controller(server):
    server.controller.create("s", "others", 1)
    said = run_program(f"""
import os, sys
import grpc
import headrace
from headrace.errors import UnsupportedError
channel = grpc.insecure_channel({server.uri.removeprefix("tcp://")!r})
grpc.channel_ready_future(channel).result(100)
client = headrace.connect({server.uri!r})
client.tail_cut("s/others")
pid = os.fork()
if pid == 0:
    try:
        client.tail_cut("s/others")
    except UnsupportedError as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
client.tail_cut("s/others")
channel.close()
""")
    assert said == (
        "this process was forked while its parent used gRPC, which does not survive that: start it "
        "with the method spawn or forkserver, or fork before gRPC is used\n"
    )

"""What a program prints that does not catch an error: its own frames, one of ours, and the sentence."""

import os
import re
import sys
import textwrap

import pytest

from headrace.testing import LocalServer
from tests import programs

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

OURS = re.compile(r'  File ".*[/\\]headrace[/\\]')
SEVERAL = """
import traceback
for program in sys.argv[2:]:
    print(file=sys.stderr)
    try:
        exec(program)
    except BaseException:
        traceback.print_exc()
"""
BEGIN = """
import asyncio, sys, warnings
warnings.simplefilter("ignore")
import headrace, headrace.aio
uri = sys.argv[1]
client = headrace.connect(uri)
"""


@pytest.fixture(scope="module")
def server():
    with LocalServer(None, "--in-memory") as server:
        run("client.create_scope('demo'); client.create_stream('demo/orders')", server.uri)
        yield server


def run(program, uri, *arguments, **variables):
    """Run a program to its end, and return what it printed on stderr."""
    text = BEGIN + textwrap.dedent(program)
    environment = {name: value for name, value in os.environ.items() if name != "HEADRACE_DEBUG"}
    done = programs.run(
        [sys.executable, "-c", text, uri, *arguments],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.stderr


PROGRAMS = {
    "client.create_stream('nowhere/orders')": "NoSuchScopeError: ",
    "client.stream('demo/nothing').info()": "NoSuchStreamError: ",
    "client.event_writer('demo/nothing')": "NoSuchStreamError: ",
    "client.event_reader('demo/nothing')": "NoSuchStreamError: ",
    "client.txn_writer('demo/nothing').begin()": "NoSuchStreamError: ",
    "list(client.read('demo/nothing'))": "NoSuchStreamError: ",
    "list(client.list_streams('nowhere'))": "NoSuchScopeError: ",
    "client.key_value_table('demo/nothing')": "Error: ",
    "client.write('demo/orders', [1])": "InvalidArgumentError: ",
    "client.event_writer('demo/orders').write(1)": "InvalidArgumentError: ",
    "client.event_writer('demo/orders').write_many([None])": "InvalidArgumentError: ",
    "client.event_reader('demo/orders').next_batch(0.1)": "TimeoutError",
    "client.event_reader('demo/orders', start='H4sI')": "Error: ",
    "headrace.connect('nothing://')": "InvalidArgumentError: ",
    "client.create_stream('demo/new', segmets=3)": "did you mean 'segments'?",
    "client.event_reader('demo/orders', strat='head')": "did you mean 'start'?",
    "headrace.connect(uri, confg=None)": "did you mean 'config'?",
    "client.close(); list(client.list_scopes())": "ClosedError: ",
}


def test_an_uncaught_error_is_five_lines(server):
    printed = run("client.create_stream('nowhere/orders')", server.uri)
    check(printed, "NoSuchScopeError: ")
    assert len(printed.splitlines()) <= 5


def test_whatever_fails_is_short(server):
    *_, last = parts = run(SEVERAL, server.uri, *PROGRAMS).split("Traceback")
    assert last
    assert len(parts) == len(PROGRAMS) + 1
    for printed, words in zip(parts[1:], PROGRAMS.values(), strict=True):
        check("Traceback" + printed.rstrip(), words)


def check(printed, words):
    lines = [line for line in printed.splitlines() if "^^" not in line]
    assert lines[0] == "Traceback (most recent call last):"
    assert "During handling" not in printed
    assert "direct cause" not in printed
    assert len([line for line in lines if OURS.match(line)]) == 1, printed
    assert words in lines[-1]
    assert len(lines) <= 7


def test_a_block_tells_where_it_failed_and_that_once(server):
    program = """
    def main():
        with client.event_writer("demo/blocks") as writer:
            client.seal_stream("demo/blocks")
            writer.write(b"late").wait()
    client.create_stream("demo/blocks")
    main()
    """
    printed = run(program, server.uri)
    assert printed.count("Traceback") == 1
    assert len(OURS.findall(printed)) == 1
    assert printed.splitlines()[-1].startswith("headrace.errors.StreamSealedError: ")
    assert "During handling" not in printed


@pytest.mark.parametrize(
    "call",
    [
        "await client.create_stream('nowhere/orders')",
        "await client.stream('demo/nothing').info()",
        "await client.create_stream('demo/new', segmets=3)",
    ],
)
def test_with_asyncio_there_is_one_frame_of_ours_below_the_call(server, call):
    program = f"""
    async def main():
        async with headrace.aio.connect(uri) as client:
            {call}
    asyncio.run(main())
    """
    printed = run(program, server.uri)
    assert printed.count("Traceback") == 1
    assert len(OURS.findall(printed)) == 1


def test_for_debugging_every_frame_is_there(server):
    printed = run("client.create_stream('nowhere/orders')", server.uri, HEADRACE_DEBUG="1")
    assert "streams.py" in printed
    assert len(OURS.findall(printed)) >= 4
    kept = run(
        """
        import traceback
        try:
            client.create_stream("nowhere/orders")
        except headrace.errors.HeadraceError as error:
            traceback.print_exception(error.inner)
        """,
        server.uri,
    )
    assert "streams.py" in kept

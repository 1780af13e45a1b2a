"""Runs one case on the real Rust client (the ``pravega`` wheel) in a process of its own.

``wheel_program.py CASE URI SCOPE``: the client takes user and certificates from the environment, at the start
of each manager, and some of its failures end the thread that calls it or its process. What a case finds is
printed as a line of JSON for each fact: ``[name, outcome]``.
"""

import asyncio
import json
import os
import select
import sys

import pravega_client as wheel

EVENTS = 30
_READ_S = 30


def main(case, uri, scope):
    manager = wheel.StreamManager(uri, True, uri.startswith("tls:"))
    CASES[case](manager, scope)


def say(name, outcome):
    print(json.dumps([name, outcome]), flush=True)


def everything(manager, scope):
    """All that the client can do, by a user who may."""
    say("stream", manager.create_stream(scope, "events", 2))
    say("streams", "events" in manager.list_stream(scope))
    writer = manager.create_writer(scope, "events")
    for number in range(EVENTS):
        writer.write_event(str(number), f"key-{number % 5}")
    writer.flush()
    transactions = manager.create_transaction_writer(scope, "events", 1)
    transaction = transactions.begin_txn()
    for number in range(EVENTS, 2 * EVENTS):
        transaction.write_event(str(number), f"key-{number % 5}")
    transaction.commit()
    group = manager.create_reader_group(f"group{os.getpid()}", scope, "events")
    say("read", asyncio.run(_numbers(group.create_reader("reader"), 2 * EVENTS)) == list(range(2 * EVENTS)))
    manager.create_stream(scope, "bytes", 1)
    stream = manager.create_byte_stream(scope, "bytes")
    stream.write(b"0123456789" * 100)
    stream.flush()
    stream.seek(0, 0)
    read = bytearray(1000)
    say("bytes", stream.readinto(read) > 0 and bytes(read[:10]) == b"0123456789")
    for name in ("events", "bytes"):
        say(f"delete {name}", manager.seal_stream(scope, name) and manager.delete_stream(scope, name))


def outlive(manager, scope):
    """A writer and a reader stay open until standard input ends, however often their tokens expire."""
    manager.create_stream(scope, "events", 2)
    writer = manager.create_writer(scope, "events")
    reader = manager.create_reader_group(f"group{os.getpid()}", scope, "events").create_reader("reader")
    for number, _ in enumerate(sys.stdin):
        writer.write_event(str(number), f"key-{number % 5}")
        writer.flush()
        say("read", asyncio.run(_numbers(reader, 1)) == [number])


def write_and_read(manager, scope):
    """What is left if the stream is there: the group is called as the user."""
    _write(manager, scope)
    group = manager.create_reader_group("rustling", scope, "shared")
    say("read", asyncio.run(_numbers(group.create_reader("reader"), 1)) == [1])


def write_rounds(manager, scope):
    """Write a numbered event of each key twenty times a second, until standard input has something.

    Prints how many rounds are durable, now and then and in the end.
    """
    writer, rounds = manager.create_writer(scope, "wheel"), 0
    prefix, keys = os.environ["WRITER_PREFIX"], int(os.environ["WRITER_KEYS"])
    while not select.select([sys.stdin], [], [], 0.05)[0]:
        for key in range(keys):
            writer.write_event(f"{prefix}{key} {rounds} ", f"{prefix}{key}")
        rounds += 1
        if rounds % 20 == 0:
            writer.flush()
            print(rounds, flush=True)
    writer.flush()
    print(rounds, flush=True)


def create(manager, scope):
    _attempt("create", lambda: manager.create_stream(scope, "mine", 1))


def list_streams(manager, scope):
    _attempt("list_streams", lambda: manager.list_stream(scope))


def write(manager, scope):
    _attempt("write", lambda: _write(manager, scope))


def read(manager, scope):
    def call():
        group = manager.create_reader_group("theirs", scope, "shared")
        return asyncio.run(_numbers(group.create_reader("reader"), 1))

    _attempt("read", call)


def _write(manager, scope):
    writer = manager.create_writer(scope, "shared")
    writer.write_event("1", "key")
    writer.flush()


async def _numbers(reader, count):
    """The numbers in the events of one reader, until it has ``count`` of them, in ascending order."""
    seen = []
    while len(seen) < count:
        part = await asyncio.wait_for(reader.get_segment_slice_async(), _READ_S)
        seen += [int(bytes(event.data())) for event in part]
        reader.release_segment(part)
    return sorted(seen)


def _attempt(name, call):
    say("begins", name)
    try:
        say(name, call())
    except BaseException as error:  # a panic of the client is no Exception
        say(name, f"{type(error).__name__}: {error}"[:500])


CASES = {
    each.__name__: each
    for each in (everything, outlive, write_and_read, write_rounds, create, list_streams, write, read)
}

if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)  # the threads of the client do not always survive the end of the interpreter

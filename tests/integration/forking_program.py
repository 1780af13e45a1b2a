"""A program that forks while its client is busy: ``forking_program.py URI FACE COUNT ACTIVITY...``.

It ends with 0 if each child was refused everything that belongs to its parent, used a client of its own, and
ended within the limit; and if the parent's work was not disturbed. Nothing but failures is printed.
"""

import asyncio
import faulthandler
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from contextlib import suppress

import pytest

import headrace
from headrace.errors import OpenedBeforeForkError
from headrace.runtime.loops import loop_factory

HANG_S = 120.0
SCOPE = "forks"
ENTRIES = 40


def ask_of_parent(calls):
    """Each call has to say that its object is the parent's, and which one."""
    for words, call in calls.items():
        with pytest.raises(OpenedBeforeForkError, match=f"({words}|the iterator).* before a fork"):
            call()


async def ask_of_parent_soon(calls):
    for words, call in calls.items():
        with pytest.raises(OpenedBeforeForkError, match=f"({words}|the iterator).* before a fork"):
            await call()


# ------------------------------------------------------------------------------------------ with threads


class Parent:
    """Every kind of object is open; one of them is busy in a thread."""

    def __init__(self, uri, stream):
        self.uri = uri
        self.name = f"{SCOPE}/{stream}"
        self.client = headrace.connect(uri)
        self.writer = self.client.event_writer(self.name)
        self.written = 0
        self.ack = self.write()
        self.bytes = self.client.byte_writer(f"{self.name}-bytes")
        self.bytes.write(b"0123456789")
        self.bytes.flush()
        self.byte_reader = self.client.byte_reader(f"{self.name}-bytes")
        assert self.byte_reader.read(3) == b"012"
        self.table = self.client.key_value_table(f"{self.name}-table")
        self.transactions = self.client.txn_writer(self.name)
        self.transaction = self.transactions.begin()
        self.transaction.write(b"in the transaction", "key")
        self.ack.wait(HANG_S)
        self.writer.write_many([b"one", b"two"], "key").wait(HANG_S)
        self.reader = self.client.event_reader(self.name)
        self.events = iter(self.reader)
        next(self.events)
        self.read = self.client.read(self.name)
        next(self.read)
        self.scan = self.table.scan()
        next(self.scan)
        self.listing = self.client.list_streams(SCOPE)
        next(self.listing)
        self.windows = self.client.time_windows(self.name)
        self.is_over = False

    def write(self):
        self.written += 1
        return self.writer.write(b"event", f"key-{self.written % 7}")

    def be_child(self, number):
        open_ack = self.ack
        ask_of_parent(
            {
                f"EventWriter of {self.name}": lambda: self.writer.write(b"lost", "key"),
                f"Writer of {self.name}": self.writer.flush,
                f"ByteWriter of {self.name}-bytes": lambda: self.bytes.write(b"lost"),
                f"ByteReader of {self.name}-bytes": lambda: self.byte_reader.read(2),
                f"KeyValueTable of {self.name}-table": lambda: self.table.get(b"k" * 8),
                f"Transaction of {self.name}": self.transaction.commit,
                f"TxnWriter of {self.name}": self.transactions.begin,
                f"EventReader of {self.name}": self.reader.next_batch,
                "EventReader": lambda: next(self.events),
                "Reader of": lambda: next(self.read),
                "KeyValueTable": lambda: next(self.scan),
                "iterator": lambda: next(self.listing),
                "TimeWindows": lambda: self.windows.advance(None),
            }
        )
        if number % 2 == 0:  # what is open is left to the end of the interpreter every other time
            for each in (self.writer, self.bytes, self.byte_reader, self.reader, self.transactions):
                each.close()
        with suppress(OpenedBeforeForkError):  # it was durable before the fork, or will never be here
            open_ack.wait(HANG_S)
        assert self.client.stream_exists(self.name)
        assert self.client.write(f"{self.name}-children", [f"child {number}"]) == 1
        if number % 3 == 0:
            self.client.close()

    def check(self, count):
        """The parent goes on with all it had."""
        self.writer.flush(HANG_S)
        self.transaction.commit(wait=True)
        self.bytes.write(b"and more")
        self.bytes.flush()
        assert len(self.table) == ENTRIES
        assert len(list(self.scan)) == ENTRIES - 1
        assert list(self.listing) is not None
        events = [event.data for event in self.client.read(self.name)]
        assert events.count(b"event") == self.written
        assert events.count(b"in the transaction") == 1
        children = sorted(event.data.decode() for event in self.client.read(f"{self.name}-children"))
        assert children == sorted(f"child {number}" for number in range(count)), children
        for each in (self.writer, self.bytes, self.byte_reader, self.reader, self.transactions):
            each.close()
        self.client.close()

    # ---- activities: each is one step, repeated in a thread

    def idle(self):
        time.sleep(0.01)

    def listing_streams(self):
        assert list(self.client.list_streams(SCOPE))

    def writing(self):
        self.ack = self.write()
        if self.written % 50 == 0:
            self.ack.wait(HANG_S)

    def reading(self):
        with suppress(TimeoutError):
            self.tail.next_batch(0.05)

    def transaction_open(self):
        with self.client.txn_writer(f"{self.name}-other") as writer, writer.begin() as transaction:
            transaction.write(b"event", "key")

    def scanning(self):
        assert len(list(self.table.scan())) == ENTRIES

    def connecting(self):
        with headrace.connect(self.uri) as other:
            assert other.scope_exists(SCOPE)

    def forking(self):
        pid = os.fork()
        if pid == 0:
            run_child(lambda: self.client.stream_exists(self.name))
        wait_child(pid)

    def run(self, activity, count):
        self.tail = self.client.event_reader(self.name, start="tail")
        failures = []

        def work():
            try:
                while not self.is_over:
                    getattr(self, activity)()
            except BaseException as error:
                failures.append(error)

        threads = [
            threading.Thread(target=work, daemon=True) for _ in range(1 if activity == "writing" else 2)
        ]
        for thread in threads:
            thread.start()
        for number in range(count):
            pid = os.fork()
            if pid == 0:
                faulthandler.dump_traceback_later(HANG_S / 2)
                self.be_child(number)
                sys.exit()
            wait_child(pid)
        self.is_over = True
        for thread in threads:
            thread.join()
        assert not failures, failures
        self.tail.close()
        self.check(count)


def run_child(call):
    """Run the part of a child that was forked by a thread, whose frames end no program."""
    faulthandler.dump_traceback_later(HANG_S / 2)
    status = 1
    try:
        call()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(status)


def wait_child(pid):
    deadline = time.monotonic() + HANG_S
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            assert status == 0, f"a child ended with {os.waitstatus_to_exitcode(status)}"
            return
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("a child hangs")
        time.sleep(0.001)


# ------------------------------------------------------------------------------------------ with asyncio


class AioParent:
    def __init__(self, uri, stream):
        self.uri = uri
        self.name = f"{SCOPE}/{stream}"

    async def open(self):
        self.client = headrace.aio.connect(self.uri)
        self.stream = self.client.stream(self.name)
        self.writer = await self.client.event_writer(self.name)
        self.written = 0
        await self.writer.write_many([b"one", b"two"], "key")
        self.bytes = await self.client.byte_writer(f"{self.name}-bytes")
        await self.bytes.write(b"0123456789")
        self.byte_reader = await self.client.byte_reader(f"{self.name}-bytes")
        await self.byte_reader.read(3)
        self.table = await self.client.key_value_table(f"{self.name}-table")
        self.transactions = self.client.txn_writer(self.name)
        self.transaction = await self.transactions.begin()
        await self.transaction.write(b"in the transaction", "key")
        self.reader = await self.client.event_reader(self.name)
        self.events = aiter(self.reader)
        await anext(self.events)
        self.scan = self.table.scan()
        await anext(self.scan)
        self.listing = self.client.list_streams(SCOPE)
        await anext(self.listing)
        self.opening = self.client.event_writer(self.name)
        self.write()

    def write(self):
        self.written += 1
        self.ack = self.writer.write(b"event", f"key-{self.written % 7}")
        return self.ack

    async def be_child(self, number):
        await ask_of_parent_soon(
            {
                "Client of": lambda: self.client.scope_exists(SCOPE),
                f"Stream {self.name}": self.stream.exists,
                f"EventWriter of {self.name}": lambda: self.writer.write(b"lost", "key"),
                f"Writer of {self.name}": self.writer.flush,
                f"ByteWriter of {self.name}-bytes": lambda: self.bytes.write(b"lost"),
                f"ByteReader of {self.name}-bytes": lambda: self.byte_reader.read(2),
                f"KeyValueTable of {self.name}-table": lambda: self.table.get(b"k" * 8),
                f"Transaction of {self.name}": self.transaction.commit,
                f"TxnWriter of {self.name}": self.transactions.begin,
                f"EventReader of {self.name}": self.reader.next_batch,
                "EventReader": lambda: anext(self.events),
                "KeyValueTable": lambda: anext(self.scan),
                "opening": lambda: wait_for(self.opening),
            }
        )
        with suppress(OpenedBeforeForkError):  # it was durable before the fork, or will never be here
            await self.ack
        for each in (self.writer, self.bytes, self.reader, self.transactions, self.client):
            await each.close()
        async with headrace.aio.connect(self.uri) as client:
            assert await client.write(f"{self.name}-children", [f"child {number}"]) == 1

    async def check(self, count):
        await self.writer.flush()
        await self.transaction.commit(wait=True)
        await self.bytes.write(b"and more")
        assert len([entry async for entry in self.scan]) == ENTRIES - 1
        assert [name async for name in self.listing]
        events = [event.data async for event in self.client.read(self.name)]
        assert events.count(b"event") == self.written
        assert events.count(b"in the transaction") == 1
        children = sorted([event.data.decode() async for event in self.client.read(f"{self.name}-children")])
        assert children == sorted(f"child {number}" for number in range(count)), children
        await (await self.opening).close()
        for each in (self.writer, self.bytes, self.byte_reader, self.reader, self.transactions, self.client):
            await each.close()

    async def idle(self):
        await asyncio.sleep(0.01)

    async def listing_streams(self):
        assert [name async for name in self.client.list_streams(SCOPE)]

    async def writing(self):
        ack = self.write()
        if self.written % 50 == 0:
            await ack
        await self.writer.drain()

    async def reading(self):
        with suppress(TimeoutError):
            await self.tail.next_batch_within(0.05)

    async def transaction_open(self):
        writer = self.client.txn_writer(f"{self.name}-other")
        async with writer, await writer.begin() as transaction:
            transaction.write(b"event", "key")

    async def scanning(self):
        assert len([entry async for entry in self.table.scan()]) == ENTRIES

    async def connecting(self):
        async with headrace.aio.connect(self.uri) as other:
            assert await other.scope_exists(SCOPE)

    async def forking(self):
        process = FORK.Process(target=run_aio_child, args=(other_child, self.uri))
        process.start()
        await asyncio.to_thread(join, process)

    async def run(self, activity, count):
        await self.open()
        self.tail = await self.client.event_reader(self.name, start="tail")
        is_over = False

        async def work():
            while not is_over:
                await getattr(self, activity)()
                await asyncio.sleep(0)

        task = asyncio.create_task(work())
        for number in range(count):
            process = FORK.Process(target=run_aio_child, args=(self.be_child, number))
            if number % 2:
                process.start()  # on the loop's thread
            else:
                # Not on a thread of the executor: the end of a child would wait for its own thread.
                thread = threading.Thread(target=process.start)
                thread.start()
                await asyncio.to_thread(thread.join)
            await asyncio.to_thread(join, process)
        is_over = True
        await task
        await self.tail.close()
        await self.check(count)


FORK = multiprocessing.get_context("fork")


async def wait_for(opening):
    return await opening


async def other_child(uri):
    async with headrace.aio.connect(uri) as client:
        assert await client.scope_exists(SCOPE)


def run_aio_child(main, argument):
    faulthandler.dump_traceback_later(HANG_S / 2)
    asyncio.run(main(argument))
    faulthandler.cancel_dump_traceback_later()


def join(process):
    process.join(HANG_S)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("a child hangs")
    assert process.exitcode == 0, f"a child ended with {process.exitcode}"


# ------------------------------------------------------------------------------------------ both


def prepare(uri, stream):
    name = f"{SCOPE}/{stream}"
    with headrace.connect(uri) as client:
        client.create_scope(SCOPE)
        for each in (name, f"{name}-bytes", f"{name}-children", f"{name}-other"):
            client.create_stream(each)
        client.create_key_value_table(f"{name}-table", primary_key_bytes=8, partitions=2)
        with client.key_value_table(f"{name}-table") as table:
            table.put_all((f"{number:08}".encode(), b"value") for number in range(ENTRIES))


def main():
    uri, face, count, *activities = sys.argv[1:]
    for activity in activities:
        stream = f"{face}-{activity.replace('_', '-')}"
        prepare(uri, stream)
        if face == "threads":
            Parent(uri, stream).run(activity, int(count))
        else:
            with asyncio.Runner(loop_factory=loop_factory(face)) as runner:
                runner.run(AioParent(uri, stream).run(activity, int(count)))


if __name__ == "__main__":
    main()

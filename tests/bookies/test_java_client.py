"""Ledgers of ours and of BookKeeper's own client: each fences, recovers and reads those of the other."""

import asyncio
import subprocess
from pathlib import Path

import pytest

from headrace.testing.conformance.wal import append_all, read_contents
from headrace.wal.bookkeeper.ledger_io import read_ledger, recover_ledger
from headrace.wal.bookkeeper.ledger_metadata import LedgerState
from headrace.wal.bookkeeper.ledger_store import LedgerStore
from headrace.wal.bookkeeper.renewed_session import RenewedSession
from tests.bookies.real_logs import Load, ledgers_of, log_place, logs_at, opened
from tests.bookies.servers import java

WORDS = [f"entry-{number}".encode() for number in range(30)]


class JavaClient:
    """One process of the program ``Ledgers``; a line is asked, a line answered."""

    def __init__(self, bookkeeper, *, v2):
        source = Path(__file__).parent / "java" / "Ledgers.java"
        command = java("", bookkeeper.metadata_uri, str(v2).lower(), source=source)
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    async def __aenter__(self):
        assert await self._line() == "ready"
        return self

    async def __aexit__(self, *_):
        self._process.kill()
        self._process.wait()

    async def ask(self, *words):
        """Return what it answers."""
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return await self._line()

    async def _line(self):
        while True:
            line = await asyncio.to_thread(self._process.stdout.readline)
            assert line, "the Java client ended"
            if line.startswith("> "):
                return line[2:].strip()


@pytest.fixture(params=[True, False], ids=["v2", "v3"])
async def client(bookkeeper, request):
    async with JavaClient(bookkeeper, v2=request.param) as found:
        yield found


@pytest.fixture
async def store(bookkeeper):
    cluster = log_place(bookkeeper).cluster
    nodes = RenewedSession(cluster.make_coordinator())
    yield LedgerStore(nodes)
    await nodes.close()


async def contents(store, number):
    ledger = await recover_ledger(store, number)
    assert ledger.state is LedgerState.CLOSED
    found = [bytes(entry.payload) async for some in read_ledger(store, number, ledger) for entry in some]
    assert ledger.length == sum(map(len, found))
    return found


async def test_we_recover_a_ledger_of_the_java_client_and_fence_it(client, store):
    number = int(await client.ask("create"))
    for word in WORDS:
        await client.ask("add", word.decode())
    assert await contents(store, number) == WORDS
    assert "Exception" in await client.ask("add", "late")
    assert (await client.ask("read", number)).split() == [
        "29",
        str(sum(map(len, WORDS))),
        *(word.decode() for word in WORDS),
    ]


async def test_the_java_client_recovers_a_ledger_of_ours_and_the_log_goes_on_in_another(bookkeeper, client):
    place = log_place(bookkeeper)
    async with logs_at(place) as logs:
        wal = await opened(logs)
        await append_all(wal, WORDS)
        (first,) = await ledgers_of(place)
        told = (await client.ask("read", first)).split()
        assert told == ["29", str(sum(map(len, WORDS))), *(word.decode() for word in WORDS)]
        more = [b"after"] * 3
        assert (await append_all(wal, more)).errors == [None] * 3
        assert len(await ledgers_of(place)) == 2
        await wal.close()
        again = await opened(logs)
        assert await read_contents(again) == [*WORDS, *more]
        await again.close()
        assert (await client.ask("read", (await ledgers_of(place))[1])).split()[2:] == ["after"] * 3


async def test_the_java_client_may_recover_at_any_moment_and_nothing_is_lost_or_doubled(bookkeeper, client):
    place = log_place(bookkeeper)
    async with logs_at(place) as logs:
        wal = await opened(logs)
        load = Load(wal)
        for _ in range(5):
            await load.until(20)
            await client.ask("read", (await ledgers_of(place))[-1])
        acknowledged = await load.end()
        await wal.close()
        again = await opened(logs)
        assert await read_contents(again) == acknowledged
        await again.close()
    assert len(await ledgers_of(place)) > 2


async def test_bookkeepers_shell_sees_ordinary_ledgers(bookkeeper):
    place = log_place(bookkeeper)
    async with logs_at(place) as logs:
        wal = await opened(logs)
        await append_all(wal, WORDS)
        await wal.close()
    (ledger,) = await ledgers_of(place)
    told = await asyncio.to_thread(bookkeeper.shell, "ledgermetadata", "-ledgerid", str(ledger))
    assert "state=CLOSED" in told
    assert "lastEntryId=29" in told
    assert "headrace" in told

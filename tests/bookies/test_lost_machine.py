"""A server whose log is on bookies is killed under load, with its directory: another one has everything."""

import asyncio
import shutil

import pytest

from headrace.client import connect
from headrace.errors import HeadraceError
from headrace.testing import LocalServer
from headrace.testing.local_server import ServerDiedError
from tests.bookies.real_logs import NAMES
from tests.stores.test_log_in_bucket import command


async def start(directory, log, chunks):
    server = LocalServer(directory, "--log", log, "--storage", f"file://{chunks}")
    await asyncio.to_thread(server.start)
    return server


async def test_what_was_acknowledged_survives_the_loss_of_the_machine_and_of_a_bookie(tmp_path, bookkeeper):
    log, chunks = bookkeeper.uri(f"?system={next(NAMES)}"), tmp_path / "chunks"
    server = await start(tmp_path / "one", log, chunks)
    acknowledged = 0
    try:
        async with connect(server.uri) as client:
            await client.create_scope("s")
            await client.create_stream("s", "t")
            async with client.event_writer("s", "t") as writer:
                for number in range(0, 5000, 100):
                    events = [b"%d" % each for each in range(number, number + 100)]
                    await writer.write_many(events, ["key"] * 100)
                    await writer.flush()
                    acknowledged = number + 100
                    if number == 2000:
                        bookkeeper.bookies[0].kill()
            server.kill()
    finally:
        server.kill()
        server.close()
    shutil.rmtree(tmp_path / "one")
    server = await start(tmp_path / "two", log, chunks)
    try:
        async with connect(server.uri) as client:
            await client.seal_stream("s", "t")
            async with client.event_reader("s", "t") as reader:
                found = [bytes(each) async for batch in reader.batches() for each in batch.payloads()]
        assert found == [b"%d" % number for number in range(acknowledged)]
        purged = await command(
            "stream", "purge", "s/t", "--yes", "--rest", server.rest_url.partition("//")[2]
        )
        assert purged.returncode == 0, purged.stderr
        assert await asyncio.to_thread(server.stop) == 0
        data = ("--data-dir", str(tmp_path / "two" / "data"))
        frames = await command("inspect", "frames", "--container", "0", *data)
        assert (frames.returncode, "ledger " in frames.stdout) == (0, True), frames.stderr
        checked = await command("check", "container", *data)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        files = await command("inspect", "wal", *data)
        assert (files.returncode, "is in no files" in files.stderr) == (2, True)
    finally:
        server.kill()
        server.close()
        bookkeeper.bookies[0].start()
        await asyncio.to_thread(bookkeeper.bookies[0].wait)


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("/nothing", "has no node /nothing"),
        ("/zookeeper", "belongs to ZooKeeper"),
        ("/ledgers?write=5", "do not fit"),
    ],
)
async def test_a_log_that_cannot_be_there_is_told_at_the_start(tmp_path, bookkeeper, log, told):
    uri = bookkeeper.uri().replace("/ledgers", log)
    with pytest.raises((ServerDiedError, HeadraceError), match=told):
        await start(tmp_path / "one", uri, tmp_path / "chunks")

"""``headrace storage repair`` on data of a real server that has lost objects."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from headrace.cli.main import main
from headrace.client import ReaderConfig, connect
from headrace.testing import LocalServer
from tests.integration.inspected_data import EAGER, wait_until_stored

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {**EAGER, "HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": "65536"}
EVENTS = 400


def event(number):
    return f"{number:06}".encode() * (100 + number % 7)


@pytest.fixture
def server(tmp_path):
    server = LocalServer(tmp_path, "--containers", "2", environment=SETTINGS)
    yield server
    server.close()


@pytest.fixture
def run(server, capfd):
    def run(*words):
        code = main(["storage", *words, "--data-dir", str(server.directory / "data")])
        sys.stdout.flush()
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


async def write(server):
    async with connect(server.uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "orders")
        async with client.event_writer("demo", "orders") as writer:
            for number in range(EVENTS):
                await writer.write(event(number), "key")
    await asyncio.to_thread(wait_until_stored, server)


async def read(server):
    async with (
        connect(server.uri) as client,
        client.event_reader(
            "demo", "orders", end="tail", config=ReaderConfig(on_truncation="skip")
        ) as reader,
    ):
        return [bytes(payload) async for batch in reader.batches() for payload in batch.payloads()]


def chunks_of(server):
    """The files of the stream, in the order of their bytes."""
    found = (server.directory / "data" / "chunks").rglob("*demo/orders/*.chunk")
    return sorted(found, key=lambda path: int(path.name.partition("-O-")[2].partition("-")[0]))


async def test_a_stream_that_has_lost_its_first_objects_is_read_from_the_next_event(server, run):
    server.start()
    await write(server)
    server.stop()
    first, second, third, *_ = chunks_of(server)
    first.unlink()
    second.unlink()
    orphan = Path(str(third).replace("-O-", "-O-9"))
    orphan.write_bytes(b"left by an interrupted write")
    assert run("repair")[0] == 2, "nobody has said yes"

    code, out, _ = await asyncio.to_thread(run, "repair", "--dry-run")
    assert code == 6
    assert (
        "'demo/orders/0.#epoch.0' has lost its bytes up to 131072: it would be truncated behind them" in out
    )
    assert "1 orphans with 28 bytes would be deleted" in out
    assert orphan.exists()

    code, out, _ = await asyncio.to_thread(run, "repair", "--yes", "--json")
    report = json.loads(out)
    (truncated,) = report["truncated"]
    assert (code, report["damaged"], report["left"]) == (0, 0, [])
    assert report["deleted"] >= 1, "the others go once no storage checkpoint names them"
    assert not orphan.exists()

    server.start()
    found = await read(server)
    lost = EVENTS - len(found)
    assert found == [event(number) for number in range(lost, EVENTS)]
    sizes = [8 + len(event(number)) for number in range(lost)]
    assert sum(sizes) == truncated["begins_at"]
    assert sum(sizes[:-1]) < 131072 <= sum(sizes), "no event was skipped that was there"


async def test_what_is_missing_in_the_middle_is_left_and_told(server, run):
    server.start()
    await write(server)
    server.stop()
    missing = chunks_of(server)[1]
    kept = missing.read_bytes()
    missing.unlink()
    code, out, _ = await asyncio.to_thread(run, "repair", "--yes")
    assert code == 6
    assert "left: 1 objects are missing in the middle of 'demo/orders/0.#epoch.0'" in out
    assert "there is nothing that could be mended" in out
    missing.write_bytes(kept)
    assert (await asyncio.to_thread(run, "check", "--deep"))[0] == 0


def test_a_server_that_runs_is_not_mended(server, run):
    server.start()
    code, _, err = run("repair", "--yes")
    assert (code, "stop it first" in err) == (3, True)

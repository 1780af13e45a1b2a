"""``headrace storage export`` and ``import``: streams out of one system and into another."""

import asyncio
import json
import sys

import pytest

from headrace.cli.main import main
from headrace.client import ScalingPolicy, StreamConfiguration, connect
from headrace.limits import EVENT_BYTES_MAX
from headrace.model.key_space import KeyRange
from headrace.testing import LocalServer
from tests.integration.inspected_data import EAGER

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SETTINGS = {**EAGER, "HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": "65536"}
KEYS = [f"key-{number}" for number in range(5)]


def event(key, number):
    return f"{key} {number:05} ".encode() * 20


@pytest.fixture
def run(capfd):
    async def run(*words):
        code = await asyncio.to_thread(main, ["storage", *map(str, words)])
        sys.stdout.flush()
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


async def write(client, stream, numbers):
    async with client.event_writer("demo", stream) as writer:
        for number in numbers:
            for key in KEYS:
                await writer.write(event(key, number), key)


async def read(client, stream):
    """Return the events by key, in their order."""
    found = {key: [] for key in KEYS}
    async with client.event_reader("demo", stream, end="tail") as reader:
        async for batch in reader.batches():
            for payload in batch.payloads():
                found[bytes(payload).split()[0].decode()].append(bytes(payload))
    return found


async def make(server):
    """Streams of one segment, of three, scaled, and of bytes; part of them only in the log."""
    async with connect(server.uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "wide", StreamConfiguration(scaling=ScalingPolicy.fixed(3)))
        await write(client, "wide", range(100))
        await client.seal_stream("demo", "wide")
        await client.create_stream("demo", "scaled", StreamConfiguration(scaling=ScalingPolicy.fixed(1)))
        await write(client, "scaled", range(50))
        await client.scale_stream("demo", "scaled", [0], [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)])
        await write(client, "scaled", range(50, 100))
        await client.create_stream("demo", "bytes")
        async with client.byte_writer("demo", "bytes") as writer:
            await writer.write(bytes(range(256)) * 1000)


async def test_streams_come_back_in_another_system(tmp_path, run):
    server = LocalServer(tmp_path / "old", "--containers", "2", environment=SETTINGS)
    server.start()
    await make(server)
    data, export = server.directory / "data", tmp_path / "export"
    code, _, err = await run("export", "demo/wide", "--data-dir", data, "--to", export)
    assert (code, "stop it first" in err) == (3, True)
    server.kill()

    code, out, err = await run(
        "export", "demo/wide", "demo/scaled", "demo/bytes", "--data-dir", data, "--to", export, "--json"
    )
    assert code == 0, err
    exported = {line["segment"]: line for line in map(json.loads, out.splitlines())}
    assert len(exported) == 3 + 3 + 1
    assert all(exported[f"demo/wide/{number}.#epoch.0"]["sealed"] for number in range(3))
    assert (export / "demo" / "bytes" / "0.#epoch.0$header").read_text() == (
        "0:demo/bytes/0.#epoch.0$offset_0;"
    )
    assert (await run("export", "demo/wide", "--data-dir", data, "--to", export))[0] == 2, "not twice"
    missing = await run("export", "demo/none", "--data-dir", data, "--to", tmp_path / "none")
    assert "demo/none" in missing[2]

    with LocalServer(tmp_path / "new", "--containers", "1") as other:
        code, out, err = await run(
            "import", "demo/wide", "demo/scaled", "--from", export, "--uri", other.uri, "--json"
        )
        assert code == 0, err
        assert [json.loads(line) for line in out.splitlines()] == [
            {"stream": "demo/wide", "events": 500, "segments": 3, "sealed": True},
            {"stream": "demo/scaled", "events": 500, "segments": 1, "sealed": False},
        ]
        words = ("import", "demo/bytes", "--from", export, "--uri", other.uri, "--as", "demo/restored")
        assert (await run(*words))[0] == 6, "they are no events"
        assert (await run(*words, "--bytes"))[0] == 0, "the first attempt has changed nothing"
        code, _, err = await run(*words, "--bytes")
        assert (code, "exists" in err) == (2, True)
        async with connect(other.uri) as client:
            for stream in ("wide", "scaled"):
                assert await read(client, stream) == {
                    key: [event(key, number) for number in range(100)] for key in KEYS
                }
            async with client.byte_reader("demo", "restored") as reader:
                assert await reader.read(256_000) == bytes(range(256)) * 1000


async def test_an_import_of_nothing_is_refused(tmp_path, run):
    code, _, error = await run("import", "--from", tmp_path / "none")
    assert (code, "there is no stream in" in error) == (2, True)


async def test_a_part_that_changed_is_found(tmp_path, run):
    with LocalServer(tmp_path / "old", environment=SETTINGS) as server:
        async with connect(server.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "orders")
            await write(client, "orders", range(10))
        server.stop()
        export = tmp_path / "export"
        await run("export", "demo/orders", "--data-dir", server.directory / "data", "--to", export)
        part = export / "demo" / "orders" / "0.#epoch.0$offset_0"
        content = bytearray(part.read_bytes())
        content[100] ^= 1
        part.write_bytes(content)
        server.start()
        words = ("import", "--from", export, "--uri", server.uri, "--as", "demo/again")
        code, _, err = await run(*words)
        assert (code, "not those that were exported" in err) == (6, True)


async def test_a_stream_is_exported_from_a_running_server_while_it_is_written(tmp_path, run):
    export, gone = tmp_path / "export", tmp_path / "gone"
    with LocalServer(tmp_path / "old", environment=SETTINGS) as server:
        async with connect(server.uri) as client:
            await make(server)
            start = await client.tail_cut("demo", "bytes")
            async with client.byte_writer("demo", "bytes") as writer:
                await writer.write(b"more")
            await client.truncate_stream(start)
            large = [b"before", b"x" * (EVENT_BYTES_MAX + 1), b"behind"]
            await client.create_stream("demo", "large", segments=1)
            await client.write("demo/large", large)
            writing = asyncio.create_task(write(client, "scaled", range(100, 200)))
            words = ("--online", "--uri", server.uri, "--to", export)
            streams = ("demo/scaled", "demo/wide", "demo/bytes", "demo/large")
            code, out, err = await run("export", *streams, *words, "--json")
            assert code == 0, err
            await writing
            lines = {line["segment"]: line for line in map(json.loads, out.splitlines())}
            assert len(lines) == 3 + 3 + 1 + 1
            assert (lines["demo/bytes/0.#epoch.0"]["start"], lines["demo/bytes/0.#epoch.0"]["length"]) == (
                256_000,
                256_004,
            )
            code, _, err = await run("export", "demo/none", "--online", "--uri", server.uri, "--to", gone)
            assert (code, "demo/none" in err) == (2, True)
            words = ("--from", export, "--uri", server.uri)
            for stream in ("scaled", "wide", "large"):
                code, _, err = await run("import", f"demo/{stream}", *words, "--as", f"demo/{stream}-again")
                assert code == 0, err
            assert await read(client, "wide-again") == await read(client, "wide")
            assert [event.data async for event in client.read("demo/large-again")] == large
            found = await read(client, "scaled-again")
    for key, events in found.items():
        assert len(events) >= 100
        assert events == [event(key, number) for number in range(len(events))]

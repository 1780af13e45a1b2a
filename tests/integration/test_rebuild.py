"""The server's log is lost: a system is rebuilt from its chunks and the copies of the log beside them.

After a clean stop nothing is lost, and writers go on with their event numbers. After a crash it is as it was
when the copies were made. Servers, the command and its kills are real processes.
"""

import asyncio
import collections
import json
import os
import random
import select
import shutil
import subprocess
import time

import pytest

from headrace.client import connect
from headrace.model.hashing import container_of
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs
from tests.integration.inspected_data import statistics

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
WRITERS = 3
EVENT_BYTES = 200


def rebuild(source, data, *options, check=True):
    """Run the command; return what it says."""
    command = [
        *HEADRACE,
        "storage",
        "rebuild",
        "--from",
        f"file://{source}",
        "--data-dir",
        str(data),
        *options,
    ]
    ended = programs.run(command, capture_output=True, text=True, timeout=120, check=False)
    if check:
        assert ended.returncode == 0, ended.stderr
    return ended


def run_headrace(*arguments, environment=None):
    """Run the program until it ends."""
    return programs.run(
        [*HEADRACE, *arguments],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def event(number, sequence):
    return b"%d:%d" % (number, sequence) + b"." * (EVENT_BYTES - len(b"%d:%d" % (number, sequence)))


async def make_stream(client):
    await client.create_scope("lost")
    await client.create_stream("lost", "stream", StreamConfiguration(scaling=ScalingPolicy.fixed(2)))


async def write(writer, number, first, count):
    events = [event(number, first + n) for n in range(count)]
    await writer.write_many(events, [f"key-{number}"] * count)


async def read_all(client):
    """Seal the stream; return the sequences of each writer in the order in which they are read."""
    await client.seal_stream("lost", "stream")
    found = collections.defaultdict(list)
    async with client.event_reader("lost", "stream") as reader:
        async for batch in reader.batches():
            for payload in batch.payloads():
                number, _, sequence = payload.rstrip(b".").partition(b":")
                assert payload == event(int(number), int(sequence))
                found[int(number)].append(int(sequence))
    return found


async def test_after_a_clean_stop_nothing_is_lost_and_writers_go_on(tmp_path):
    server = LocalServer(tmp_path, "--containers", "2")
    server.start()
    data = tmp_path / "data"
    async with connect(server.uri) as client:
        await make_stream(client)
        writers = [await client.event_writer("lost", "stream") for _ in range(WRITERS)]
        for number, writer in enumerate(writers):
            await write(writer, number, 0, 500)
        await asyncio.to_thread(server.stop)
        shutil.rmtree(data / "wal")
        said = json.loads(rebuild(data / "chunks", data, "--json").stdout)
        assert [container["container"] for container in said["containers"]] == [0, 1]
        assert not any(container["newer"] or container["passed_over"] for container in said["containers"])
        assert not said["missing"]
        segments = [segment for container in said["containers"] for segment in container["segments"]]
        last = [
            n
            for segment in segments
            if segment["name"].startswith("lost/stream/")
            for n in segment["writers"].values()
        ]
        assert len(last) == WRITERS
        await asyncio.to_thread(server.start)
        for number, writer in enumerate(writers):
            await write(writer, number, 500, 100)
            await writer.close()
        found = await read_all(client)
        assert found == {number: list(range(600)) for number in range(WRITERS)}
    await asyncio.to_thread(server.stop)
    checked = run_headrace("check", "container", "--data-dir", str(data), "--deep")
    assert checked.returncode == 0, checked.stdout


async def test_after_a_crash_it_is_as_the_copies_were_and_the_former_server_is_fenced(tmp_path):
    settings = {"HEADRACE_CONTAINER__STORAGE_CHECKPOINTS__INTERVAL_S": "0.5"}
    former = LocalServer(tmp_path / "former", environment=settings)
    former.start()
    chunks = tmp_path / "former" / "data" / "chunks"
    async with connect(former.uri) as client:
        await make_stream(client)
        writer = await client.event_writer("lost", "stream")
        await write(writer, 0, 0, 500)
        # Something in every container, or some would not be copied again.
        wide = StreamConfiguration(scaling=ScalingPolicy.fixed(32))
        await client.create_stream("lost", "wide", wide)
        await asyncio.to_thread(wait_for_copies, former)
        for first in range(500, 3000, 50):
            await write(writer, 0, first, 50)
            await asyncio.sleep(0.01)
        former.kill()
    said = json.loads(rebuild(chunks, tmp_path / "data", "--json").stdout)
    assert all(container["lost_tail_ms"] < 60_000 for container in said["containers"])
    successor = LocalServer(
        tmp_path / "successor", "--data-dir", str(tmp_path / "data"), environment=settings
    )
    successor.start()
    try:
        async with connect(successor.uri) as client:
            async with client.event_writer("lost", "stream") as writer:
                await write(writer, 1, 0, 100)
            found = await read_all(client)
            assert found[1] == list(range(100))
            sequences = found.get(0, [])
            assert sequences == list(range(len(sequences)))
            assert 500 <= len(sequences) <= 3000
        ports = [word for part in ("controller", "segmentstore", "rest") for word in (f"--{part}-port", "0")]
        process = run_headrace("standalone", "--data-dir", str(tmp_path / "former" / "data"), *ports)
        assert process.returncode != 0
        assert "was rebuilt from this storage" in process.stderr
    finally:
        successor.stop()


async def test_a_server_that_runs_on_ends_when_its_system_was_rebuilt_elsewhere(tmp_path):
    settings = {"HEADRACE_CONTAINER__STORAGE_CHECKPOINTS__INTERVAL_S": "0.5"}
    former = LocalServer(tmp_path / "former", "--containers", "2", environment=settings)
    former.start()
    try:
        async with connect(former.uri) as client:
            await make_stream(client)
            await asyncio.to_thread(wait_for_copies, former)
            said = await asyncio.to_thread(
                rebuild, tmp_path / "former" / "data" / "chunks", tmp_path / "new", "--json"
            )
            # It notices with its next copies, or when it looks for those of others, within the minute. What
            # is written now has it make copies sooner.
            async with client.event_writer("lost", "stream") as writer:
                await writer.write_many([b"late"] * 14, [f"key-{number}" for number in range(14)])
        assert await asyncio.to_thread(former.process.wait, 110) == 3
        last = former.log().splitlines()[-1]
        assert "taken over by another owner" in last
        assert f"was rebuilt from this storage, as the system {json.loads(said.stdout)['system']}" in last
    finally:
        former.close()


def wait_for_copies(server):
    """Wait until every container has copied its log."""

    def oldest():
        containers = statistics(server)["containers"].values()
        return min(parts["storage_checkpoints"]["newest_time_ms"] for parts in containers)

    deadline, began = time.monotonic() + 60, time.time() * 1000
    while oldest() <= began:
        assert time.monotonic() < deadline
        select.select([], [], [], 0.1)  # nothing tells when a copy is made


async def test_a_rebuild_that_is_killed_is_refused_by_servers_and_completed_by_the_next(tmp_path):
    server = LocalServer(tmp_path)
    server.start()
    data = tmp_path / "data"
    async with connect(server.uri) as client:
        await make_stream(client)
        async with client.event_writer("lost", "stream") as writer:
            await write(writer, 0, 0, 500)
        await asyncio.to_thread(server.stop)
        shutil.rmtree(data / "wal")
        await asyncio.to_thread(kill_often, data)
        rebuild(data / "chunks", data)
        await asyncio.to_thread(server.start)
        assert (await read_all(client))[0] == list(range(500))
    await asyncio.to_thread(server.stop)


def kill_often(data):
    rng = random.Random(7)
    command = [*HEADRACE, "storage", "rebuild", "--from", f"file://{data}/chunks", "--data-dir", str(data)]
    unfinished = 0
    while unfinished < 6:
        process = programs.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while not (data / "REBUILDING").exists() and process.poll() is None and time.monotonic() < deadline:
            select.select([], [], [], 0.002)
        select.select([], [], [], rng.random() * 0.4)
        process.kill()
        process.wait()
        if (data / "REBUILDING").exists():
            unfinished += 1
            if unfinished == 1:
                refused = programs.run(
                    [*HEADRACE, "standalone", "--data-dir", str(data)],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                assert refused.returncode == 6
                assert "repeat `headrace storage rebuild" in refused.stderr
        elif (data / "wal").exists():
            shutil.rmtree(data / "wal")
        assert (data / "chunks" / "PRESENT").exists()


def test_a_directory_with_a_log_is_refused_and_not_touched(tmp_path):
    with LocalServer(tmp_path) as server:
        server.stop()
    data = tmp_path / "data"
    before = sorted(str(path) for path in data.rglob("*"))
    ended = rebuild(data / "chunks", data, check=False)
    assert ended.returncode == 2
    assert "a rebuild never touches a log" in ended.stderr
    assert sorted(str(path) for path in data.rglob("*")) == before


def test_a_wrong_store_leaves_nothing_that_the_right_one_would_be_refused_for(tmp_path):
    with LocalServer(tmp_path) as server:
        server.stop()
    wrong, right = tmp_path / "wrong", tmp_path / "data" / "chunks"
    wrong.mkdir()
    ended = rebuild(wrong, tmp_path / "rebuilt", check=False)
    assert ended.returncode == 2
    assert "no storage checkpoint in this store" in ended.stderr
    rebuild(right, tmp_path / "rebuilt")


async def test_a_damaged_copy_is_passed_over_and_what_its_container_lacks_is_said(tmp_path):
    server = LocalServer(tmp_path)
    server.start()
    server.stop()
    server.start()  # the next copies are those of the next stop
    data = tmp_path / "data"
    async with connect(server.uri) as client:
        await make_stream(client)
    await asyncio.to_thread(server.stop)
    shutil.rmtree(data / "wal")
    segments = [f"lost/stream/{number}.#epoch.0" for number in range(2)]
    container = container_of(segments[0], 4)
    manifests = sorted((data / "chunks/_system/checkpoints" / str(container)).glob("*.manifest.chunk"))
    damaged = bytearray(manifests[-1].read_bytes())
    damaged[50] ^= 1
    manifests[-1].write_bytes(damaged)
    ended = rebuild(data / "chunks", data, "--json")
    said = json.loads(ended.stdout)
    assert "fails its checksum" in said["containers"][container]["passed_over"][0]
    lost = [segment for segment in segments if container_of(segment, 4) == container]
    missing = [found["segment"] for found in said["missing"] if found["stream"] == "lost/stream"]
    tables = [found["name"] for each in said["containers"] for found in each["segments"]]
    if not any(name.startswith("_system/_tables/scope-lost-") for name in tables):
        lost = []  # the same container has the rows of the stream: they are as old as its segments
    assert missing == lost

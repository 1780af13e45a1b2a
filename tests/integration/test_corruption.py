"""Damaged logs: a torn tail is cut without a word, damage in the middle is named and nothing behind it is
served."""

import random
from pathlib import Path

import pytest

from headrace.client import connect
from headrace.testing import LocalServer, ServerDiedError
from headrace.wal.inspect import RecordStatus, inspect_log, inspect_records

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

EVENTS = [f"event {number:05d}".encode() for number in range(400)]


async def fill(uri):
    async with connect(uri) as client:
        await client.create_scope("demo")
        await client.create_stream("demo", "stream")
        async with client.event_writer("demo", "stream") as writer:
            for event in EVENTS:
                await writer.write(event, "key")


async def read_all(uri):
    async with connect(uri) as client, client.event_reader("demo", "stream", end="tail") as reader:
        return [payload async for batch in reader.batches() for payload in batch.payloads()]


def living_records(data, container):
    """(path, offset, bytes on disk) of every living record of a container's log, oldest first."""
    directory = str(data / "wal" / f"container-{container}")
    log = inspect_log(directory)
    return [
        (f"{directory}/{file.name}", record.offset, record.header)
        for file in log.files
        for record in inspect_records(log, file.name)
        if record.status is RecordStatus.LIVING
    ]


def overwrite(path, offset, data):
    with Path(path).open("r+b") as file:
        file.seek(offset)
        file.write(data)


@pytest.fixture
async def killed(tmp_path):
    server = LocalServer(tmp_path, "--containers", "1")
    server.start()
    try:
        await fill(server.uri)
    finally:
        server.kill()
    yield server
    server.close()


async def test_garbage_behind_the_last_record_is_cut_and_every_event_is_there(killed):
    path, offset, header = living_records(killed.directory / "data", 0)[-1]
    end = offset + -(-(64 + header.length) // 4096) * 4096
    overwrite(path, end, random.Random(1).randbytes(3000))
    killed.start()
    assert await read_all(killed.uri) == EVENTS
    assert killed.stop() == 0


async def test_a_torn_last_write_loses_nothing_that_was_acknowledged(killed):
    path, offset, header = living_records(killed.directory / "data", 0)[-1]
    # A write that a power failure cut: the header of a next record, and nothing of its content.
    start = offset + -(-(64 + header.length) // 4096) * 4096
    overwrite(path, start, Path(path).read_bytes()[offset : offset + 24])
    killed.start()
    assert await read_all(killed.uri) == EVENTS


async def test_a_flipped_bit_in_the_middle_is_named_and_nothing_is_served(killed):
    records = living_records(killed.directory / "data", 0)
    path, offset, header = records[len(records) // 2]
    at = offset + 64 + header.length // 2
    byte = Path(path).read_bytes()[at]
    overwrite(path, at, bytes([byte ^ 0x10]))
    with pytest.raises(ServerDiedError) as refusal:
        killed.start()
    assert killed.process.returncode == 6
    assert Path(path).name in str(refusal.value)
    assert str(offset) in str(refusal.value)
    # Nothing was repaired away: mending the byte brings everything back.
    overwrite(path, at, bytes([byte]))
    killed.start()
    assert await read_all(killed.uri) == EVENTS

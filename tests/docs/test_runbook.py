"""The runbook's commands work, what it quotes is said by the program, the numbers it names exist."""

import asyncio
import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest

from headrace.client import connect
from headrace.testing import LocalServer, ServerDiedError
from tests import programs
from tests.docs.command_line import make_command, run_line
from tests.docs.source_texts import is_said
from tests.effort import soak
from tests.integration.inspected_data import make_killed_server

PAGE = Path(__file__).parents[2] / "docs" / "operating" / "runbook.md"
TEXT = PAGE.read_text()


def blocks(language):
    found = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    return [line for block in found for line in block.splitlines() if line]


COMMANDS = sorted(set(blocks("sh")))
STATISTICS = sorted(
    {name for name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)`", TEXT) if not name.endswith((".json", ".md"))}
)


# ------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize("line", sorted(set(blocks("log"))))
def test_every_line_that_is_quoted_is_in_the_code(line):
    assert is_said(line)


def test_a_line_that_nobody_says_would_be_noticed():
    assert not is_said("container <n> has a cold")
    assert is_said("container <n> ended: <why>")
    assert not is_said("container <n> ended: <why> at once")


@pytest.mark.parametrize(
    "words",
    [
        "the data directory holds a log but no record of its format and containers",
        "there is no storage checkpoint in this store",
        "containers these have no whole storage checkpoint that is old enough",
        "a rebuild never touches a log",
        "the rebuild of this directory did not come to its end",
        "owners of the former system go on writing storage checkpoints",
        "was rebuilt from this storage",
        "the record names <n> containers, but the log of container <m> exists",
        "the log begins at <a> but was truncated at <b>",
        "is damaged or missing",
        "no readable owner record",
        "the log of this container is missing",
        "torn or dropped: recovery does not need it",
        "storage backlog",
        "cache pressure",
        "memory log size",
        "wal queue",
        "there is no segment store",
        "there is no controller that places it",
        "the leader has not placed it yet",
        "is gone, and the leader has not placed it anew yet",
        "recovers it",
        "it failed <n> times at <store>",
        "ZooKeeper at <servers> gave no session within <s> s",
        "ZooKeeper does not let this identity use",
        "this cluster is at format <n>, and this version of Headrace takes part at <m>",
        "controllers have started and are not ready",
    ],
)
def test_every_message_in_a_table_is_in_the_code(words):
    assert words in TEXT
    assert is_said(words)


def test_every_section_can_be_reached_from_the_top():
    titles = re.findall(r"^## (\d+)\. (.*)$", TEXT, re.MULTILINE)
    assert [int(number) for number, _ in titles] == list(range(1, len(titles) + 1))
    for number, title in titles:
        anchor = re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-")
        assert f"[{number}](#{number}-{anchor})" in TEXT


def test_pages_it_points_to_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", TEXT):
        assert (PAGE.parent / target).exists(), target


# ------------------------------------------------------------------------------------------ commands


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A directory with ``headrace-data`` of a killed server, and the command on the path."""
    directory = tmp_path_factory.mktemp("runbook")
    killed = asyncio.run(make_killed_server(directory / "made"))
    (directory / "headrace-data").symlink_to(killed.data)
    make_command(directory)
    return directory


@pytest.fixture(scope="module")
def server(directory):
    """A server with its own data: commands that need one are sent there."""
    with LocalServer(directory / "running") as server:
        yield server


def test_there_are_commands_of_both_kinds():
    assert sum("127.0.0.1" in line for line in COMMANDS) >= 4
    assert sum("headrace-data" in line for line in COMMANDS) >= 8


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if "127.0.0.1" not in line])
def test_every_command_works_on_data_of_a_killed_server(directory, line):
    done = run_line(directory, line)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if "127.0.0.1" in line])
def test_every_command_works_on_a_running_server(directory, server, line):
    line = line.replace("127.0.0.1:10080", server.addresses["rest"])
    assert "127.0.0.1:10080" not in line
    done = run_line(directory, line)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("name", STATISTICS)
def test_every_number_it_names_is_counted(server, name):
    with urllib.request.urlopen(f"http://{server.addresses['rest']}/v1/debug/statistics") as answer:
        found = json.load(answer)
    whole = {**found, **found["containers"]["0"]}
    for part in name.split("."):
        assert part in whole, name
        whole = whole[part]


# ------------------------------------------------------------------------------------------ what it promises


@pytest.mark.cluster
@pytest.mark.slow
def test_a_lost_log_directory_is_noticed_by_a_check_and_by_a_start(tmp_path):
    server = LocalServer(tmp_path, "--containers", "2")
    with server:
        assert server.stop() == 0
    (tmp_path / "data" / "wal" / "container-1").rename(tmp_path / "aside")
    command = [
        sys.executable,
        "-m",
        "headrace.cli.main",
        "check",
        "container",
        "--data-dir",
        str(tmp_path / "data"),
    ]
    done = programs.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 6
    assert "the log of this container is missing" in done.stdout
    with pytest.raises(ServerDiedError, match="the log of this container is missing") as refusal:
        server.start()
    assert str(refusal.value).startswith("exit 6")
    assert not (tmp_path / "data" / "wal" / "container-1").exists()
    (tmp_path / "aside").rename(tmp_path / "data" / "wal" / "container-1")
    server.start()
    assert server.stop() == 0


@soak
@pytest.mark.cluster
@pytest.mark.slow
async def test_a_reader_of_a_damaged_chunk_goes_on_when_the_file_is_put_back(tmp_path):
    killed = await make_killed_server(tmp_path / "made")
    chunk = min((killed.data / "chunks").glob("c*/demo/orders/**/*.chunk"))
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:9000] + bytes([whole[9000] ^ 1]) + whole[9001:])
    server = LocalServer(tmp_path / "server", "--data-dir", str(killed.data))
    with server:
        reading = asyncio.ensure_future(count_events(server.uri))
        await asyncio.to_thread(server.wait_for_log, "a block fails its checksum")
        assert not reading.done()
        chunk.write_bytes(whole)
        assert await asyncio.wait_for(reading, 60) == killed.events
        assert server.stop() == 0


async def count_events(uri):
    async with connect(uri) as client, client.event_reader("demo", "orders", end="tail") as reader:
        return sum([len(list(batch.payloads())) async for batch in reader.batches()])

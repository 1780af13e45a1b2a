"""``headrace inspect`` and ``headrace check`` on data of a real server that was killed."""

import asyncio
import json
import os
import random
import select
import subprocess
import sys
import time
import zlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.cli.inspect import container as inspect_container
from headrace.cli.inspect.data import InspectedData
from headrace.cli.inspect.segment_view import view_segment
from headrace.cli.main import main
from headrace.client import connect
from headrace.testing import LocalServer
from headrace.wal.inspect import RecordStatus, inspect_log, inspect_records
from tests import programs
from tests.integration.inspected_data import (
    CONTAINERS,
    EAGER,
    EVENT,
    LATE_EVENTS,
    SETTINGS,
    STORED_EVENTS,
    make_killed_server,
    statistics,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEGMENT = "demo/orders/0.#epoch.0"
EVENT_BYTES = 8 + len(EVENT)
HEADRACE = (sys.executable, "-m", "headrace.cli.main")


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    return asyncio.run(make_killed_server(tmp_path_factory.mktemp("killed")))


@pytest.fixture
def damaged(killed, tmp_path):
    return killed.copy(tmp_path)


@pytest.fixture
def run(capfd):
    def run(data, *words):
        code = main([*words, "--data-dir", str(data)])
        sys.stdout.flush()
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def ask(run):
    """Run a command that succeeds; return its JSON lines."""

    def ask(data, *words, code=0):
        found, out, err = run(data, *words, "--json")
        assert found == code, err
        return [json.loads(line) for line in out.splitlines()]

    return ask


def fingerprint(directory):
    """Every name, size, time of change and byte below a directory."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = zlib.crc32(path.read_bytes()) if path.is_file() else ""
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, content)
    return found


def container_of_segment(ask, data):
    return ask(data, "inspect", "segment", SEGMENT)[0]["container"]


def living_records(data, container):
    directory = str(data / "wal" / f"container-{container}")
    log = inspect_log(directory)
    return [
        (Path(directory) / file.name, record.offset, record.header)
        for file in log.files
        for record in inspect_records(log, file.name)
        if record.status is RecordStatus.LIVING
    ]


def flip(path, offset, bit=0x10):
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ bit]))


COMMANDS = [
    ("inspect", "wal"),
    ("inspect", "frames", "--container", "0"),
    ("inspect", "operations", "--container", "1"),
    ("inspect", "container"),
    ("inspect", "segment", SEGMENT, "--deep"),
    ("check", "container", "--deep"),
]


# ------------------------------------------------------------------------------------------ no change


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_looking_changes_not_a_byte(killed, run, words):
    before = fingerprint(killed.data)
    assert run(killed.data, *words)[0] == 0
    assert run(killed.data, *words, "--json")[0] == 0
    assert fingerprint(killed.data) == before


def test_looking_at_damage_changes_not_a_byte_either(damaged, run):
    records = living_records(damaged.data, 0)
    path, offset, header = records[len(records) // 2]
    flip(path, offset + 64 + header.length // 2)
    for chunk in list((damaged.data / "chunks").rglob("*.chunk"))[:2]:
        chunk.unlink()
    before = fingerprint(damaged.data)
    for words in COMMANDS:
        run(damaged.data, *words)
    assert fingerprint(damaged.data) == before


# ------------------------------------------------------------------------------------------ what there is


def test_the_log_is_shown_with_its_owner_and_every_frame(killed, ask):
    logs = ask(killed.data, "inspect", "wal")
    assert [log["container"] for log in logs] == list(range(CONTAINERS))
    for log in logs:
        frames = ask(killed.data, "inspect", "frames", "--container", str(log["container"]))
        addresses = [frame["address"] for frame in frames]
        assert addresses == list(range(log["first_address"], log["next_address"]))
        assert sum(file["living"] for file in log["files"]) == len(frames)
        assert sum(file["living_bytes"] for file in log["files"]) == sum(frame["size"] for frame in frames)
        assert log["owner"]["container_epoch"] == 2
        assert {frame["container_epoch"] for frame in frames} <= {1, 2}
        assert not log["problem"]


def test_frames_and_operations_count_the_same(killed, ask):
    for container in range(CONTAINERS):
        words = ("--container", str(container))
        frames = ask(killed.data, "inspect", "frames", *words)
        operations = ask(killed.data, "inspect", "operations", *words)
        sequences = [operation["sequence"] for operation in operations]
        assert sequences == sorted(set(sequences))
        assert sum(frame["operations"] for frame in frames) == len(operations)
        assert all(frame["entries"] >= frame["operations"] for frame in frames)
        ends = [frame["last_sequence"] for frame in frames if frame["last_sequence"]]
        assert ends == sorted(ends)
        assert ends[-1] == sequences[-1]


def test_operations_of_one_segment_tile_its_end(killed, ask):
    found = ask(killed.data, "inspect", "operations", "--segment", SEGMENT)
    appends = [operation for operation in found if operation["kind"] == "append-run"]
    assert all(operation["segment"] == SEGMENT for operation in appends)
    assert appends[-1]["offset"] + appends[-1]["length"] == killed.events * EVENT_BYTES
    for first, second in pairwise(appends):
        assert second["offset"] == first["offset"] + first["length"]
    late = [operation for operation in appends if operation["offset"] >= STORED_EVENTS * EVENT_BYTES]
    assert sum(operation["event_count"] for operation in late) == LATE_EVENTS
    assert len({operation["writer"] for operation in late}) == 1
    assert late[-1]["last_event_number"] == LATE_EVENTS


def test_a_listing_begins_and_ends_where_it_is_told(killed, ask):
    everything = ask(killed.data, "inspect", "operations", "--container", "0")
    begin = everything[5]["sequence"]
    part = ask(killed.data, "inspect", "operations", "--container", "0", "--from", str(begin), "--limit", "3")
    assert part == everything[5:8]


def test_a_merge_names_its_source(killed, ask):
    found = ask(killed.data, "inspect", "operations", "--segment", "demo/paid/0.#epoch.0")
    merges = [operation for operation in found if operation["kind"] == "merge"]
    assert len(merges) == 1
    assert merges[0]["length"] == 10 * EVENT_BYTES
    assert merges[0]["source"].startswith("demo/paid/0.#epoch.0#transaction.")


def test_a_container_is_recovered_as_its_owner_would(killed, ask):
    for container in range(CONTAINERS):
        found = ask(killed.data, "inspect", "container", "--container", str(container))[0]
        operations = ask(killed.data, "inspect", "operations", "--container", str(container))
        assert found["sequence"] == operations[-1]["sequence"]
        assert found["operations"] == len(operations)
        assert found["container_epoch"] == 2
        assert found["checkpoints"]
        for segment in found["active_segments"]:
            assert segment["start_offset"] <= segment["durable_length"]
            if segment["status"] in {"open", "sealed"}:
                assert segment["stored_length"] + segment["unstored_bytes"] == segment["durable_length"]
    names = {
        segment["segment"]: segment
        for found in ask(killed.data, "inspect", "container", "--inactive")
        for segment in (*found["active_segments"], *found["inactive_segments"])
    }
    assert names[SEGMENT]["durable_length"] == killed.events * EVENT_BYTES
    assert names["demo/done/0.#epoch.0"]["status"] == "sealed"
    assert names["demo/cut/0.#epoch.0"]["start_offset"] == 20 * EVENT_BYTES
    assert names.get("demo/gone/0.#epoch.0", {"status": "deleted"})["status"] == "deleted"


def test_a_segment_is_its_chunks_and_what_only_the_log_holds(killed, ask):
    found = ask(killed.data, "inspect", "segment", SEGMENT, "--deep")[0]
    at = 0
    for chunk in found["chunks"]:
        assert chunk["start"] == at
        assert chunk["state"] == "verified"
        assert chunk["object_bytes"] >= chunk["length"]
        at += chunk["length"]
    assert len(found["chunks"]) > 2
    assert at == found["stored_length"] == STORED_EVENTS * EVENT_BYTES
    assert found["log_only"] == [{"offset": at, "end": found["durable_length"], "merged_from": None}]
    assert found["attributes"]["event_count"] == killed.events
    writers = [name for name in found["attributes"] if name.startswith("writer ")]
    assert len(writers) == 2
    shallow = ask(killed.data, "inspect", "segment", SEGMENT)[0]
    assert {chunk["state"] for chunk in shallow["chunks"]} == {"not verified"}


def test_segments_that_left_memory_are_found_in_the_catalogue(killed, ask, run):
    containers = ask(killed.data, "inspect", "container", "--inactive")
    inactive = {segment["segment"]: found for found in containers for segment in found["inactive_segments"]}
    assert inactive
    for name, found in inactive.items():
        assert name not in {segment["segment"] for segment in found["active_segments"]}
        (segment,) = ask(killed.data, "inspect", "segment", name, "--deep")
        assert not segment["active"]
        assert segment["container"] == found["container"]
        assert segment["stored_length"] == segment["durable_length"]
        assert {chunk["state"] for chunk in segment["chunks"]} <= {"verified"}
    assert ask(killed.data, "inspect", "segment", SEGMENT)[0]["active"]
    checked = ask(killed.data, "check", "container")[0]["containers"]
    assert sum(container["inactive_segments"] for container in checked) == len(inactive)
    code, out, _ = run(killed.data, "inspect", "container", "--inactive")
    assert code == 0
    assert all(name in out for name in inactive)
    catalogue = ask(killed.data, "inspect", "segment", "_system/containers/metadata_1")[0]
    assert (catalogue["container"], catalogue["kind"]) == (1, "table, system")
    kinds = [
        operation["kind"]
        for container in range(CONTAINERS)
        for operation in ask(killed.data, "inspect", "operations", "--container", str(container))
    ]
    assert "evict-segments" in kinds or "activate-segment" in kinds


def test_a_damaged_catalogue_is_a_finding(damaged, run, ask):
    catalogue = next(
        segment
        for number in range(CONTAINERS)
        for segment in ask(damaged.data, "inspect", "segment", f"_system/containers/metadata_{number}")
        if segment["chunks"]
    )
    path = Path(catalogue["chunks"][-1]["path"])
    flip(path, 20)
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert f"{path} at offset 0" in out
    assert f"segment catalogue of container {catalogue['container']}" in out
    for lose in (lambda: os.truncate(path, 3), path.unlink):
        lose()
        for words in (("inspect", "container", "--inactive"), ("check", "container")):
            code, _, err = run(damaged.data, *words)
            assert (code, "headrace: " in err) == (6, True), err
        found = ask(damaged.data, "inspect", "container", "--inactive", code=6)[catalogue["container"]]
        assert found["problem"].endswith(f"is missing or too short ({path})")


def test_what_was_merged_and_is_not_stored_names_where_it_came_from(killed, ask):
    found = ask(killed.data, "inspect", "segment", "demo/paid/0.#epoch.0")[0]
    assert [item["merged_from"] is not None for item in found["log_only"]] == [True]
    assert found["log_only"][0]["end"] == found["durable_length"] == 30 * EVENT_BYTES


def test_tables_for_people_hold_the_same(killed, run):
    code, out, _ = run(killed.data, "inspect", "segment", SEGMENT)
    assert code == 0
    assert f"unstored: [{STORED_EVENTS * EVENT_BYTES}, {killed.events * EVENT_BYTES})" in out
    assert f"durable length  {killed.events * EVENT_BYTES}" in out
    code, out, _ = run(killed.data, "inspect", "container")
    assert SEGMENT in out
    code, out, _ = run(killed.data, "inspect", "wal")
    assert out.count("state      whole") == CONTAINERS


# ------------------------------------------------------------------------------------------ check


def test_data_of_a_killed_server_are_clean(killed, ask, run):
    found = ask(killed.data, "check", "container", "--deep")[0]
    for container in found["containers"]:
        assert container["complete"]
        assert container["findings"] == []
        assert container["verified_bytes"] == container["chunk_bytes"]
        assert container["table_entries"] > 0
    assert sum(container["chunks"] for container in found["containers"]) > 5
    code, out, err = run(killed.data, "check", "container")
    assert (code, err) == (0, "")
    assert out.count(": clean\n") == CONTAINERS


def test_a_flipped_bit_anywhere_in_the_acknowledged_log_is_named(damaged, run, ask):
    container = container_of_segment(ask, damaged.data)
    records = living_records(damaged.data, container)
    choice = random.Random(4)
    for path, offset, header in [records[0], *choice.sample(records[1:-1], 5)]:
        at = offset + choice.choice([4, 20, 40, 64 + header.length // 2])
        flip(path, at)
        code, out, err = run(damaged.data, "check", "container", "--container", str(container))
        assert code == 6
        assert f"{path.name} at offset {offset}" in out, (out, header)
        assert "do: " in out
        assert "1 finding in " in err
        code, out, _ = run(damaged.data, "inspect", "wal", "--container", str(container))
        assert code == 6
        assert f"{path.name} at offset {offset}" in out
        flip(path, at)
    assert run(damaged.data, "check", "container")[0] == 0


def test_a_damaged_log_is_shown_up_to_the_damage(damaged, run, ask):
    before = ask(damaged.data, "inspect", "operations", "--container", "0")
    frames = ask(damaged.data, "inspect", "frames", "--container", "0")
    path, offset, header = living_records(damaged.data, 0)[len(frames) // 2]
    flip(path, offset + 64 + header.length // 2)
    code, out, err = run(damaged.data, "inspect", "frames", "--container", "0", "--json")
    assert code == 6
    assert f"{path.name} at offset {offset}" in err
    shown = [json.loads(line) for line in out.splitlines()]
    assert shown == [frame for frame in frames if frame["address"] < header.sequence]
    code, out, _ = run(damaged.data, "inspect", "wal", "--container", "0", "--json")
    assert code == 6
    (log,) = map(json.loads, out.splitlines())
    assert sum(file["living"] for file in log["files"]) == len(shown)
    assert sum(file["dropped"] for file in log["files"]) > 0
    code, out, _ = run(damaged.data, "inspect", "operations", "--container", "0", "--json")
    assert code == 6
    assert [json.loads(line) for line in out.splitlines()] == before[: len(out.splitlines())]


def test_a_torn_tail_is_no_finding_and_is_told(damaged, run, ask):
    container = container_of_segment(ask, damaged.data)
    path, offset, header = living_records(damaged.data, container)[-1]
    end = offset + -(-(64 + header.length) // 4096) * 4096
    whole = path.read_bytes()
    # The next record, as a power failure leaves it: its header is there, its content is not.
    torn = bytearray(whole[offset : offset + 64])
    torn[32:40] = (header.sequence + 1).to_bytes(8, "big")
    torn[12:16] = (9000).to_bytes(4, "big")
    with path.open("r+b") as file:
        file.seek(end)
        file.write(torn)
    assert run(damaged.data, "check", "container")[0] == 0
    found = ask(damaged.data, "inspect", "wal", "--container", str(container))[0]
    assert [(item["file"], item["offset"]) for item in found["damaged_records"]] == [(path.name, end)]
    assert "torn" in found["damaged_records"][0]["verdict"]


def test_a_chunk_that_is_missing_is_named_with_what_it_held(damaged, run, ask):
    chunk = ask(damaged.data, "inspect", "segment", SEGMENT)[0]["chunks"][1]
    path = Path(chunk["path"])
    content = path.read_bytes()
    path.unlink()
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert f"[{chunk['start']}, {chunk['start'] + chunk['length']})" in out
    assert str(path) in out
    assert "missing" in out
    shown = ask(damaged.data, "inspect", "segment", SEGMENT, code=6)[0]
    assert shown["chunks"][1]["state"] == "missing"
    code, out, err = run(damaged.data, "inspect", "segment", SEGMENT)
    assert code == 6
    assert "unstored: " in out
    assert f"chunk {chunk['name']} is missing" in err
    path.write_bytes(content[:-1])
    shown = ask(damaged.data, "inspect", "segment", SEGMENT, code=6)[0]
    assert shown["chunks"][1]["state"] == "too short"
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert f"{path} at offset {len(content) - 1}" in out
    path.write_bytes(content)
    assert run(damaged.data, "check", "container")[0] == 0


@pytest.mark.parametrize("running", [False, True])
def test_a_chunk_that_goes_while_a_segment_is_looked_at_is_no_damage(damaged, run, monkeypatch, running):
    """A truncation may take it: only what two looks at a running server find is damage."""
    views = []

    def one_chunk_short(*args, **options):
        view = view_segment(*args, **options)
        views.append(view)
        return view if len(views) > 1 else replace(view, storage_problem="chunk 1 is missing")

    monkeypatch.setattr(inspect_container, "view_segment", one_chunk_short)
    monkeypatch.setattr(InspectedData, "may_change", running)
    code, _, err = run(damaged.data, "inspect", "segment", SEGMENT)
    assert (code, len(views)) == ((0, 2) if running else (6, 1)), err


def test_a_flipped_bit_in_a_chunk_is_found_by_reading_it(damaged, run, ask):
    chunk = ask(damaged.data, "inspect", "segment", SEGMENT)[0]["chunks"][0]
    path = Path(chunk["path"])
    flip(path, 70_000)
    assert run(damaged.data, "check", "container")[0] == 0
    code, out, _ = run(damaged.data, "check", "container", "--deep")
    assert code == 6
    assert f"{path} at offset 65536" in out
    found = ask(damaged.data, "inspect", "segment", SEGMENT, "--deep", code=6)[0]
    assert [each["state"] for each in found["chunks"]][:2] == ["damaged at 65536", "verified"]


def test_objects_that_no_row_names_are_garbage_and_no_damage(damaged, run, ask):
    chunk = ask(damaged.data, "inspect", "segment", SEGMENT)[0]["chunks"][0]
    path = Path(chunk["path"])
    orphan = path.with_name(path.name.replace(".E-1-O-0-", ".E-1-O-7-"))
    assert orphan != path
    orphan.write_bytes(b"left by a crashed write")
    stranger = path.with_name("0.%23epoch.0.9.E-1-O-0." + "0" * 32 + ".chunk")
    stranger = path.with_name(stranger.name.replace("%23", "#"))
    stranger.write_bytes(b"of other metadata")
    found = ask(damaged.data, "check", "container")[0]
    garbage = {item["where"]: item for item in found["garbage"]}
    assert set(garbage) == {str(orphan), str(stranger)}
    assert "deleted some time after the next start" in garbage[str(orphan)]["advice"]
    assert "never deleted by itself" in garbage[str(stranger)]["advice"]
    assert run(damaged.data, "check", "container")[0] == 0


def test_parts_of_the_directory_that_are_lost_are_named(damaged, run):
    (damaged.data / "headrace.json").rename(damaged.data / "aside.json")
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert "headrace.json is missing" in out
    (damaged.data / "aside.json").rename(damaged.data / "headrace.json")
    log = damaged.data / "wal" / "container-1"
    owner = log / "owner"
    owner.rename(log / "aside")
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert "no readable owner record" in out
    (log / "aside").rename(owner)
    slots = owner.read_bytes()
    newest = max((0, 4096), key=lambda at: slots[at + 32 : at + 40])
    flip(owner, newest + 20)
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert "the owner record says container epoch 1, but files of 2 exist" in out
    flip(owner, newest + 20)
    file = living_records(damaged.data, 1)[0][0]
    file.rename(log / "aside")
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert str(log) in out
    (log / "aside").rename(file)
    log.rename(damaged.data / "wal" / "aside")
    code, out, _ = run(damaged.data, "check", "container")
    assert code == 6
    assert "the log of this container is missing" in out
    assert "container 0: " in out


@pytest.mark.parametrize("verb", ["wal", "container"])
def test_what_is_wrong_with_one_container_hides_no_other(damaged, run, ask, verb):
    (before,) = ask(damaged.data, "inspect", verb, "--container", "1")
    logs = damaged.data / "wal"
    path, offset, header = living_records(damaged.data, 0)[3]
    flip(path, offset + 64 + header.length // 2)
    first, second = ask(damaged.data, "inspect", verb, code=6)
    assert f"{path.name} at offset {offset}" in first["problem"]
    assert (first["container"], second) == (0, before)
    flip(path, offset + 64 + header.length // 2)
    path.rename(logs / "aside")
    path.mkdir()
    first, second = ask(damaged.data, "inspect", verb, code=1)
    assert "Is a directory" in first["problem"]
    assert second == before
    code, out, err = run(damaged.data, "inspect", verb)
    assert code == 1
    assert "container 0: " in out
    assert "headrace: container 0: " in err
    assert len(out.splitlines()) > 5
    (logs / "container-0").rename(logs / "gone")
    first, second = ask(damaged.data, "inspect", verb, code=6)
    assert "the log of this container is missing" in first["problem"]
    assert second == before


def test_a_check_goes_on_where_something_cannot_be_read(damaged, ask, run):
    path = living_records(damaged.data, 0)[0][0]
    path.rename(path.with_name("aside"))
    path.mkdir()
    (found,) = ask(damaged.data, "check", "container", "--deep", code=6)
    first, second = found["containers"]
    assert "cannot be read" in first["findings"][0]["what"]
    assert not first["complete"]
    assert second["complete"]
    assert second["findings"] == []
    for words in (("frames",), ("operations",)):
        code, _, err = run(damaged.data, "inspect", *words, "--container", "0")
        assert (code, "Is a directory" in err) == (1, True)


def test_links_below_chunks_are_not_followed(damaged, ask):
    (damaged.data / "chunks" / "c0" / "again").symlink_to("..")
    (found,) = ask(damaged.data, "check", "container")
    assert found["garbage"] == []


def test_tables_that_are_not_checked_are_told(damaged, ask, run):
    chunk = next((damaged.data / "chunks").glob("c*/demo/orders/**/*.chunk"))
    chunk.unlink()
    (found,) = ask(damaged.data, "check", "container", "--deep", code=6)
    assert [container["tables_left_out"] for container in found["containers"]].count(True) == 1
    assert run(damaged.data, "check", "container", "--deep")[1].count("tables were not checked, because") == 1
    assert "tables were not" not in run(damaged.data, "check", "container")[1]


# ------------------------------------------------------------------------------------------ a running server


async def test_a_running_server_is_looked_at_without_being_disturbed(tmp_path):
    directory = tmp_path / "data"
    with LocalServer(tmp_path, "--containers", "1", environment={**SETTINGS, **EAGER}) as server:
        async with connect(server.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "orders")
            async with client.event_writer("demo", "orders") as writer:
                stop = asyncio.Event()
                writing = asyncio.ensure_future(write_until(writer, stop))
                for words in [
                    ("check", "container", "--deep"),
                    ("inspect", "container"),
                    ("inspect", "wal"),
                ] * 2:
                    done = await asyncio.to_thread(look, directory, *words)
                    # 4: the log was cut again and again while it was read.
                    assert done.returncode in {0, 4}, (words, done.stdout, done.stderr)
                    assert "is in use by pid" in done.stderr
                stop.set()
                written = await writing
        assert written > 0
        assert statistics(server)["containers"]["0"]["health"]["restarts"] == 0
        assert server.stop() == 0


async def test_damage_of_a_chunk_that_grows_is_told_of_a_running_server(tmp_path):
    directory = tmp_path / "data"
    large = {"HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": str(1 << 30)}
    with LocalServer(tmp_path, "--containers", "1", environment={**SETTINGS, **EAGER, **large}) as server:
        async with connect(server.uri) as client:
            await client.create_scope("demo")
            await client.create_stream("demo", "orders")
            async with client.event_writer("demo", "orders") as writer:
                stop = asyncio.Event()
                writing = asyncio.ensure_future(write_until(writer, stop))
                chunk = await asyncio.to_thread(wait_for_chunk, directory / "chunks" / "c0" / "demo", 100_000)
                flip(chunk, 100)
                for _ in range(5):
                    done = await asyncio.to_thread(look, directory, "check", "container", "--deep")
                    if done.returncode != 4:  # the log was cut again and again while it was read
                        break
                stop.set()
                await writing
        assert done.returncode == 6, (done.stdout, done.stderr)
        assert f"{chunk} at offset 0" in done.stdout
        assert "retrying: a running server" in done.stderr
        assert server.stop() == 0


def wait_for_chunk(directory, length, timeout_s=120.0):
    """Wait until there is a chunk of this length; return its path."""
    deadline = time.monotonic() + timeout_s
    while True:
        for path in directory.rglob("*.chunk"):
            if path.stat().st_size >= length:
                return path
        assert time.monotonic() < deadline
        select.select([], [], [], 0.05)  # nothing tells when bytes are stored


async def write_until(writer, stop):
    count = 0
    while not stop.is_set():
        await writer.write(b"y" * 300, "key")
        count += 1
    return count


def look(directory, *words):
    return programs.run(
        [*HEADRACE, *words, "--data-dir", str(directory)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


async def test_a_running_server_tells_its_statistics(tmp_path, capfd):
    with LocalServer(tmp_path, "--containers", "2") as server:
        rest = server.addresses["rest"]
        assert main(["inspect", "cache", "--rest", rest, "--json"]) == 0
        found = json.loads(capfd.readouterr().out)
        assert found["cache"]["bytes_max"] > 0
        assert set(found["containers"]) == {"0", "1"}
        parts = {"health", "durable_log", "memory_log", "read_index", "storage_writer", "storage", "tables"}
        assert parts <= set(found["containers"]["0"])
        assert main(["inspect", "cache", "--rest", rest]) == 0
        assert "containers   2 of 2 online" in capfd.readouterr().out
        assert main(["inspect", "cache", "--rest", rest, "--all", "--container", "1"]) == 0
        out = capfd.readouterr().out
        assert "container 1: durable log" in out
        assert "container 0" not in out
        assert main(["inspect", "cache", "--rest", rest, "--container", "9"]) == 2
        server.kill()
    assert main(["inspect", "cache", "--rest", rest]) == 3
    assert "is the server running" in capfd.readouterr().err


# ------------------------------------------------------------------------------------------ manners


def test_who_reads_only_the_head_hears_nothing_more(killed):
    process = programs.Popen(
        [*HEADRACE, "inspect", "operations", "--container", "0", "--data-dir", str(killed.data), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    process.wait(60)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("inspect", "wal", "--container", "7"), "has the containers 0 to 1, not 7"),
        (("inspect", "frames"), "say which with --container"),
        (("inspect", "segment", "demo/nobody/0.#epoch.0"), "does not exist"),
        (("inspect", "segment", "\udcff"), "not UTF-8"),
        (("inspect", "operations", "--segment", "\udcff"), "not UTF-8"),
    ],
)
def test_a_question_without_answer_is_refused(killed, run, words, why):
    code, out, err = run(killed.data, *words)
    assert (code, out) == (2, "")
    assert why in err


def test_a_directory_without_data_is_refused_and_not_made(tmp_path, run):
    for words in COMMANDS:
        code, _, err = run(tmp_path / "nowhere", *words)
        assert code == 2
        assert "holds no data of a server" in err
    assert list(tmp_path.iterdir()) == []

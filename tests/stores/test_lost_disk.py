"""The disk of a server is lost and its store lives: in whatever order an operator types the commands, what
they advise works, and no store or directory of another system is touched.

Every command is a process of its own, and what is run next is what the one before has said.
"""

import asyncio
import json
import os
import re
import shutil
import subprocess

import pytest

from headrace.storage.identity_format import IDENTITY_NAME
from headrace.testing import LocalServer
from headrace.testing.local_server import HEADRACE
from tests import programs
from tests.effort import sampled
from tests.stores.servers import S3_ENVIRONMENT
from tests.stores.small_s3 import SmallS3

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PORTS = [word for part in ("controller", "segmentstore", "rest") for word in (f"--{part}-port", "0")]


class Place:
    """A store of files, or in S3, that belongs to a system whose data directory is gone."""

    def __init__(self, root, s3):
        self.root, self.s3 = root, s3

    @property
    def uri(self):
        if self.s3 is None:
            return f"file://{self.root}/store"
        return f"s3://bucket/system?endpoint=http://127.0.0.1:{self.s3.port}"

    @property
    def empty(self):
        """Return another one, where nothing is."""
        if self.s3 is None:
            (self.root / "none").mkdir(exist_ok=True)
            return f"file://{self.root}/none"
        return self.uri.replace("/system?", "/none?")

    def objects(self):
        """All that is in the store, with its bytes; not what rebuilds leave."""
        if self.s3 is None:
            paths = [path for path in (self.root / "store").rglob("*") if path.is_file()]
            found = {str(path.relative_to(self.root)): path.read_bytes() for path in paths}
        else:
            found = {name: bytes(content) for name, (content, _) in self.s3.objects.items()}
        return {name: content for name, content in found.items() if "_system/checkpoints/" not in name}


@pytest.fixture
async def place(request, tmp_path):
    if getattr(request, "param", "s3") == "file":
        yield await made(Place(tmp_path, None))
    else:
        async with SmallS3() as s3:
            yield await made(Place(tmp_path / "it's  lost", s3))  # the shell has to quote it


IN_FILES = pytest.mark.parametrize("place", ["file"], indirect=True)
IN_BOTH = pytest.mark.parametrize("place", sampled(["file", "s3"]), indirect=True)


async def made(place):
    """Let a system use the store, stop it, and lose its directory."""
    server = LocalServer(
        place.root / "first", "--containers", "2", "--storage", place.uri, environment=S3_ENVIRONMENT
    )
    await asyncio.to_thread(server.start)
    assert await asyncio.to_thread(server.stop) == 0
    shutil.rmtree(place.root / "first")
    return place


async def run(*words):
    """Run a command to its end; a server that gets ready is stopped. Return its exit code and all it says."""
    return await asyncio.to_thread(run_to_end, *map(str, words))


def run_to_end(*words):
    said = ""
    with programs.Popen(
        [*HEADRACE, *words],
        env={**os.environ, **S3_ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout:
            said += line
            if "headrace is ready" in line:
                process.terminate()
    return process.returncode, said


async def start(directory, *words):
    return await run("standalone", "--data-dir", directory, *PORTS, *words)


async def rebuild(source, directory, *words):
    return await run("storage", "rebuild", "--from", source, "--data-dir", directory, *words)


def advised(said):
    """Return the words of the one command that a message has, as a shell reads them."""
    [command] = re.findall(r"`(headrace [^`]*)`", said)
    split = ["bash", "-c", f"printf '%s\\0' {command}"]
    return subprocess.run(split, capture_output=True, text=True, check=True).stdout.split("\0")[1:-1]


async def follow(said):
    """Run exactly what is advised; then a server on the directory that it has made."""
    words = advised(said)
    code, done = await run(*words)
    assert code == 0, done
    directory = words[words.index("--data-dir") + 1]
    code, done = await start(directory)
    assert code == 0, done
    assert "headrace is ready" in done
    return directory


@IN_BOTH
async def test_a_server_that_is_refused_leaves_nothing_and_the_rebuild_it_advises_works(place):
    before = place.objects()
    data = place.root / "new"
    code, said = await start(data, "--storage", place.uri)
    assert code == 2
    assert "has the data of another system" in said
    assert [path.name for path in data.iterdir()] == ["LOCK"]
    assert place.objects() == before
    code, again = await start(data, "--storage", place.uri)
    assert (code, advised(again)) == (2, advised(said))
    assert await follow(said) == str(data)


async def test_what_an_earlier_release_has_left_of_such_a_start_is_no_hindrance(place):
    data = place.root / "new"
    data.mkdir()
    record = {"format": 2, "containers": 4, "system": "ab" * 16, "storage": place.uri}
    (data / "headrace.json").write_text(json.dumps(record))
    (data / "REBUILDING").write_text(json.dumps({"from": "file:///elsewhere"}))
    (data / "headrace.toml").write_text("# ours\n")
    code, said = await run("storage", "check", "--data-dir", data)
    assert code == 6
    assert "the store of another system" in said
    assert "garbage" not in said
    assert await follow(said) == str(data)
    assert (data / "headrace.toml").read_text() == "# ours\n"
    code, said = await run("storage", "check", "--data-dir", data)
    assert code == 0, said


async def test_a_wrong_store_is_named_before_the_right_one(place):
    data = place.root / "new"
    for wrong in (place.empty, place.uri.replace("/s", "/missing")):
        code, said = await rebuild(wrong, data)
        assert code != 0, said
        assert {path.name for path in data.iterdir()} <= {"LOCK"} if data.exists() else True
    code, said = await rebuild(place.uri, data)
    assert code == 0, said
    code, said = await start(data)
    assert code == 0, said


@IN_BOTH
async def test_a_server_on_its_own_chunks_came_first(place):
    data = place.root / "new"
    code, said = await start(data, "--containers", "2")
    assert code == 0, said
    before = sorted(str(path) for path in data.rglob("*"))
    code, said = await rebuild(place.uri, data)
    assert code == 2
    assert "a rebuild never touches a log" in said
    assert sorted(str(path) for path in data.rglob("*")) == before
    assert await follow(said) == f"{data}.rebuilt"
    # The store is that of the rebuilt directory now, and the first one is as it was.
    code, said = await start(data, "--storage", place.uri)
    assert code == 6
    assert "are elsewhere" in said
    code, said = await run(*advised(said), *PORTS)
    assert code == 0, said
    code, said = await run("storage", "check", "--data-dir", data, "--storage", place.uri)
    assert code == 6, said
    assert "garbage" not in said
    code, said = await run("storage", "export", "_system/x", "--data-dir", data, "--to", place.uri)
    assert code == 2, said


@IN_FILES
async def test_the_store_is_checked_first(place):
    data = place.root / "new"
    code, said = await run("storage", "check", "--data-dir", data)
    assert code == 2, said
    code, said = await run("storage", "check", "--data-dir", data, "--storage", place.uri)
    assert code == 6
    assert "put them back" in said
    assert not data.exists()
    await follow(said)


async def test_a_rebuild_that_died_goes_on_from_any_store(place):
    data = place.root / "new"
    (data / "wal" / "container-0").mkdir(parents=True)
    (data / "wal" / "container-0" / "owner").write_bytes(b"half")
    (data / "REBUILDING").write_text(json.dumps({"source": place.empty, "at_ms": None}))
    code, said = await start(data)
    assert code == 6
    code, failed = await run(*advised(said))
    assert code == 2, failed
    code, said = await rebuild(place.uri, data)
    assert code == 0, said
    code, said = await start(data)
    assert code == 0, said


@IN_FILES
async def test_copies_go_into_no_other_system(place):
    other = LocalServer(place.root / "second", "--containers", "1")
    await asyncio.to_thread(other.start)
    assert await asyncio.to_thread(other.stop) == 0
    chunks = place.root / "second" / "data" / "chunks"
    before = {path: path.read_bytes() for path in chunks.rglob("*") if path.is_file()}
    code, said = await run("storage", "copy", "--from", place.uri, "--to", f"file://{chunks}")
    assert code == 2
    assert "another system" in said
    assert {path: path.read_bytes() for path in chunks.rglob("*") if path.is_file()} == before
    # A directory is not lured to chunks of another system either.
    shutil.copyfile(place.root / "store" / f"{IDENTITY_NAME}.chunk", chunks / f"{IDENTITY_NAME}.chunk")
    for words in (("check",), ("repair", "--yes"), ("export", "_system/x", "--to", place.root / "out")):
        code, said = await run("storage", *words, "--data-dir", chunks.parent)
        assert code == 6, said
        assert "the store of another system" in said
        assert "garbage" not in said

"""Who uses a data directory is what the kernel says, not what the lock file says."""

import json
import os
import shutil
import socket

import pytest

from headrace.cli.inspect.data import InspectedData
from headrace.cli.main import main
from headrace.cli.shared_options import DATA_DIR_VARIABLE
from headrace.errors import InvalidArgumentError
from headrace.processes.config import StandaloneConfig
from headrace.runtime import kernel_locks
from headrace.runtime.clock import SystemClock
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import OsFilesystem
from headrace.runtime.settings_sources import load
from tests.unit.segmentstore.inspection.logs import BEGINNING, make_log

HERE = {"pid": os.getpid(), "host": socket.gethostname(), "since": "2026-11-01T00:00:00+00:00"}


@pytest.fixture
def data(tmp_path):
    data = tmp_path / "data"
    (data / "wal" / "container-0").mkdir(parents=True)
    (data / "headrace.json").write_text('{"format": 1, "containers": 1}')
    return data


@pytest.fixture
def in_use(data):
    lock = DirectoryLock(OsFilesystem(), str(data), describe_process(SystemClock()))
    lock.acquire()
    yield
    lock.release()


@pytest.fixture
def silent(monkeypatch, tmp_path):
    """A system that does not tell who holds which lock."""
    monkeypatch.setattr(kernel_locks, "_TABLE", str(tmp_path / "nothing"))


@pytest.mark.usefixtures("in_use")
def test_a_directory_whose_lock_is_held_is_in_use(data, capsys):
    found = InspectedData(str(data))
    assert (found.locked, found.may_change) == (True, True)
    assert found.holder.startswith(f"pid {os.getpid()} on ")
    main(["inspect", "wal", "--data-dir", str(data)])
    assert f"is in use by pid {os.getpid()}" in capsys.readouterr().err
    (data / "LOCK").write_text("")
    assert InspectedData(str(data)).holder == "another process"


def test_a_lock_file_that_cannot_be_read_names_nobody(data):
    (data / "LOCK").mkdir()
    found = InspectedData(str(data))
    assert (found.holder, found.may_change) == ("", False)


@pytest.mark.usefixtures("in_use")
def test_a_copy_of_a_directory_in_use_is_not(data, tmp_path, capsys):
    copy = shutil.copytree(data, tmp_path / "copy")
    assert json.loads((copy / "LOCK").read_text())["pid"] == os.getpid()
    found = InspectedData(str(copy))
    assert (found.locked, found.holder, found.may_change) == (False, "", False)
    main(["inspect", "wal", "--data-dir", str(copy)])
    assert "held by" not in capsys.readouterr().err


def test_who_held_it_on_another_machine_is_named(data, capsys):
    (data / "LOCK").write_text(json.dumps(HERE | {"host": "elsewhere"}))
    found = InspectedData(str(data))
    assert (found.locked, found.may_change) == (False, False)
    main(["inspect", "wal", "--data-dir", str(data)])
    assert f"was last held by pid {os.getpid()} on elsewhere" in capsys.readouterr().err


@pytest.mark.usefixtures("silent")
def test_where_nobody_tells_the_lock_file_is_believed(data, capsys):
    (data / "LOCK").write_text(json.dumps(HERE))
    found = InspectedData(str(data))
    assert (found.locked, found.may_change) == (None, True)
    main(["inspect", "wal", "--data-dir", str(data)])
    assert f"was last held by pid {os.getpid()}" in capsys.readouterr().err


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("pid", [0, -1, 1 << 22, 10**30, "x", None, 1e400])
def test_a_process_that_cannot_exist_holds_nothing(data, pid):
    (data / "LOCK").write_text(json.dumps(HERE | {"pid": pid}))
    found = InspectedData(str(data))
    assert (found.holder, found.may_change) == ("", False)


def test_the_variable_of_the_server_is_obeyed(data, monkeypatch, capsys):
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(data))
    assert load(StandaloneConfig, environment={DATA_DIR_VARIABLE: str(data)}).data_dir == str(data)
    for words in (["inspect", "wal"], ["check", "container"]):
        assert main(words) == 0
        assert "has no log yet" in capsys.readouterr().out
        assert main([*words, "--data-dir", "other"]) == 2
        assert "other" in capsys.readouterr().err


def test_an_empty_name_is_not_the_root():
    with pytest.raises(InvalidArgumentError, match="empty"):
        InspectedData("")


@pytest.mark.parametrize("words", [("inspect", "container"), ("inspect", "wal"), ("check", "container")])
def test_chunks_without_logs_and_record_are_not_said_to_be_no_data(tmp_path, words, capsys):
    chunk = tmp_path / "chunks" / "demo" / ("s.5.E-1-O-0." + "0" * 32 + ".chunk")
    chunk.parent.mkdir(parents=True)
    command = [*words, "--data-dir", str(tmp_path)]
    assert main(command) == 2
    assert "holds no data of a server" in capsys.readouterr().err
    chunk.write_bytes(b"content")
    assert main(command) == 6
    assert f"neither a log nor headrace.json: put them back ({chunk})" in capsys.readouterr().err
    copy = tmp_path / "chunks" / "_system" / "checkpoints" / "0" / "1-0.manifest.chunk"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"copy")
    assert main(command) == 6
    advised = f"`headrace storage rebuild --storage file://{tmp_path}/chunks --data-dir {tmp_path}`"
    assert advised in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["standalone"],
        ["storage", "rebuild", "--from", "file:///tmp"],
        ["storage", "check"],
        ["storage", "repair", "--yes"],
        ["storage", "export", "a/b", "--to", "out"],
        ["inspect", "container"],
        ["inspect", "segment", "a/b/0.#epoch.0"],
        ["check", "container"],
    ],
    ids=" ".join,
)
def test_a_data_directory_that_is_a_file_is_a_wrong_request(tmp_path, words, capsys):
    file = tmp_path / "file"
    file.write_text("mine")
    for directory in (file, file / "below"):
        assert main([*words, "--data-dir", str(directory)]) == 2
        assert f"{directory} is a file, or lies below one" in capsys.readouterr().err
    assert file.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("verb", ["wal", "container"])
async def test_a_log_that_was_never_made_is_no_damage(data, verb, capsys):
    """The next start makes it, as it does if it finds such a directory."""
    await make_log(data / "wal" / "container-0", BEGINNING)
    (data / "wal" / "container-1").mkdir()
    (data / "headrace.json").write_text('{"format": 1, "containers": 3}')
    inspect = ["inspect", verb, "--data-dir", str(data)]
    assert main([*inspect, "--json"]) == 0
    documents = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert documents[0]["container"] == 0
    assert documents[1:] == [{"container": number, "begun": False} for number in (1, 2)]
    assert main([*inspect, "--container", "2"]) == 0
    assert capsys.readouterr().out == (
        "container 2: has no log yet, the very first start did not complete\n\n"
    )
    chunk = data / "chunks" / "demo" / ("s.5.E-1-O-0." + "0" * 32 + ".chunk")
    chunk.parent.mkdir(parents=True)
    chunk.write_bytes(b"content")  # somebody has written: there were logs once
    assert main(inspect) == 6

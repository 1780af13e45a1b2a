"""``headrace check container``: data directories whose make-up is in doubt, and those of running servers."""

import json
import shutil

import pytest

from headrace.cli.check import container as check_container
from headrace.cli.main import main
from headrace.runtime.clock import SystemClock
from headrace.runtime.directory_lock import DirectoryLock, describe_process
from headrace.runtime.filesystem import OsFilesystem
from headrace.segmentstore.inspection.findings import CheckReport
from tests.unit.segmentstore.inspection.logs import BEGINNING, make_log

RECORD = '{"format": 1, "containers": 2}'


@pytest.fixture
async def data(tmp_path):
    """Two containers that hold nothing, and an object that is none of theirs."""
    data = tmp_path / "data"
    for number in range(2):
        await make_log(data / "wal" / f"container-{number}", BEGINNING if not number else ())
    (data / "headrace.json").write_text(RECORD)
    return data


@pytest.fixture
def stranger(data):
    path = data / "chunks" / "demo" / ("s.5.E-1-O-0." + "0" * 32 + ".chunk")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    return path


@pytest.fixture
def check(data, capfd):
    def check(*words):
        code = main(["check", "container", "--data-dir", str(data), *words])
        captured = capfd.readouterr()
        return code, captured.out, captured.err

    return check


def test_an_object_of_no_container_is_garbage_if_all_containers_are_known(check, stranger):
    code, out, _ = check()
    assert code == 0
    assert f"garbage: an object that belongs to no container of this directory | {stranger}" in out


def test_garbage_that_is_not_shown_is_counted(check, stranger, monkeypatch):
    monkeypatch.setattr(check_container, "_GARBAGE_SHOWN", 1)
    assert "objects more" not in check()[1]
    for number in "123":
        stranger.with_name(stranger.name.replace("s.5", f"s.{number}")).write_bytes(b"content")
    code, out, _ = check()
    assert (code, out.count("garbage: an object")) == (0, 1)
    assert "garbage: and 3 objects more" in out
    document = json.loads(check("--json")[1])
    assert (len(document["garbage"]), document["garbage_left_out"]) == (1, 3)


def test_a_log_beyond_the_number_of_containers_is_damage(data, check, stranger):
    (data / "headrace.json").write_text(RECORD.replace("2", "1"))
    code, out, _ = check()
    assert code == 6
    assert "damage: the record names 1 containers, but the log of container 1 exists" in out
    assert "container 1: " in out
    assert str(stranger) not in out
    code, out, _ = check("--json")
    assert code == 6
    assert [found["container"] for found in json.loads(out)["containers"]] == [0, 1]
    assert json.loads(out)["garbage"] == []


@pytest.mark.parametrize(
    "record", [None, "{", '{"format": 1}', '{"format": 1, "containers": 1000000000000}'], ids=str
)
def test_without_a_record_no_object_is_called_garbage(data, check, stranger, record):
    (data / "headrace.json").unlink()
    if record is not None:
        (data / "headrace.json").write_text(record)
    code, out, _ = check()
    assert code == 6
    assert "headrace.json" in out
    assert "container 1: " in out
    assert str(stranger) not in out


def test_data_of_a_newer_format_are_not_judged(data, check):
    (data / "headrace.json").write_text('{"format": 3}')
    code, out, err = check()
    assert (code, out) == (2, "")
    assert "data of format 3, this version of Headrace reads formats 1 to 2" in err


# ------------------------------------------------------------------------------------------ a first start


def leave_nothing(log):
    shutil.rmtree(log)


def leave_directory(log):
    shutil.rmtree(log)
    log.mkdir()


def leave_blank_owner(log):
    leave_directory(log)
    (log / "owner").write_bytes(bytes(4096))


@pytest.mark.parametrize("leave", [leave_nothing, leave_directory, leave_blank_owner])
def test_what_a_first_start_that_died_has_left_is_no_damage(data, check, leave):
    for number in (0, 1):
        leave(data / "wal" / f"container-{number}")
        code, out, _ = check()
        assert (code, out.count("damage:")) == (0, 0)
        assert f"container {number}: 0 frames" in out
        assert out.count("has no log yet, the very first start did not complete") == number + 1
        assert code == check("--container", "1")[0]


@pytest.mark.parametrize("verb", ["wal", "container"])
def test_logs_that_cannot_be_looked_at_are_not_said_to_be_none(data, capfd, verb):
    shutil.rmtree(data / "wal")
    (data / "wal").symlink_to("wal")  # stands for a directory that this user may not enter, or a broken disk
    code = main(["inspect", verb, "--data-dir", str(data)])
    captured = capfd.readouterr()
    assert (code, captured.out) == (1, "")
    assert "Too many levels of symbolic links" in captured.err


@pytest.mark.parametrize("leave", [leave_nothing, leave_directory, leave_blank_owner])
def test_a_log_of_which_nothing_is_left_is_damage_if_there_are_chunks(data, check, stranger, leave):
    leave(data / "wal" / "container-1")
    code, out, _ = check()
    assert code == 6
    assert "damage: container 1: " in out
    assert "no log yet" not in out


# ------------------------------------------------------------------------------------------ a running server


@pytest.fixture
def in_use(data):
    """The directory is locked, as that of a running server is."""
    lock = DirectoryLock(OsFilesystem(), str(data), describe_process(SystemClock()))
    lock.acquire()
    yield
    lock.release()


@pytest.fixture
def looks(monkeypatch):
    """What each look at container 0 finds, by (kind, length); the last one is found for ever."""
    looks = []

    def look(container_id, directory, *_, **__):
        report = CheckReport(container_id, complete=True)
        found = (looks.pop(0) if len(looks) > 1 else looks[0]) if container_id == 0 else []
        for kind, length in found:
            if kind == "log":
                report.complete = False
            report.damage(kind, f"{length} bytes", "the place", "mend it", f" at {length}")
        return report

    monkeypatch.setattr(check_container, "check_container", look)
    return looks


@pytest.mark.usefixtures("in_use")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        pytest.param([[("chunk", 5)], [("chunk", 9)]], "9 bytes", id="grows"),
        pytest.param([[("row", 1)], [("chunk", 5)], [("chunk", 9)]], "9 bytes", id="second look"),
        pytest.param([[("log", 1)], [("chunk", 5)], [("chunk", 9)]], "9 bytes", id="log was in the way"),
    ],
)
def test_damage_is_told_although_its_lengths_grow(check, looks, found, expected):
    looks += found
    code, out, err = check()
    assert code == 6
    assert f"damage: container 0: {expected} | the place at 9" in out
    assert "retrying: a running server" in err


def test_a_server_that_starts_meanwhile_is_looked_at_as_one_that_runs(check, looks, data, monkeypatch):
    looks += [[("chunk", 5)], []]
    look = check_container.check_container
    lock = DirectoryLock(OsFilesystem(), str(data), describe_process(SystemClock()))

    def start(*words, **more):
        monkeypatch.setattr(check_container, "check_container", look)
        lock.acquire()
        return look(*words, **more)

    monkeypatch.setattr(check_container, "check_container", start)
    code, out, err = check()
    lock.release()
    assert (code, "damage" in out) == (0, False)
    assert "retrying: a running server" in err


@pytest.mark.usefixtures("in_use")
def test_what_one_look_found_is_no_finding(check, looks):
    looks += [[("chunk", 5)], [("row", 1)], []]
    code, out, _ = check()
    assert code == 0
    assert "damage" not in out


@pytest.mark.usefixtures("in_use")
def test_a_log_that_could_not_be_read_twice_alike_is_not_called_clean(check, looks):
    looks += [[("chunk", 5)], [("row", 1)], [("log", 1)]]
    code, out, err = check()
    assert code == 4
    assert "not checked beyond the log" in out
    assert "keep changing" in err


def test_a_stopped_directory_is_looked_at_once(check, looks):
    looks += [[("chunk", 5)], []]
    assert check()[0] == 6

"""``headrace inspect wal``, ``frames`` and ``operations`` of logs that change meanwhile."""

import errno
import json
import os
import shutil

import pytest

from headrace.cli.inspect.data import time_text
from headrace.cli.main import main
from headrace.runtime.filesystem import OsFilesystem
from headrace.wal import inspect as wal_inspect
from tests.unit.segmentstore.inspection.logs import BEGINNING, make_log

NAME = "000000000001-000000000001.wal"


@pytest.fixture
async def data(tmp_path):
    await make_log(tmp_path / "wal" / "container-0", BEGINNING)
    (tmp_path / "headrace.json").write_text('{"format": 1, "containers": 1}')
    return tmp_path


@pytest.mark.parametrize("times", [1, 5])
def test_a_file_that_goes_after_it_was_listed_is_looked_for_again(data, capfd, monkeypatch, times):
    path, real, left = data / "wal" / "container-0" / NAME, wal_inspect.inspect_log, times

    def look(directory, files):
        """A running server recycles a file once it is listed; it is there again at the next look."""
        nonlocal left
        if not path.exists():
            path.with_suffix(".draft").rename(path)
        found = real(directory, files)
        if left:
            left -= 1
            path.rename(path.with_suffix(".draft"))
        return found

    monkeypatch.setattr("headrace.wal.file.log_snapshot.inspect_log", look)
    code = main(["inspect", "wal", "--json", "--data-dir", str(data)])
    captured = capfd.readouterr()
    (document,) = map(json.loads, captured.out.splitlines())
    if times == 1:
        assert (code, document["files"][0]["living"]) == (0, 1)
    else:
        assert (code, "was truncated while it was read" in document["problem"]) == (4, True)


@pytest.mark.parametrize("verb", ["wal", "frames", "operations", "container"])
def test_of_a_log_that_was_never_made_every_verb_says_so(data, capfd, verb):
    shutil.rmtree(data / "wal" / "container-0")
    assert main(["inspect", verb, "--data-dir", str(data)]) == 0
    assert capfd.readouterr().out == (
        "container 0: has no log yet, the very first start did not complete\n\n"
    )
    assert main(["inspect", verb, "--json", "--data-dir", str(data)]) == 0
    assert json.loads(capfd.readouterr().out) == {"container": 0, "begun": False}


@pytest.mark.parametrize("verb", ["wal", "frames", "operations", "container"])
def test_a_file_that_the_disk_does_not_give_is_named(data, capfd, monkeypatch, verb):
    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(OsFilesystem, "pread_into", fail)
    assert main(["inspect", verb, "--data-dir", str(data)]) == 1
    record, log = capfd.readouterr().err.splitlines()
    assert record == f"[Errno {errno.EIO}] {os.strerror(errno.EIO)}: '{data / 'headrace.json'}'"
    assert log.startswith("headrace: ")
    assert log.endswith(f"{os.strerror(errno.EIO)}: '{data / 'wal' / 'container-0' / 'owner'}'")


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_a_limit_of_nothing_is_refused(data, capfd, limit):
    """What follows it would look like a log without operations."""
    assert main(["inspect", "operations", "--limit", limit, "--data-dir", str(data)]) == 2
    assert capfd.readouterr().err == f"headrace: at least 1 operation has to be shown, not {limit}\n"


def test_before_a_log_was_made_there_is_no_segment(data, capfd):
    shutil.rmtree(data / "wal" / "container-0")
    assert main(["inspect", "segment", "demo/s", "--data-dir", str(data)]) == 2
    captured = capfd.readouterr()
    assert (captured.out, "demo/s" in captured.err) == ("", True)


def test_where_the_number_of_containers_is_not_known_no_segment_is_said_to_be_none(data, capfd):
    assert main(["inspect", "segment", "demo/s", "--data-dir", str(data)]) == 2
    (data / "headrace.json").unlink()
    assert main(["inspect", "segment", "demo/s", "--data-dir", str(data)]) == 6
    assert "which one it belongs to is not known" in capfd.readouterr().err


def test_a_time_that_no_calendar_has_is_shown_as_it_is_stored():
    assert time_text(0) == "1970-01-01T00:00:00.000+00:00"
    assert [time_text(time_ms) for time_ms in (1 << 62, -1 << 63)] == [
        "4611686018427387904 ms",
        "-9223372036854775808 ms",
    ]

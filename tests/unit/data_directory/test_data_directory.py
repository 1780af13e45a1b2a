"""The number of containers is fixed once data exist, and nobody can forget it."""

import errno
import json
import os
import re

import pytest

from headrace.data_directory.record import (
    FILE_NAME,
    check_data_directory,
    containers_of,
    raise_format,
)
from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.runtime.filesystem import OsFilesystem

FILES = OsFilesystem()


def test_a_new_directory_remembers_its_containers(tmp_path):
    assert containers_of(FILES, str(tmp_path)) is None
    check_data_directory(FILES, str(tmp_path), 7)
    assert containers_of(FILES, str(tmp_path)) == 7
    check_data_directory(FILES, str(tmp_path), 7)
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"format": 2, "containers": 7}


def test_a_full_disk_is_named_and_leaves_no_record(tmp_path):
    class Full(OsFilesystem):
        def pwrite(self, fd, data, offset):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=rf"space.*{re.escape(str(tmp_path))}"):
        check_data_directory(Full(), str(tmp_path), 4)
    assert containers_of(FILES, str(tmp_path)) is None
    check_data_directory(FILES, str(tmp_path), 4)


def test_another_number_is_refused_and_the_right_one_named(tmp_path):
    check_data_directory(FILES, str(tmp_path), 4)
    with pytest.raises(InvalidArgumentError, match="made with 4 containers"):
        check_data_directory(FILES, str(tmp_path), 8)
    assert containers_of(FILES, str(tmp_path)) == 4


def test_an_earlier_format_is_read_and_then_raised(tmp_path):
    (tmp_path / FILE_NAME).write_text('{"format": 1, "containers": 4, "later": "x"}')
    with pytest.raises(InvalidArgumentError, match="made with 4 containers"):
        check_data_directory(FILES, str(tmp_path), 8)
    check_data_directory(FILES, str(tmp_path), 4)
    assert json.loads((tmp_path / FILE_NAME).read_text())["format"] == 1
    raise_format(FILES, str(tmp_path))
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {"format": 2, "containers": 4, "later": "x"}
    assert containers_of(FILES, str(tmp_path)) == 4


@pytest.mark.parametrize("content", ['{"format": 3, "containers": 4}', '{"format": 3}', '{"format": 0}'])
def test_an_unknown_format_is_refused(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(InvalidArgumentError, match=r"data of format \d"):
        check_data_directory(FILES, str(tmp_path), 4)
    with pytest.raises(InvalidArgumentError, match=r"data of format \d"):
        containers_of(FILES, str(tmp_path))


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"containers": 4}',
        '{"format": "1", "containers": 4}',
        '{"format": 1}',
        '{"format": 1, "containers": "4"}',
        '{"format": 1, "containers": true}',
        '{"format": 1, "containers": 0}',
        '{"format": 1, "containers": 1025}',
        '{"format": 1, "containers": 1000000000000}',
        "[" * 60_000,
    ],
)
def test_a_damaged_record_is_corruption(tmp_path, content):
    (tmp_path / FILE_NAME).write_text(content)
    with pytest.raises(DataCorruptionError, match=FILE_NAME):
        containers_of(FILES, str(tmp_path))


def test_a_log_without_the_record_is_refused(tmp_path):
    (tmp_path / "wal").mkdir()
    with pytest.raises(DataCorruptionError, match="holds a log"):
        check_data_directory(FILES, str(tmp_path), 4)

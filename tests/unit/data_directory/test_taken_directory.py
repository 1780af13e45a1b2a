"""A directory is one process's at a time, and one that is refused is as it was."""

import pytest

from headrace.data_directory.taken_directory import take_directory
from headrace.errors import DirectoryLockedError, InvalidArgumentError
from headrace.processes.config import StandaloneConfig
from headrace.runtime.context import system_runtime


def take(directory, **choice):
    return take_directory(StandaloneConfig(data_dir=str(directory), **choice), system_runtime())


def test_a_directory_is_made_once_and_taken_by_one_at_a_time(tmp_path):
    taken = take(tmp_path / "data", containers=3)
    assert taken.containers == 3
    assert taken.store.root == str(tmp_path / "data" / "chunks")
    assert taken.store.is_new
    with pytest.raises(DirectoryLockedError, match="in use by pid"):
        take(tmp_path / "data")
    taken.release()
    again = take(tmp_path / "data")
    assert (again.containers, again.store.system) == (3, taken.store.system)
    again.release()


def test_one_that_is_refused_is_free_for_the_next(tmp_path):
    take(tmp_path, containers=3).release()
    with pytest.raises(InvalidArgumentError, match="made with 3 containers"):
        take(tmp_path, containers=4)
    take(tmp_path, containers=3).release()


def test_a_file_is_no_directory_and_stays_as_it_is(tmp_path):
    (tmp_path / "data").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="is a file"):
        take(tmp_path / "data")
    assert (tmp_path / "data").read_text() == "mine"


def test_data_in_memory_have_no_directory(tmp_path):
    taken = take(tmp_path / "data", in_memory=True)
    assert (taken.containers, taken.store.belongs_to_one) == (4, False)
    taken.release()
    assert not (tmp_path / "data").exists()

"""The file of the key: made once, kept, refused if it cannot be one."""

import contextlib
import stat

import pytest

from headrace.errors import InvalidArgumentError
from headrace.runtime.entropy import SeededEntropy, SystemEntropy
from headrace.runtime.filesystem import OsFilesystem
from headrace.security.permission import Permission
from headrace.security.token_key import keep_token_key, load_token_key, make_token_key
from headrace.security.tokens import issue, read
from headrace.testing.crash_points import each_power_loss
from headrace.testing.failures import ProcessGoneError
from headrace.testing.filesystem import SimulatedFilesystem

FILES = OsFilesystem()


def test_a_data_directory_keeps_its_key(tmp_path):
    key = keep_token_key(FILES, str(tmp_path), SystemEntropy())
    assert [path.name for path in tmp_path.iterdir()] == ["token.key"]
    assert stat.S_IMODE((tmp_path / "token.key").stat().st_mode) == 0o600
    token = issue(key, {"*": Permission.READ}, 0, 600)
    again = keep_token_key(FILES, str(tmp_path), SystemEntropy())
    assert again == key
    read(again, token)


def test_two_directories_have_different_keys(tmp_path):
    (tmp_path / "other").mkdir()
    entropy = SystemEntropy()
    assert keep_token_key(FILES, str(tmp_path), entropy) != keep_token_key(
        FILES, f"{tmp_path}/other", entropy
    )
    assert make_token_key(entropy) != make_token_key(entropy)


def test_a_start_that_was_killed_while_it_made_the_key_is_repeated(tmp_path):
    (tmp_path / ".token.key").write_bytes(b"abc")
    (tmp_path / ".token.key").chmod(0o644)
    key = keep_token_key(FILES, str(tmp_path), SystemEntropy())
    assert len(key.secret) == 128
    assert [path.name for path in tmp_path.iterdir()] == ["token.key"]
    assert stat.S_IMODE((tmp_path / "token.key").stat().st_mode) == 0o600


def test_a_file_is_taken_without_its_line_end(tmp_path):
    path = tmp_path / "key"
    for written, taken in (
        (b"x" * 32, b"x" * 32),
        (b" " + b"y" * 40 + b"\r\n", b" " + b"y" * 40),
        (b"\xff" * 64, b"\xff" * 64),
    ):
        path.write_bytes(written)
        assert load_token_key(FILES, str(path)).secret == taken


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "too short"),
        (b"s3cret\n", "too short"),
        (b"x" * 31 + b"\n\n\n", "too short"),
        (b"x" * 5000, "more than 4096 bytes"),
    ],
)
def test_a_file_that_is_no_key_is_refused(tmp_path, content, reason):
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(InvalidArgumentError, match=reason) as refused:
        load_token_key(FILES, str(path))
    assert str(path) in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InvalidArgumentError, match="cannot be read") as refused:
            load_token_key(FILES, str(path))
        assert str(path) in str(refused.value)


def test_power_that_is_lost_at_any_moment_leaves_no_half_of_a_key():
    def start(disk):
        files = SimulatedFilesystem(disk)
        with contextlib.suppress(ProcessGoneError):
            files.mkdir("/data")
            files.fsync_directory("/")
            keep_token_key(files, "/data", SeededEntropy(1))

    for point, disk in each_power_loss(start):
        files = SimulatedFilesystem(disk)
        files.mkdir("/data")
        key = keep_token_key(files, "/data", SeededEntropy(2))
        assert len(key.secret) == 128, point
        files.fsync_directory("/")
        disk.lose_power()
        disk.restore_power()
        files = SimulatedFilesystem(disk)
        assert keep_token_key(files, "/data", SeededEntropy(3)) == key, point
        assert files.listdir("/data") == ["token.key"]

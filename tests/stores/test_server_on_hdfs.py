"""A whole server with its chunks in HDFS: kills, and the commands that look at the store afterwards."""

import asyncio

import pytest

from headrace.cli.main import main
from headrace.limits import MIB
from headrace.testing import LocalServer
from tests.integration.test_kill import check_kills

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

EAGER = {
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_BYTES": "65536",
    "HEADRACE_CONTAINER__STORAGE_WRITER__FLUSH_AGE_S": "0.3",
    "HEADRACE_CONTAINER__CHECKPOINT_BYTES": str(MIB),
    "HEADRACE_CONTAINER__STORAGE_CHECKPOINTS__INTERVAL_S": "2",
    "HEADRACE_CONTAINER__STORAGE__ROLLOVER_BYTES": str(MIB),
    "HEADRACE_CACHE_BYTES": str(32 * MIB),
    "HEADRACE_CACHE_SOFT_BYTES": str(16 * MIB),
}
"""Chunks are written often, and read rather than remembered."""


def test_kills_lose_nothing_and_leave_a_store_that_is_whole(tmp_path, hdfs, capsys):
    source = str(hdfs.location("kills"))
    server = LocalServer(tmp_path, "--storage", source, environment=EAGER)
    server.start()
    try:
        asyncio.run(check_kills(server, 5))
        assert server.stop() == 0
    finally:
        server.close()
    # What a killed server left open can be read a minute later, when the name node gives it up.
    check = ["storage", "check", "--data-dir", str(tmp_path / "data"), "--deep"]
    copy = ["storage", "copy", "--from", source, "--to", f"file://{tmp_path}/copy", "--verify"]
    for command in (check, copy):
        while (code := main(command)) in {4, 5}:
            assert "died within the last minute" in capsys.readouterr().err
        assert code == 0
    rebuilt = LocalServer(tmp_path / "rebuilt", environment=EAGER)
    assert main(["storage", "rebuild", "--from", source, "--data-dir", str(rebuilt.directory / "data")]) == 0
    try:
        rebuilt.start()
        capsys.readouterr()
        assert main(["event", "read", "kill/stream", "--uri", rebuilt.uri, "--count", "1000"]) == 0
        assert len(capsys.readouterr().out.splitlines()) == 1000
        assert rebuilt.stop() == 0
    finally:
        rebuilt.close()

"""The fixtures that users of Headrace get: tried in a run of pytest of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = "headrace.testing.pytest_plugin"

USERS_CONFTEST = """
import pytest

@pytest.fixture(scope="session")
def headrace_arguments():
    return ("--in-memory",)
"""

USERS_TESTS = """
import sys

import pytest

@pytest.mark.parametrize("event", ["a b/c", "ü"])
def test_events_are_in_a_scope_of_their_own(headrace_client, headrace_scope, event):
    name = f"{headrace_scope}/orders"
    assert headrace_client.create_stream(name) is True
    headrace_client.write(name, event)
    assert [each.data.decode() for each in headrace_client.read(name)] == [event]

def test_the_server_is_one(headrace_server):
    assert headrace_server.starts == 1
    print(f"pid={headrace_server.addresses['pid']}=")
"""

OTHER_TESTS = """
import sys

def test_nothing_is_imported_that_is_not_used():
    assert "headrace.testing.pytest_plugin" in sys.modules
    loaded = [name for name in sys.modules if name.startswith("headrace")]
    assert sorted(loaded) == ["headrace", "headrace.testing", "headrace.testing.pytest_plugin"]
"""


def run(directory, *arguments):
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", "-s", *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.slow
@pytest.mark.cluster
def test_tests_of_users_get_a_server_a_client_and_a_scope(tmp_path):
    (tmp_path / "conftest.py").write_text(USERS_CONFTEST)
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    done = run(tmp_path)
    assert "3 passed" in done.stdout, done.stdout + done.stderr
    pid = done.stdout.partition("pid=")[2].partition("=")[0]
    assert pid
    assert not Path(f"/proc/{pid}").exists()


@pytest.mark.cluster
def test_other_tests_do_not_pay_for_it(tmp_path):
    (tmp_path / "test_others.py").write_text(OTHER_TESTS)
    done = run(tmp_path)
    assert "1 passed" in done.stdout, done.stdout + done.stderr

"""What ``headrace demo --keep`` prints works as it is printed."""

import shlex
import subprocess
import sys

import pytest

from headrace.cli.main import main
from headrace.client import blocking
from headrace.demo.exploration import commands, headrace_command
from headrace.demo.ingest import DELAYS, FLIGHTS, SCOPE
from headrace.testing import LocalServer
from tests.effort import soak

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def shell(line):
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=True).stdout


def test_every_command_works_as_it_is_printed(tmp_path, capfd, monkeypatch):
    headrace = headrace_command()
    assert shell(f"{headrace} --version").startswith("headrace ")
    with LocalServer(tmp_path, "--in-memory") as server:
        with blocking.connect(server.uri) as client:
            client.create_scope(SCOPE)
            for stream in (FLIGHTS, DELAYS):
                client.create_stream(SCOPE, stream)
                with client.event_writer(SCOPE, stream) as writer:
                    for number in range(20):
                        writer.write(b"%d" % number, "key")
        first, *lines, stop = commands(headrace, server.uri, server.rest_url, server.addresses["pid"])
        monkeypatch.setenv("HEADRACE_URI", shell(f"{first}; printf %s $HEADRACE_URI"))
        answers = []
        for line in lines:
            assert line.startswith(f"{headrace} ")
            assert main(shlex.split(line.removeprefix(headrace))) == 0, (
                line
            )  # a process for each takes a second
            sys.stdout.flush()
            answers.append(capfd.readouterr().out)
        assert f"{SCOPE}/{FLIGHTS}" in answers[0]
        assert answers[2].split() == ["0", "1", "2", "3", "4"]
        assert answers[3].split() == ["15", "16", "17", "18", "19"]
        shell(stop)
        assert server.process.wait(60) == 0


@soak
def test_the_demo_runs_against_a_cluster_and_leaves_no_process(tmp_path):
    words = [sys.executable, "-m", "headrace", "demo", "--cluster", "--directory", str(tmp_path / "out")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "start a cluster" in done.stdout
    assert "All totals agree: 336,776 flights, each exactly once" in " ".join(done.stdout.split())
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in processes
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"delays.png", "delays.parquet"}

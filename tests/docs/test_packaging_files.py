"""The unit of systemd and the image run a command that exists, and the page about deployment shows them."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing import LocalServer

ROOT = Path(__file__).parents[2]
UNIT = (ROOT / "packaging" / "headrace.service").read_text()
IMAGE = (ROOT / "packaging" / "Containerfile").read_text()


def options_of(line):
    """The options of a server's command line, but for the files of the machine that it names."""
    words = line.split("standalone", 1)[1].split("\n", 1)[0].split()
    return [
        word
        for before, word in zip(["", *words], words, strict=False)
        if not {before, word} & {"--config", "--ready-file"}
    ]


@pytest.mark.cluster
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd")
def test_the_unit_is_one_that_systemd_takes(tmp_path):
    command = shutil.which("true")
    unit = tmp_path / "headrace.service"
    unit.write_text(UNIT.replace("/opt/headrace/bin/headrace", command).replace("User=headrace", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "headrace.service" not in done.stderr


def test_the_unit_does_not_repeat_what_no_restart_cures():
    assert "RestartPreventExitStatus=2 3 6" in UNIT
    assert int(re.search(r"TimeoutStopSec=(\d+)", UNIT)[1]) > 20  # flushes, then ends of logs


@pytest.mark.slow
@pytest.mark.cluster
def test_the_image_starts_a_server_that_its_own_probe_finds_well(tmp_path):
    command = json.loads(re.search(r"^CMD (\[.*\])$", IMAGE, re.MULTILINE)[1])
    probe = json.loads(re.search(r"^HEALTHCHECK .* CMD (\[.*\])$", IMAGE, re.MULTILINE)[1])
    variables = dict(word.split("=") for word in re.search(r"^ENV (.*)$", IMAGE, re.MULTILINE)[1].split())
    assert (variables.pop("HEADRACE_DATA_DIR"), variables["HEADRACE_ADVERTISE"]) == ("/data", "localhost")
    variables["HEADRACE_ADVERTISE"] = (
        "127.0.0.2"  # as one gives it in a cluster: the image must not overrule it
    )
    assert options_of(UNIT) == []
    with LocalServer(tmp_path, *options_of(" ".join(command)), environment=variables) as server:
        assert server.addresses["controller"].startswith("127.0.0.2:")
        program = probe[2].replace("127.0.0.1:10080", "127.0.0.1:" + server.addresses["rest"].split(":")[1])
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert server.stop() == 0
    assert {"9090", "12345", "10080"} == set(re.search(r"^EXPOSE (.*)$", IMAGE, re.MULTILINE)[1].split())

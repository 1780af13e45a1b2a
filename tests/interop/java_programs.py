"""Runs programs on the real Java client, unpatched.

They need ``java`` (17) and the jars of the client with what it depends on, in the folder that
``JAVA_CLIENT_JARS`` names: for instance those of ``io.pravega:pravega-client:0.13.0``, brought there by
``mvn dependency:copy-dependencies``. Without them the tests are skipped.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_JARS = os.environ.get("JAVA_CLIENT_JARS", "")
_PROGRAMS = Path(__file__).parent / "java"
_OPENED = ("java.base/java.lang", "java.base/sun.nio.ch", "java.base/java.nio")

HAS_JAVA_CLIENT = bool(_JARS) and shutil.which("java") is not None

needs_java_client = pytest.mark.skipif(not HAS_JAVA_CLIENT, reason="no Java client is given")


def command_of(name, *arguments):
    """Return the command that runs the program of this name."""
    opened = [f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED]
    logs = f"-Dlogback.configurationFile={_PROGRAMS / 'logback.xml'}"
    return ["java", *opened, logs, "-cp", f"{_JARS}/*", str(_PROGRAMS / f"{name}.java"), *arguments]


def run_program(name, *arguments, timeout_s=180):
    """Return what the program of this name prints, a list of words for each line."""
    command = command_of(name, *arguments)
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return [line.split() for line in done.stdout.splitlines()]

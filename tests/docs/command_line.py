"""Command lines of pages, as a shell has them in a directory of a test."""

import os
import shlex
import subprocess
import sys

from headrace.testing.local_server import HEADRACE
from tests import programs

OF_SHELLS = frozenset("|&;<>$`(){}*")
"""A line with none of these needs no shell."""


def make_command(directory):
    """Put the command into ``bin`` of a directory; return the environment that finds it there."""
    command = directory / "bin" / "headrace"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace.cli.main "$@"\n')
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}"}


def run_line(directory, line):
    """Run a line in a directory that has the command; return what has ended."""
    options = {"cwd": directory, "capture_output": True, "text": True, "timeout": 120}
    words = shlex.split(line, comments=True)
    if words[0] == "headrace" and OF_SHELLS.isdisjoint(line):
        return programs.run([*HEADRACE, *words[1:]], **options)
    environment = {**os.environ, "PATH": f"{directory / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(line, shell=True, check=False, env=environment, **options)

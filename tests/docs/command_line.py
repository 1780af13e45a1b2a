"""Command lines of pages, as a shell has them in a directory of a test."""

import os
import shlex
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from itertools import groupby

from headrace.testing.local_server import HEADRACE
from tests import programs

LONG_S = 120
OF_SHELLS = frozenset("|&;<>$`(){}*")
"""A line with none of these needs no shell."""


def make_command(directory):
    """Put the command into ``bin`` of a directory; return the environment that finds it there."""
    command = directory / "bin" / "headrace"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m headrace.cli.main "$@"\n')
    command.chmod(0o755)
    path = f"{command.parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "XDG_CONFIG_HOME": str(directory / "config")}


def run_pipeline(line, **options):
    """Run a line that is commands with nothing but pipes between them, ours forked like those of other tests.

    Return what has ended last, with what all have said; None if the line is more than that.
    """
    if not set(line) & OF_SHELLS <= {"|"}:
        return None
    words = shlex.split(line.replace("|", " | "), comments=True)
    parts = [list(part) for is_bar, part in groupby(words, "|".__eq__) if not is_bar]
    source = None
    with tempfile.TemporaryFile() as said, ExitStack() as running:
        for part in parts:
            is_ours = part[0] == "headrace"
            start = programs.Popen if is_ours else subprocess.Popen
            command = [*HEADRACE, *part[1:]] if is_ours else part
            process = start(command, stdin=source, stdout=subprocess.PIPE, stderr=said, **options)
            running.callback(process.wait)
            if source is not None:
                source.close()
            source = process.stdout
        out, _ = process.communicate(timeout=LONG_S)
        said.seek(0)
        return subprocess.CompletedProcess(line, process.returncode, out.decode(), said.read().decode())


def run_line(directory, line):
    """Run a line in a directory that has the command; return what has ended."""
    options = {"cwd": directory, "capture_output": True, "text": True, "timeout": LONG_S}
    words = shlex.split(line, comments=True)
    if words[0] == "headrace" and OF_SHELLS.isdisjoint(line):
        return programs.run([*HEADRACE, *words[1:]], **options)
    environment = {**os.environ, "PATH": f"{directory / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(line, shell=True, check=False, env=environment, **options)

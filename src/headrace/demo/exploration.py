"""What the demo prints if its server is left running: commands that work as they stand in the shell that
started it.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from shlex import quote

from headrace.demo.ingest import DELAYS, FLIGHTS, SCOPE


def headrace_command() -> str:
    """Return what starts the command line in the shell that started this process."""
    beside = Path(sys.executable).with_name("headrace")
    found = shutil.which("headrace")
    if found is not None and os.path.realpath(found) == os.path.realpath(beside):
        return "headrace"
    if beside.exists():
        return quote(str(near(beside)))
    return f"{quote(sys.executable)} -m headrace.cli.main"


def near(path: Path) -> Path:
    """Return the path as a person would type it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path


def commands(headrace: str, uri: str, rest: str, pid: int) -> list[str]:
    """Return lines for a shell, in this order or some of them behind the first; the last stops the server."""
    flights, delays = f"{SCOPE}/{FLIGHTS}", f"{SCOPE}/{DELAYS}"
    return [
        f"export HEADRACE_URI={quote(uri)}",
        f"{headrace} stream list {SCOPE}",
        f"{headrace} stream describe {flights}",
        f"{headrace} event read {flights} --limit 5",
        f"{headrace} event read {delays} --last 5",
        f"{headrace} inspect cache --rest {quote(rest)}",
        f"kill {pid}",
    ]

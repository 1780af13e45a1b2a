"""Tells whoever started the server where it listens, once it can be used, in one atomic step."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_ready_file(path: str, addresses: dict[str, str]) -> None:
    """Write ``addresses`` and the process id as JSON; a reader sees all of it or no file."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    temporary.write_text(json.dumps({**addresses, "pid": os.getpid()}) + "\n")
    temporary.replace(target)


def remove_ready_file(path: str) -> None:
    """Take the promise back. A missing file is fine."""
    Path(path).unlink(missing_ok=True)

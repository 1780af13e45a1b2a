"""What the generators of pages share: a page is written, or with ``--check`` only compared."""

from __future__ import annotations

import sys
from pathlib import Path


def write_or_check(path: Path, text: str) -> int:
    """Write the page; return the exit code, which is 1 if ``--check`` finds another text."""
    if "--check" in sys.argv:
        return 0 if path.exists() and path.read_text() == text else 1
    path.write_text(text)
    return 0

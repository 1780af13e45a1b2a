"""In which line of a settings file a setting is. Pure."""

from __future__ import annotations

import re
from typing import Final

_SECTION: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]\s*(#.*)?$")
_KEY: Final = re.compile(r"\s*([A-Za-z0-9_.\"' -]+?)\s*=")


def find_lines(text: str) -> dict[str, int]:
    """Return the line, from 1, of each setting and section in TOML that people write: a setting a line.

    What is written otherwise, as in a table within a line, is not found.
    """
    found: dict[str, int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if (match := _SECTION.match(line)) is not None:
            section = _plain(match[1]) + "."
            found.setdefault(section.rstrip("."), number)
        elif (match := _KEY.match(line)) is not None:
            found.setdefault(section + _plain(match[1]), number)
    return found


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))

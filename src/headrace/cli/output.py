"""Answers on stdout: JSON for programs, aligned columns for people; nothing else is ever written there."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence


def print_json(value: object) -> None:
    """Print one JSON value on one line."""
    sys.stdout.write(json.dumps(value) + "\n")


def print_line(text: str) -> None:
    sys.stdout.write(text + "\n")


def print_columns(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows under their titles; numbers are aligned right, everything else left."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[n], int | float) for row in rows) for n in range(len(titles))]
    for line in [list(titles), *cells]:
        aligned = [
            text.rjust(width) if to_right else text.ljust(width)
            for text, width, to_right in zip(line, widths, right, strict=True)
        ]
        print_line("  ".join(aligned).rstrip())


def print_fields(fields: Sequence[tuple[str, object]]) -> None:
    """Print names with their values, one a line."""
    names = [printable(name) for name, _ in fields]
    width = max(map(len, names))
    for name, (_, value) in zip(names, fields, strict=True):
        print_line(f"{name.ljust(width)}  {_cell(value)}".rstrip())


def progress(text: str) -> None:
    """Report progress on stderr."""
    print(text, file=sys.stderr)


def finished(text: str) -> None:
    """Say what a verb has done to a person at a terminal; in scripts its exit code says it."""
    if sys.stderr.isatty():
        progress(printable(text))


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless there is one: ``3 events``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def printable(text: str) -> str:
    """Return what a client, a peer or a file name has put into an answer as it can be shown.

    It must neither steer a terminal nor look like a line of its own.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return "-" if value is None else printable(str(value))

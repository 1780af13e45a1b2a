"""Tables of any length in bounded memory: rows are aligned a batch at a time, columns never get narrower."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headrace.cli.output import print_line, printable

_BATCH_ROWS: Final = 200


class StreamedColumns:
    """Add rows, then close. Numbers are aligned right; the titles come with the first batch."""

    def __init__(self, titles: Sequence[str]) -> None:
        self._titles = list(titles)
        self._widths = [len(title) for title in titles]
        self._right = [False] * len(self._titles)
        self._rows: list[list[str]] = []
        self._begun = False

    def add(self, *cells: object) -> None:
        """Add a row; None is shown as a dash."""
        if not self._begun and not self._rows:
            self._right = [isinstance(cell, int) and not isinstance(cell, bool) for cell in cells]
        self._rows.append(["-" if cell is None else printable(str(cell)) for cell in cells])
        if len(self._rows) >= _BATCH_ROWS:
            self._flush()

    def close(self) -> None:
        """Print what is left; an empty table is its titles."""
        if self._rows or not self._begun:
            self._flush()

    def _flush(self) -> None:
        lines = self._rows if self._begun else [self._titles, *self._rows]
        for row in self._rows:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=True)]
        for line in lines:
            aligned = [
                cell.rjust(width) if right else cell.ljust(width)
                for cell, width, right in zip(line, self._widths, self._right, strict=True)
            ]
            print_line("  ".join(aligned).rstrip())
        self._rows.clear()
        self._begun = True

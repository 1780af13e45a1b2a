"""Says on a terminal that a server which is read is away, and that it is back."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.cli.output import printable, progress
from headrace.runtime import logs


class _ServerWatch(logging.Handler):
    """Takes the lines of the parts that read segments, of which there may be many."""

    def __init__(self, away: str, back: str) -> None:
        super().__init__(logging.INFO)
        self._away = away
        self._back = back
        self._is_away = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.msg == self._away and not self._is_away:
            self._is_away = True
            progress(printable(f"the server is away, waiting for it: {logs.context_of(record).get('error')}"))
        elif record.msg == self._back and self._is_away:
            self._is_away = False
            progress("the server is back")
        elif record.levelno >= logging.WARNING:
            progress(printable(record.getMessage()))


@contextmanager
def server_watched() -> Iterator[None]:
    """Say so until the block ends, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from headrace.client.reader import segment_input

    source = logging.getLogger(segment_input.__name__)
    handler, level = _ServerWatch(segment_input.AWAY, segment_input.BACK), source.level
    source.addHandler(handler)
    source.setLevel(logging.INFO)
    try:
        yield
    finally:
        source.removeHandler(handler)
        source.setLevel(level)

r"""Log lines for people or for machines, to stderr, with ``key=value`` context that a component binds once.

    log = logs.logger(__name__).bind(container=3)
    log.info("recovered", operations=1_000_000, seconds=1.9)

    2026-01-02T03:04:05.678Z INFO  headrace.segmentstore.container  recovered  container=3
    operations=1000000 ... {"time": "2026-01-02T03:04:05.678Z", "level": "info", "logger": "...", "message":
    "recovered", "container": 3}

The names ``msg``, ``level``, ``args`` and those of logging itself (``exc_info``, ``extra``, ...) are no
context keys. Nothing a peer sends can forge a line: line breaks and other control characters are written as
escapes.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import UnsupportedOperation
from typing import Any, Final, Literal, TextIO

from headrace.runtime.log_lines import LogLines

LogFormat = Literal["human", "json"]

_FLUSH_S: Final = 1.0
"""How long the end of a process waits until its last lines are written."""

_CONTEXT: Final = "headrace_context"
_LOGGING_ARGUMENTS: Final = frozenset({"exc_info", "stack_info", "stacklevel", "extra"})
_RESERVED: Final = frozenset({"time", "level", "logger", "message", "error"})


class ContextLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose lines carry bound and given ``key=value`` pairs."""

    def __init__(self, target: logging.Logger, context: Mapping[str, object]) -> None:
        super().__init__(target, dict(context))
        self.context = dict(context)

    def bind(self, **context: object) -> ContextLogger:
        """Return a logger that adds these pairs to every line."""
        return ContextLogger(self.logger, {**self.context, **context})

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        passed = {key: value for key, value in kwargs.items() if key in _LOGGING_ARGUMENTS}
        given = {key: value for key, value in kwargs.items() if key not in _LOGGING_ARGUMENTS}
        passed["extra"] = {**(kwargs.get("extra") or {}), _CONTEXT: {**self.context, **given}}
        return msg, passed


def logger(name: str, **context: object) -> ContextLogger:
    """Return the logger of a module with optional bound context."""
    return ContextLogger(logging.getLogger(name), context)


def configure(
    *, level: str = "INFO", log_format: LogFormat = "human", stream: TextIO | None = None
) -> logging.Handler:
    """Send the lines of this package to ``stream`` and return the handler. Replaces an earlier call.

    Without one they go to stderr, on a thread of their own: a stalled reader must not stall a server.
    Only the ``headrace`` logger is touched: a program that embeds this package keeps its own set-up.
    """
    handler = _stderr_handler() if stream is None else logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter() if log_format == "json" else HumanFormatter())
    root = logging.getLogger("headrace")
    for old in list(root.handlers):
        root.removeHandler(old)
        if isinstance(old, _ThreadHandler):  # other handlers may be used elsewhere
            old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
    root.propagate = False
    return handler


@contextmanager
def shown(*, level: str, log_format: LogFormat = "human") -> Iterator[None]:
    """Send the lines to stderr as :func:`configure` does until the block ends. Waits for the last."""
    root = logging.getLogger("headrace")
    former_level, former_propagate = root.level, root.propagate
    handler = configure(level=level, log_format=log_format)
    try:
        yield
    finally:
        handler.flush()
        root.removeHandler(handler)
        handler.close()
        root.propagate = former_propagate
        root.setLevel(former_level)


def _stderr_handler() -> logging.Handler:
    try:
        return _ThreadHandler(sys.stderr.fileno())
    except UnsupportedOperation:  # an embedding program has replaced it
        return logging.StreamHandler()


class _ThreadHandler(logging.Handler):
    """Hands lines over to :class:`LogLines`."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._lines = LogLines(descriptor, self._format_lost)
        self._flush_timeout_s = _FLUSH_S

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.put(self._encode(record))
        except Exception:  # noqa: BLE001 - logging must not fail its caller
            self.handleError(record)

    def flush(self) -> None:
        if not self._lines.flush(self._flush_timeout_s):
            self._flush_timeout_s = 0.0  # the end of a process flushes more than once

    def close(self) -> None:
        self._lines.close()
        super().close()

    def _encode(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def _format_lost(self, count: int) -> bytes:
        text = "%d log lines were lost: their reader stalled"
        return self._encode(
            logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (count,), exc_info=None)
        )


class HumanFormatter(logging.Formatter):
    """One line per record, then the traceback if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        pairs = " ".join(f"{key}={_quoted(value)}" for key, value in context_of(record).items())
        line = f"{_time_of(record)} {record.levelname:<7} {record.name}  {_escaped(record.getMessage())}"
        if pairs:
            line += f"  {pairs}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            line += "\n" + self.formatStack(record.stack_info)
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object per line; a context key that collides with ours gets a trailing underscore."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for key, value in context_of(record).items():
            line[f"{key}_" if key in _RESERVED else key] = value
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=_plain)


def context_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the pairs of a line."""
    context: dict[str, object] = getattr(record, _CONTEXT, {})
    return context


def _time_of(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}Z"


def _plain(value: object) -> str:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    return str(value)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def _quoted(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = _plain(value)
    if text and text.isprintable() and not any(c in ' "=' for c in text):
        return text
    return json.dumps(text)

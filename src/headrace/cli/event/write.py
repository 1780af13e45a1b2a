"""What ``headrace event write`` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from headrace.cli.event.given_events import (
    GivenEvent,
    Parse,
    field_keyed_events,
    json_events,
    key_of,
    keyed_events,
    plain_events,
)
from headrace.cli.event.tables import TABLE_FORMATS, check_table_libraries, given_rows
from headrace.cli.output import counted, finished, print_json, printable, progress
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingWriter

LINE_BYTES_MAX: Final = 64 * MIB
"""As JSON the largest event takes up to six times its bytes."""

_REFUSALS_SHOWN: Final = 10
_STDIN: Final = "-"


@dataclass(slots=True)
class _Tally:
    """What became of the events that were given."""

    read_bytes: int = 0
    """Of the lines so far."""
    events: int = 0
    size_bytes: int = 0
    empty: int = 0
    refused: int = 0


def write_events(
    *,
    stream: str,
    events: Sequence[str],
    key: str | None,
    key_separator: str | None,
    key_field: str | None,
    file: str,
    input_format: str,
    atomic: bool,
    on_error: str,
    connection: Connection,
    as_json: bool,
) -> None:
    """Write what was given; ``input_format`` is ``lines``, ``json``, ``csv`` or ``parquet``.

    ``on_error`` is ``stop`` or ``skip``. ``file`` has the lines, unless ``events`` were given; "-" is
    standard input.
    """
    scope, stream = scoped(stream)
    if events and file != _STDIN:
        raise InvalidArgumentError("events are given as words or as lines of --file, not both")
    tally = _Tally()
    is_table = input_format in TABLE_FORMATS
    if is_table:
        check_table_libraries(input_format)
        if events or key_separator is not None or on_error == "skip":
            raise InvalidArgumentError(
                f"--input {input_format} is a file: without words, --key-separator and --on-error skip"
            )
    parse = _parser_of(key, key_separator, key_field, is_json=input_format == "json")
    with _opened(file) as (lines, size):
        if is_table:
            of_all = None if key is None else key_of(os.fsencode(key))
            rows = given_rows(file, lines, input_format, key_field, of_all)
            usable, size = _with_outcome(rows, tally, atomic=atomic), 0
        else:
            usable = _usable_events(events, lines, parse, tally, skips=on_error == "skip", atomic=atomic)
        if events:
            usable = iter(list(usable))  # one that is no event is refused before any other is written
        quiet = as_json or bool(events) or (not size and sys.stdin.isatty())
        with connection.connect() as client, _progress(size, quiet=quiet) as shown:
            if atomic:
                with client.txn_writer(scope, stream) as transactions, transactions.begin() as transaction:
                    _write_all(transaction, usable, tally, shown, by_bytes=bool(size))
                    transaction.commit(wait=True)
            else:
                with client.event_writer(scope, stream) as writer:
                    _write_all(writer, usable, tally, shown, by_bytes=bool(size))
    if tally.empty:
        progress(f"{tally.empty} empty event{'s were' if tally.empty > 1 else ' was'} left out")
    if tally.refused > _REFUSALS_SHOWN:
        progress(f"{tally.refused} were left out in all")
    if as_json:
        print_json(
            {
                "scope": scope,
                "stream": stream,
                "events": tally.events,
                "bytes": tally.size_bytes,
                "skipped": tally.empty,
                "refused": tally.refused,
            }
        )
    else:
        finished(f"{counted(tally.events, 'event')} written to {scope}/{stream}")


@contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, int]]:
    """Yield lines, and how many bytes they are; 0: that is not known."""
    if file == _STDIN:
        yield sys.stdin.buffer, 0
        return
    try:
        lines = Path(file).open("rb")  # noqa: SIM115 - closed below
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise InvalidArgumentError(f"cannot read events: {error}") from None
    with lines:
        yield lines, os.fstat(lines.fileno()).st_size


def _progress(size: int, *, quiet: bool) -> Progress:
    return Progress("writing", "B" if size else "events", size or None, quiet=quiet)


def _parser_of(key: str | None, key_separator: str | None, key_field: str | None, *, is_json: bool) -> Parse:
    """Return what makes events of texts. The options hold what the shell passed, byte for byte."""
    if key_field is not None:
        if is_json:
            raise InvalidArgumentError("--key-field is for --input lines; with json an event has a 'key'")
        return field_keyed_events(key_field)
    if key_separator is not None:
        if is_json:
            raise InvalidArgumentError("--key-separator is for --input lines; in JSON an event has a 'key'")
        return keyed_events(os.fsencode(key_separator))
    of_all = None if key is None else key_of(os.fsencode(key))
    return json_events(of_all) if is_json else plain_events(of_all)


def _write_all(
    writer: BlockingWriter, events: Iterator[GivenEvent], tally: _Tally, shown: Progress, *, by_bytes: bool
) -> None:
    for event in events:
        writer.write(event.data, event.key, time=event.time_ms, headers=event.headers)
        tally.events += 1
        tally.size_bytes += len(event.data)
        shown.show(tally.read_bytes if by_bytes else tally.events)


def _usable_events(
    given: Sequence[str], lines: BinaryIO, parse: Parse, tally: _Tally, *, skips: bool, atomic: bool
) -> Iterator[GivenEvent]:
    """Yield what can be written; the caller counts it in ``tally`` before it asks for the next.

    Raises:
        InvalidArgumentError: a text is no event, and ``--on-error`` does not say that it is left out.
    """
    what = "event" if given else "line"
    texts = map(os.fsencode, given) if given else _lines_of(lines)
    for number, text in enumerate(texts, 1):
        tally.read_bytes += 0 if text is None else len(text) + 1
        try:
            if text is None:
                raise InvalidArgumentError(f"is longer than {LINE_BYTES_MAX} bytes")
            event = parse(text)
        except InvalidArgumentError as error:
            reason = f"{what} {number} {error}"
            if not skips:
                written = 0 if atomic or given else tally.events
                raise InvalidArgumentError(f"{reason}: {_outcome(written)}") from None
            tally.refused += 1
            if tally.refused <= _REFUSALS_SHOWN:
                progress(printable(f"left out: {reason}"))
            continue
        if not event.is_nothing:
            yield event
        else:
            tally.empty += 1  # the protocol has no empty events


def _with_outcome(rows: Iterator[GivenEvent], tally: _Tally, *, atomic: bool) -> Iterator[GivenEvent]:
    """Yield rows; an error says what was written in front of it."""
    try:
        yield from rows
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{error}: {_outcome(0 if atomic else tally.events)}") from None


def _outcome(written: int) -> str:
    if not written:
        return "nothing was written"
    events = "1 event was" if written == 1 else f"{written} events were"
    return f"{events} written before; --atomic writes all or none, --on-error skip leaves such lines out"


def _lines_of(source: BinaryIO) -> Iterator[bytes | None]:
    """Yield lines without their ends; None: one is too long."""
    while line := source.readline(LINE_BYTES_MAX + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= LINE_BYTES_MAX:
            yield line  # the last one, without an end
        else:
            yield None
            while line and not line.endswith(b"\n"):
                line = source.readline(MIB)

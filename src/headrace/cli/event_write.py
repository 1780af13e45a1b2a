"""What ``headrace event write`` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from headrace.cli.given_events import (
    GivenEvent,
    Parse,
    json_events,
    key_of,
    keyed_events,
    plain_events,
)
from headrace.cli.output import print_json, printable, progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.blocking import BlockingWriter

LINE_BYTES_MAX: Final = 64 * MIB
"""Of standard input: as JSON the largest event takes up to six times its bytes."""

_REFUSALS_SHOWN: Final = 10


@dataclass(slots=True)
class _Tally:
    """What became of the events that were given."""

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
    input_format: str,
    atomic: bool,
    on_error: str,
    connection: Connection,
    as_json: bool,
) -> None:
    """Write what was given; ``input_format`` is ``lines`` or ``json``, ``on_error`` ``stop`` or ``skip``."""
    scope, stream = scoped(stream)
    tally = _Tally()
    parse = _parser_of(key, key_separator, is_json=input_format == "json")
    usable = _usable_events(events, parse, tally, skips=on_error == "skip", atomic=atomic)
    if events:
        usable = iter(list(usable))  # one that is no event is refused before any other is written
    with connection.connect() as client:
        if atomic:
            with client.txn_writer(scope, stream) as transactions, transactions.begin() as transaction:
                _write_all(transaction, usable, tally)
                transaction.commit(wait=True)
        else:
            with client.event_writer(scope, stream) as writer:
                _write_all(writer, usable, tally)
    if tally.empty:
        progress(f"{tally.empty} empty events were left out")
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


def _parser_of(key: str | None, key_separator: str | None, *, is_json: bool) -> Parse:
    """Return what makes events of texts. The options hold what the shell passed, byte for byte."""
    if key_separator is not None:
        if is_json:
            raise InvalidArgumentError("--key-separator is for --input lines; in JSON an event has a 'key'")
        return keyed_events(os.fsencode(key_separator))
    of_all = None if key is None else key_of(os.fsencode(key))
    return json_events(of_all) if is_json else plain_events(of_all)


def _write_all(writer: BlockingWriter, events: Iterator[GivenEvent], tally: _Tally) -> None:
    for event in events:
        writer.write(event.data, event.key)
        tally.events += 1
        tally.size_bytes += len(event.data)


def _usable_events(
    given: Sequence[str], parse: Parse, tally: _Tally, *, skips: bool, atomic: bool
) -> Iterator[GivenEvent]:
    """Yield what can be written; the caller counts it in ``tally`` before it asks for the next.

    Raises:
        InvalidArgumentError: a text is no event, and ``--on-error`` does not say that it is left out.
    """
    what = "event" if given else "line"
    for number, text in enumerate(_texts(given), 1):
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
        if event.data:
            yield event
        else:
            tally.empty += 1  # the protocol has no empty events


def _outcome(written: int) -> str:
    if not written:
        return "nothing was written"
    events = "1 event was" if written == 1 else f"{written} events were"
    return f"{events} written before; --atomic writes all or none, --on-error skip leaves such lines out"


def _texts(given: Sequence[str]) -> Iterator[bytes | None]:
    """Yield the arguments, or the lines of standard input without their ends; None: one is too long."""
    if given:
        yield from map(os.fsencode, given)
        return
    source = sys.stdin.buffer
    while line := source.readline(LINE_BYTES_MAX + 1):
        if line.endswith(b"\n"):
            yield line[:-1]
        elif len(line) <= LINE_BYTES_MAX:
            yield line  # the last one, without an end
        else:
            yield None
            while line and not line.endswith(b"\n"):
                line = source.readline(MIB)

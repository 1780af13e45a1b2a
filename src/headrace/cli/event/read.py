"""What ``headrace event read`` does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from headrace.cli.event.format import format_of, time_text
from headrace.cli.event.given_events import event_document, record_document
from headrace.cli.event.server_watch import server_watched
from headrace.cli.output import progress
from headrace.cli.progress import Progress
from headrace.cli.servers import Connection, scoped
from headrace.errors import AnswerTooLargeError, InvalidArgumentError
from headrace.limits import MIB
from headrace.model.records import has_records
from headrace.model.segment_id import segment_id_text

if TYPE_CHECKING:  # the connection imports the client when it is made
    from headrace.client.reader.event_batch import Event

    Print = Callable[[Event], None]

_JSON_WORDS: Final = {"json", "jsonl", "ndjson"}
_LAST_BYTES_MAX: Final = 256 * MIB
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def read_events(
    *,
    stream: str,
    start: str,
    since: str | None,
    last: int | None,
    end: str,
    until: str | None,
    follow: bool,
    group: str | None,
    limit: int | None,
    template: str | None,
    on_error: str,
    table_format: str | None,
    position: bool,
    connection: Connection,
    as_json: bool,
) -> None:
    """Print events; ``start`` and ``end`` are ``head``, ``tail`` or cuts, ``since`` and ``until`` are times.

    ``last``: so many events in front of the tail. ``group``: as one of its readers. ``template``: how an
    event is printed. ``on_error``: ``stop`` or ``skip``. ``table_format``: all at once, as such a file.
    """
    scope, stream = scoped(stream)
    if limit is not None and limit < 1:
        raise InvalidArgumentError(f"at least 1 event has to be read, not {limit}")
    if template is not None and template.strip().lower() in _JSON_WORDS:
        raise InvalidArgumentError(
            f"--format {template} would print this word for each event: --json prints them as JSON"
        )
    if template is not None and as_json:
        raise InvalidArgumentError("--format and --json exclude each other")
    if last is not None and (end != "tail" or until is not None):
        given = "--to" if until is None else "--until"
        raise InvalidArgumentError(f"--last is about the tail: with {given}, give --limit instead")
    print_event = _print_document if as_json else _printer_of(template)
    quiet = as_json or sys.stdout.isatty()
    wanted: Literal["raise", "skip"] = "skip" if on_error == "skip" else "raise"
    if group is not None:
        place = start if since is None else since
        with (
            connection.connect() as client,
            client.reader_group(f"{scope}/{stream}", group=group, start=place) as opened,
            opened.reader(on_error=wanted) as member,
            server_watched(),
        ):
            _print_all(member, limit, print_event, quiet=quiet, at_once=True)
            member.handled()  # it is printed
        return
    part: dict[str, Any] = {"since": since, "until": until, "last": last, "limit": limit}
    if table_format is not None:
        if as_json:
            raise InvalidArgumentError("--as and --json exclude each other")
        _print_table(connection, scope, stream, table_format, on_error, start=start, end=end, **part)
        return
    with connection.connect() as client:
        open_reader = partial(client.event_reader, scope, stream, on_error=wanted)
        tags = frozenset[str]() if last is None else client.stream_configuration(scope, stream).tags
        if has_records(f"{scope}/{stream}", tags):
            with open_reader(last=last, end="tail") as reader:
                found = in_order_of_time(reader)[:limit]
                _print_all(found, limit, print_event, quiet=quiet, at_once=follow)
                start = reader.position().as_text()
            if not follow or len(found) == limit:
                if position:
                    progress(start)
                return
            part = {"limit": None if limit is None else limit - len(found)}
        with open_reader(start=start, end=None if follow else end, **part) as reader:
            try:
                with server_watched():
                    _print_all(reader, limit, print_event, quiet=quiet, at_once=follow)
            finally:
                if position:
                    progress(reader.position().as_text())


def _print_table(
    connection: Connection, scope: str, stream: str, form: str, on_error: str, **part: Any
) -> None:
    from headrace.cli.event.tables import check_table_libraries, write_table

    if form == "parquet" and sys.stdout.isatty():
        raise InvalidArgumentError("a Parquet file is no text for a terminal: add > FILE")
    check_table_libraries(form)
    with connection.connect() as client:
        table = client.stream(scope, stream).to_arrow(
            serializer="json", on_error="skip" if on_error == "skip" else "raise", **part
        )
    write_table(table, form, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def in_order_of_time(reader: Iterable[Event]) -> list[Event]:
    """Return the records that a reader reads up to its end; those of one time stay as they are.

    Raises:
        AnswerTooLargeError: they are too many to hold.
    """
    found: list[Event] = []
    size = 0
    for event in reader:
        size += event.end_offset - event.offset
        if size > _LAST_BYTES_MAX:
            raise AnswerTooLargeError(
                size,
                _LAST_BYTES_MAX,
                f"the last records are larger than {_LAST_BYTES_MAX} bytes, which are put into the order of "
                "their times at once: ask for fewer, or read --from a cut",
            )
        found.append(event)
    return sorted(found, key=lambda event: event.time or _NEVER)


def _print_all(
    events: Iterable[Event], limit: int | None, print_event: Print, *, quiet: bool, at_once: bool
) -> None:
    """Print events up to the end. Progress is shown beside what goes into a file."""
    done = 0
    with Progress("reading", "events", limit, quiet=quiet) as shown:
        for event in events:
            print_event(event)
            if at_once:  # when a stream is followed
                sys.stdout.buffer.flush()
            done += 1
            shown.show(done)
            if done == limit:
                break
    sys.stdout.buffer.flush()


def _printer_of(template: str | None) -> Print:
    if template is None:
        return lambda event: _write(event.data + b"\n")
    formatted = format_of(template)
    return lambda event: _write(formatted(event))


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)


def _print_document(event: Event) -> None:
    line = {
        "segment": event.segment_id,
        "segment_text": segment_id_text(event.segment_id),
        "offset": event.offset,
        **event_document(event.data),
    }
    if event.time is not None:
        line |= record_document(time_text(event.time), event.key, event.headers)
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")

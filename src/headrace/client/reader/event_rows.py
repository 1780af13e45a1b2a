"""The first events of a stream as a table for notebooks. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import islice
from typing import Final

from headrace.client.reader.event_batch import Event
from headrace.errors import EventNotDecodedError, EventNotRecordError

ROWS_MAX: Final = 10
_CELL_CHARS_MAX: Final = 120


def html_rows(place: str, events: Iterable[Event]) -> str:
    """Return a table of the first events, at most ``ROWS_MAX``; a next one is only said to be there."""
    shown = list(islice(events, ROWS_MAX + 1))
    names = ["value", "segment", "offset"]
    if any(event.time is not None for event in shown):
        names[1:1] = ["time", "key", "headers"]
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(
        f"<tr>{''.join(f'<td>{_cell(_text(event, name))}</td>' for name in names)}</tr>"
        for event in shown[:ROWS_MAX]
    )
    which = "all events" if shown else "no events"
    if len(shown) > ROWS_MAX:
        which = f"first {ROWS_MAX} events"
    return f"<table><caption>{escape(place)}: {which}</caption><tr>{head}</tr>{rows}</table>"


def _text(event: Event, name: str) -> str:
    if name == "segment":
        return str(event.segment_id)
    if name == "offset":
        return str(event.offset)
    if name == "time":
        return "" if event.time is None else event.time.isoformat(timespec="milliseconds")
    if name == "key":
        return "" if event.key is None else event.key.decode(errors="backslashreplace")
    try:
        value = event.headers if name == "headers" else event.value
    except (EventNotDecodedError, EventNotRecordError):
        value = event.data
    return repr(value) if value or name == "value" else ""


def _cell(text: str) -> str:
    return escape(text if len(text) <= _CELL_CHARS_MAX else f"{text[: _CELL_CHARS_MAX - 1]}\u2026")

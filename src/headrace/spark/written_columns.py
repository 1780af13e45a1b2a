"""What a sink makes of the columns of a frame: events with their keys, and times, headers and streams.

``key`` is another name of ``routing_key``, where there is none of that name. Times and headers are for
streams of records; a stream of plain events has no place for them: they are ignored as any other column is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import InvalidArgumentError
from headrace.spark.column_names import find_column, is_case_sensitive, names_that_may_mean, plan_column

_KEYS: Final = ("routing_key", "key")


def check_schema(schema: Any, *, names_streams: bool = False) -> None:
    """Check that rows are events, before any task begins.

    Raises:
        InvalidArgumentError: a column is missing, has a type that is no event or key, or would be ignored
            because of its spelling.
    """
    names = [each.name for each in schema.fields]
    kinds = [each.dataType.simpleString() for each in schema.fields]
    strings = [kind.startswith(("string", "char", "varchar")) for kind in kinds]  # with length or collation
    event = plan_column(names, "event")
    if event is None or kinds[event] not in {"string", "binary"}:
        found = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        raise InvalidArgumentError(f"a sink needs a column event of type string or binary; there is: {found}")
    for wanted in _KEYS:
        key = plan_column(names_that_may_mean(wanted, names, strings), wanted)
        if key is not None and kinds[key] != "string":
            raise InvalidArgumentError(f"column {names[key]} is a string, not {kinds[key]}")
        if key is not None:
            break
    if names_streams:
        stream = plan_column(names, "stream")
        if stream is None or not strings[stream]:
            raise InvalidArgumentError(
                "option stream is required, or a column stream of strings that says it for each row"
            )


@dataclass
class Rows:
    """Events of one stream in columns; ``keys``, ``times`` and ``headers`` may be None."""

    events: Any
    keys: Any
    times: Any = None
    headers: Any = None

    def where(self, mask: Any) -> Rows:
        """Return some of the rows."""
        columns = (self.events, self.keys, self.times, self.headers)
        return Rows(*(None if each is None else each.filter(mask) for each in columns))

    def parts(self) -> Iterator[Rows]:
        """Yield those without a key, and those with one."""
        keys = self.keys
        if keys is None or not keys.null_count:
            yield self
            return
        for mask, has_key in ((keys.is_null(), False), (keys.is_valid(), True)):
            part = self.where(mask)
            if len(part.events):
                yield part if has_key else Rows(part.events, None, part.times, part.headers)


def find_rows(batch: Any) -> Rows:
    """Return the rows of a batch.

    Raises:
        InvalidArgumentError: a name is ambiguous, or an event is null.
    """
    names = batch.schema.names
    case_sensitive = is_case_sensitive()
    event = find_column(names, "event", case_sensitive=case_sensitive)
    assert event is not None  # the schema was checked
    events = batch.column(event)
    if events.null_count:
        raise InvalidArgumentError("column event holds a null: an event has at least one byte")
    found = (_find_key(batch, each, case_sensitive=case_sensitive) for each in _KEYS)
    keys = next((each for each in found if each is not None), None)
    times = _find(batch, "timestamp", case_sensitive=case_sensitive)
    return Rows(events, keys, times, _find(batch, "headers", case_sensitive=case_sensitive))


def rows_by_stream(batch: Any) -> Iterator[tuple[str, Rows]]:
    """Yield each name in column ``stream`` with its rows. Raises InvalidArgumentError: one is null."""
    import pyarrow.compute as pc

    column = _find(batch, "stream", case_sensitive=is_case_sensitive())
    if column is None or column.null_count:
        raise InvalidArgumentError("column stream holds a null: it says to which stream a row goes")
    rows = find_rows(batch)
    for name in column.unique().to_pylist():
        yield name, rows.where(pc.equal(column, name))


def _find_key(batch: Any, wanted: str, *, case_sensitive: bool) -> Any:
    from pyarrow.types import is_large_string, is_string

    names, types = batch.schema.names, batch.schema.types
    strings = [is_string(each) or is_large_string(each) for each in types]
    key = find_column(names_that_may_mean(wanted, names, strings), wanted, case_sensitive=case_sensitive)
    if key is None and not case_sensitive:
        for name, kind in zip(names, types, strict=True):
            if name.lower() == wanted:  # that is its name for Spark
                raise InvalidArgumentError(f"column {name} is a string, not {kind}")
    return None if key is None else batch.column(key)


def _find(batch: Any, wanted: str, *, case_sensitive: bool) -> Any:
    names: Sequence[str] = batch.schema.names
    if case_sensitive:
        return batch.column(wanted) if wanted in names else None
    place = find_column(names, wanted, case_sensitive=False)
    return None if place is None else batch.column(place)

"""Events as rows of CSV and Parquet files: objects of JSON, whose members are the columns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from headrace.cli.event.given_events import GivenEvent
from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.runtime.extras import require

TABLE_FORMATS: Final = ["csv", "parquet"]
_ROWS_MAX: Final = 4096
"""Of a Parquet file that are held at a time."""
_BLOCK_BYTES: Final = 4 * MIB
"""Of a CSV file that are held at a time; the first of them decide the types of its columns."""


def check_table_libraries(form: str) -> None:
    """Raise UnsupportedError, which names the extra, if a form of table cannot be read or written."""
    require(f"tables as {form}", "arrow", "pyarrow", "numpy")


def write_table(table: Any, form: str, out: BinaryIO) -> None:
    """Write a ``pyarrow.Table`` as a file of some form."""
    if form == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, out)
        return
    import pyarrow.csv as pc

    pc.write_csv(_flat(table), out)


def _flat(table: Any) -> Any:
    """Return a table whose nested columns are texts of JSON, and whose bytes are text: CSV has neither."""
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        is_bytes = pa.types.is_binary(field.type)
        if is_bytes or pa.types.is_nested(field.type):
            values = [_text(value, is_map=pa.types.is_map(field.type)) for value in table[place].to_pylist()]
            table = table.set_column(place, field.name, pa.array(values, pa.string()))
    return table


def _text(value: Any, *, is_map: bool) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return json.dumps(dict(value) if is_map else value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)


def given_rows(
    file: str, lines: BinaryIO, form: str, key_field: str | None, key: str | None
) -> Iterator[GivenEvent]:
    """Yield an event for each row of a file, as an object of JSON without the columns that have no value.

    Args:
        file: its path; "-": ``lines`` are standard input, which a Parquet file cannot come from.
        lines: the file, open.
        form: one of ``TABLE_FORMATS``.
        key_field: the column that has the keys.
        key: of all events, without such a column.

    Raises:
        InvalidArgumentError: it is no such file, a row has no key, or a value is none of JSON.
    """
    import pyarrow as pa

    from headrace.client.serializers import find_codec

    codec = find_codec("json")
    assert codec is not None
    number = 0
    try:
        for batch in _batches(file, lines, form):
            if key_field is not None and key_field not in batch.schema.names:
                names = ", ".join(batch.schema.names)
                raise InvalidArgumentError(f"there is no column {key_field!r} among {names}")
            for row in batch.to_pylist():
                number += 1
                found = key if key_field is None else row[key_field]
                if key_field is not None and found is None:
                    raise InvalidArgumentError(f"row {number} has no value of {key_field!r}")
                members = {name: value for name, value in row.items() if value is not None}
                yield GivenEvent(codec.encode(members), None if found is None else str(found))
    except (pa.ArrowInvalid, OSError) as error:
        raise InvalidArgumentError(f"{file} is no {form} behind row {number}: {error}") from None


def _batches(file: str, lines: BinaryIO, form: str) -> Iterator[Any]:
    if form == "parquet":
        import pyarrow.parquet as pq

        if not Path(file).is_file():
            raise InvalidArgumentError("a Parquet file is read from its end: name it with --file")
        yield from pq.ParquetFile(lines).iter_batches(_ROWS_MAX)
        return
    import pyarrow.csv as pc

    yield from pc.open_csv(lines, read_options=pc.ReadOptions(block_size=_BLOCK_BYTES))

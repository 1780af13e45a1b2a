"""The events of a stream as one Arrow table, without an object per event."""

from __future__ import annotations

from typing import Any, Final

from headrace.client.reader.event_batch import EventBatch
from headrace.client.reader.event_reader import EventReader
from headrace.client.vectors import get_arrow
from headrace.errors import AnswerTooLargeError
from headrace.limits import GIB
from headrace.runtime.extras import require

TABLE_BYTES_MAX: Final = 1 * GIB
"""Of the events in a table with their headers, unless the caller says otherwise."""


async def read_table(reader: EventReader, max_bytes: int) -> Any:
    """Return what a reader reads up to its end as a ``pyarrow.Table``.

    Its columns are ``event`` (binary), ``segment_id`` and ``offset`` (both int64), and behind the first one,
    with records, ``time`` (milliseconds, UTC), ``key`` (binary) and ``headers`` (a map). Events of one
    segment are in order, and so are events of one key.

    Raises:
        AnswerTooLargeError: there are more bytes than ``max_bytes``.
        UnsupportedError: pyarrow is not installed.
        HeadraceError: as :meth:`EventReader.next_batch`.
    """
    pa = get_arrow()
    fields = [("event", pa.binary())]
    if reader.has_records:
        headers = pa.map_(pa.string(), pa.binary())
        fields += [("time", pa.timestamp("ms", "UTC")), ("key", pa.binary()), ("headers", headers)]
    schema = pa.schema([*fields, ("segment_id", pa.int64()), ("offset", pa.int64())])
    found: list[Any] = []
    size = 0
    while (batch := await reader.next_batch()) is not None:
        size += batch.size_bytes
        if size > max_bytes:
            raise AnswerTooLargeError(
                size,
                max_bytes,
                f"{reader.scope}/{reader.stream} has more than max_bytes={max_bytes} here: raise it, read "
                "between a start and an end, or read in batches",
            )
        found.append(_record_batch(pa, schema, batch))
    return pa.Table.from_batches(found, schema)


def _record_batch(pa: Any, schema: Any, batch: EventBatch) -> Any:
    segment_ids = pa.repeat(pa.scalar(batch.segment_id, pa.int64()), len(batch))
    offsets = pa.array(batch.offsets(), pa.int64())
    return pa.record_batch([*batch.to_record_batch().columns, segment_ids, offsets], schema=schema)


def require_frames(library: str) -> None:
    """Raise UnsupportedError, which names the extra, if what frames of a library need is not installed."""
    require(f"to_{library}", library, library, "pyarrow", "numpy")


def to_pandas(table: Any) -> Any:
    """Return a table as a ``pandas.DataFrame`` over the same Arrow memory."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def to_polars(table: Any) -> Any:
    """Return a table as a ``polars.DataFrame``."""
    import polars as pl

    return pl.from_arrow(table)

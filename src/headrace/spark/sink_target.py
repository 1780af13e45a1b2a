"""Where a task writes rows: a transaction of its own on a stream, or plain appends."""

from __future__ import annotations

import contextlib
from typing import Any

from pyspark import TaskContext

from headrace.client.blocking import BlockingTransaction, BlockingWriter
from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.model.records import has_records
from headrace.model.transaction_tag import TransactionTag
from headrace.runtime.clock import SystemClock
from headrace.spark.client_cache import client_for, txn_writer_for
from headrace.spark.creation import ensure_stream
from headrace.spark.identity import BatchIdentity
from headrace.spark.options import SinkOptions
from headrace.spark.stream_choice import choose_by_name
from headrace.spark.written_columns import Rows


def open_target(options: SinkOptions, stream: str | None, identity: BatchIdentity | None) -> Target:
    """Return where rows of a stream go: of the one that the options name, if it is None.

    Raises:
        InvalidArgumentError: what a row names is no stream.
        NoSuchStreamError: it does not exist and may not be created.
    """
    scope, name = options.scope, options.stream
    client = client_for(options.connection)
    if stream is not None:
        chosen = choose_by_name(options.scope, stream).only
        if chosen is None:
            raise InvalidArgumentError(f"column stream holds {stream!r:.80}: it names one stream")
        scope, name = chosen
        ensure_stream(client, scope, name, options.creation)
    tags = client.stream_configuration(scope, name).tags
    writer: BlockingTransaction | BlockingWriter | None
    if identity is None:
        writer = client.event_writer(scope, name)
    else:
        tag = _tag(identity)
        begun = txn_writer_for(options.connection, scope, name, options.lease_ms).begin_tagged(tag)
        writer = begun if isinstance(begun, BlockingTransaction) else None
    return Target(f"{scope}/{name}", writer, has_records=has_records(f"{scope}/{name}", tags))


def _tag(identity: BatchIdentity) -> TransactionTag:
    context = TaskContext.get()
    return TransactionTag(
        sink=identity.sink,
        query=identity.query,
        batch=identity.batch,
        partition=0 if context is None else context.partitionId(),
        attempt=0 if context is None else context.taskAttemptId(),
    )


class Target:
    """One stream, as one task attempt writes it."""

    def __init__(
        self, full_name: str, writer: BlockingTransaction | BlockingWriter | None, *, has_records: bool
    ) -> None:
        """``writer`` is None if the batch is in already."""
        self.full_name = full_name
        self.rows = 0
        self._writer = writer
        self._has_records = has_records

    @property
    def is_decided(self) -> bool:
        """Whether the batch is in already: its rows are not written again."""
        return self._writer is None

    def write(self, rows: Rows) -> None:
        """Hand columns over; rows with and without a key go separately."""
        if self._writer is None:
            return
        for part in rows.parts():
            if self._has_records:
                times = None if part.times is None else _without_nulls(part.times)
                self._writer.write_many(part.events, part.keys, times=times, headers=part.headers)
            else:
                self._writer.write_many(part.events, part.keys)
        self.rows += len(rows.events)

    def finish(self) -> int | None:
        """Make all durable; return the id of the transaction, which stays open, if there is one."""
        if isinstance(self._writer, BlockingTransaction):
            self._writer.flush()
            return self._writer.detach(keep_alive=True)
        if self._writer is not None:
            self._writer.close()
        return None

    def give_up(self) -> None:
        """Abort the transaction; appends stay."""
        with contextlib.suppress(HeadraceError):  # the reason for giving up matters more
            if isinstance(self._writer, BlockingTransaction):
                if self._writer.is_open:
                    self._writer.abort()
            elif self._writer is not None:
                self._writer.close()


def _without_nulls(times: Any) -> Any:
    """Return times in which a null is now."""
    if not times.null_count:
        return times
    import pyarrow as pa

    return times.fill_null(pa.scalar(SystemClock().now_ms() * 1000, pa.int64()).cast(times.type))

"""The sink: a batch of rows is one batch of transactions that the store takes once, however often it comes.

Each task attempt writes into a transaction of its own and leaves it open; the driver then commits all of them
in one call that also moves the sink's watermark. A repeated batch is recognised by the watermark: while
writing (nothing is written) or while committing (nothing is decided again). What a failed attempt leaves
behind is aborted with the batch, or by its lease.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headrace.client.blocking import BlockingTransaction, BlockingWriter
from headrace.client.control.transactions import BatchStatus
from headrace.errors import HeadraceError, InvalidArgumentError, PreconditionError, TransactionStateError
from headrace.model.transaction_tag import TransactionTag
from headrace.spark.client_cache import client_for, txn_writer_for
from headrace.spark.column_names import (
    find_column,
    is_case_sensitive,
    names_that_may_mean,
    plan_column,
)
from headrace.spark.creation import ensure_stream
from headrace.spark.identity import BatchIdentity, batch_job_identity, streaming_identity
from headrace.spark.options import SinkOptions

_log: Final = logging.getLogger(__name__)


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote: at most one open transaction. ``identity`` is None for plain appends."""

    identity: BatchIdentity | None
    txn_id: int | None
    rows: int


def check_schema(schema: Any) -> None:
    """Check that rows are events, before any task begins.

    Raises:
        InvalidArgumentError: a column is missing, has a type that is no event or key, or would be ignored
            because of its spelling.
    """
    names = [each.name for each in schema.fields]
    kinds = [each.dataType.simpleString() for each in schema.fields]
    strings = [kind.startswith(("string", "char", "varchar")) for kind in kinds]  # with length or collation
    event = plan_column(names, "event")
    key = plan_column(names_that_may_mean("routing_key", names, strings), "routing_key")
    if event is None or kinds[event] not in {"string", "binary"}:
        found = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
        raise InvalidArgumentError(f"a sink needs a column event of type string or binary; there is: {found}")
    if key is not None and kinds[key] != "string":
        raise InvalidArgumentError(f"column {names[key]} is a string, not {kinds[key]}")


def make_writer(options: SinkOptions, schema: Any, *, overwrite: bool) -> BatchWriter:
    """Check everything that can be checked on the driver and return the writer of a batch job."""
    if overwrite:
        raise InvalidArgumentError('a stream cannot be overwritten: use mode("append")')
    if bool(options.app_id) != (options.version is not None):
        raise InvalidArgumentError("options txn_app_id and txn_version come together in batch writes")
    check_schema(schema)
    _ensure(options)
    return BatchWriter(options, batch_job_identity(options.app_id, options.version or 0))


def make_stream_writer(options: SinkOptions, schema: Any, *, overwrite: bool) -> StreamWriter:
    """Check everything that can be checked on the driver and return the writer of one micro-batch."""
    if overwrite and not options.allow_complete:
        raise InvalidArgumentError(
            'output mode "complete" would append all rows again in every batch: set allow_complete=true if '
            "that is wanted"
        )
    check_schema(schema)
    _ensure(options)
    return StreamWriter(options)


def _ensure(options: SinkOptions) -> None:
    ensure_stream(client_for(options.connection), options.scope, options.stream, options.creation)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of one job. Pickled to the tasks and to the process that commits."""

    def __init__(self, options: SinkOptions, identity: BatchIdentity) -> None:
        self._options = options
        self._identity = identity

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return write_rows(self._options, iterator, self._identity)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit_batch(self._options, messages, self._identity.batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        abort_batch(self._options, messages, self._identity)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of one micro-batch. Another instance, in another process, commits them."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        options = self._options
        identity = streaming_identity(options.app_id) if options.exactly_once else None
        return write_rows(options, iterator, identity)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        commit_batch(self._options, messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        abort_batch(self._options, messages, None)


# ---------------------------------------------------------------------------------------- in a task


def write_rows(options: SinkOptions, batches: Iterator[Any], identity: BatchIdentity | None) -> Written:
    """Write the rows of one task attempt and make them durable.

    Raises:
        InvalidArgumentError: an event is null, empty or too large.
        TransactionStateError: the batch was decided or aborted meanwhile; the attempt is void.
    """
    if not options.exactly_once:
        return _append_rows(options, batches)
    assert identity is not None
    transaction: BlockingTransaction | None = None
    rows = 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            columns = _find_columns(batch)
            if transaction is None:
                begun = _begin(options, identity)
                if begun is None:
                    return Written(identity, None, 0)
                transaction = begun
            _write_batch(transaction, *columns)
            rows += batch.num_rows
        if transaction is None:
            return Written(identity, None, 0)
        transaction.flush()
        return Written(identity, transaction.detach(keep_alive=True), rows)
    except BaseException:
        if transaction is not None and transaction.is_open:
            with contextlib.suppress(HeadraceError):  # the reason for giving up matters more
                transaction.abort()
        raise


def _begin(options: SinkOptions, identity: BatchIdentity) -> BlockingTransaction | None:
    """Begin the attempt's transaction; None if the batch is in already."""
    context = TaskContext.get()
    tag = TransactionTag(
        sink=identity.sink,
        query=identity.query,
        batch=identity.batch,
        partition=0 if context is None else context.partitionId(),
        attempt=0 if context is None else context.taskAttemptId(),
    )
    writer = txn_writer_for(options.connection, options.scope, options.stream, options.lease_ms)
    begun = writer.begin_tagged(tag)
    return begun if isinstance(begun, BlockingTransaction) else None


def _append_rows(options: SinkOptions, batches: Iterator[Any]) -> Written:
    """Append at once: at least once over restarts, exactly once within this attempt."""
    writer: BlockingWriter | None = None
    rows = 0
    try:
        for batch in batches:
            columns = _find_columns(batch)
            if writer is None:
                writer = client_for(options.connection).event_writer(options.scope, options.stream)
            _write_batch(writer, *columns)
            rows += batch.num_rows
    finally:
        if writer is not None:
            writer.close()
    return Written(None, None, rows)


def _find_columns(batch: Any) -> tuple[Any, Any | None]:
    """Return the columns of events and of routing keys.

    Raises:
        InvalidArgumentError: a name is ambiguous, or an event is null.
    """
    from pyarrow.types import is_large_string, is_string

    case_sensitive = is_case_sensitive()
    names = batch.schema.names
    strings = [is_string(each) or is_large_string(each) for each in batch.schema.types]
    event = find_column(names, "event", case_sensitive=case_sensitive)
    key = find_column(
        names_that_may_mean("routing_key", names, strings), "routing_key", case_sensitive=case_sensitive
    )
    assert event is not None  # the schema was checked
    if key is None and not case_sensitive:
        for name, kind in zip(names, batch.schema.types, strict=True):
            if name.lower() == "routing_key":  # that is its name for Spark
                raise InvalidArgumentError(f"column {name} is a string, not {kind}")
    events = batch.column(event)
    if events.null_count:
        raise InvalidArgumentError("column event holds a null: an event has at least one byte")
    return events, None if key is None else batch.column(key)


def _write_batch(writer: BlockingTransaction | BlockingWriter, events: Any, keys: Any | None) -> None:
    """Hand the columns over; rows with and without a key go separately."""
    if keys is None or keys.null_count == len(keys):
        writer.write_many(events)
    elif keys.null_count:
        writer.write_many(events.filter(keys.is_null()))
        writer.write_many(events.filter(keys.is_valid()), keys.drop_null())
    else:
        writer.write_many(events, keys)


# ---------------------------------------------------------------------------------------- on the driver


def commit_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Decide that all transactions in the messages become visible, once. May be repeated.

    Raises:
        PreconditionError: the sink belongs to another query.
        TransactionStateError: a transaction of the batch is gone; nothing was decided.
    """
    written = [each for each in messages if isinstance(each, Written) and each.txn_id is not None]
    identities = {each.identity for each in written if each.identity is not None}
    if not identities:
        return  # an empty batch, a repeated one, or plain appends
    if len(identities) > 1:
        raise PreconditionError(
            f"tasks of one batch disagree about what it is: {sorted(map(str, identities))}"
        )
    identity = identities.pop()
    if identity.batch != batch:
        raise PreconditionError(f"the tasks wrote batch {identity.batch}, Spark commits batch {batch}")
    outcome = client_for(options.connection).commit_batch(
        options.scope,
        options.stream,
        sink=identity.sink,
        query=identity.query,
        batch=identity.batch,
        txn_ids=[each.txn_id for each in written if each.txn_id is not None],
        takeover=options.takeover,
        wait_until_visible=options.wait_readable,
    )
    name = f"{options.scope}/{options.stream}, sink {identity.sink}"
    if outcome.status is BatchStatus.FOREIGN:
        owner = outcome.watermark.query if outcome.watermark else "unknown"
        raise PreconditionError(
            f"{name} belongs to query {owner}, not to {identity.query}. If the checkpoint was deleted on "
            "purpose, set on_foreign_query=takeover once, or choose another txn_app_id"
        )
    if outcome.status is BatchStatus.MISSING:
        raise TransactionStateError(
            f"{name}: transaction {outcome.missing or 0:032x} of batch {batch} is not open any more. If a "
            f"batch takes longer than {options.lease_ms} ms, raise transaction_timeout_ms (and the server's "
            "maximum)"
        )
    _log.info(
        "%s: batch %d %s, %d rows", name, batch, outcome.status.name, sum(each.rows for each in written)
    )


def abort_batch(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], identity: BatchIdentity | None
) -> None:
    """Clean up behind a failed batch as far as possible. Never raises, and never undoes a decision.

    Spark may give nothing but None, and calls this even after a commit whose answer was lost.
    """
    try:
        if identity is None:
            known = (each.identity for each in messages if isinstance(each, Written))
            identity = next((each for each in known if each is not None), None)
        if identity is not None and options.exactly_once:
            client_for(options.connection).abort_batch(
                options.scope,
                options.stream,
                sink=identity.sink,
                query=identity.query,
                batch=identity.batch,
            )
    except Exception as error:  # noqa: BLE001 - a second error would hide the first; leases clean up
        _log.warning("could not abort the transactions of a failed batch: %s", error)

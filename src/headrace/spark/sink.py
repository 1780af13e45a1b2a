"""The sink: a batch of rows is one batch of transactions that the store takes once, however often it comes.

Each task attempt writes into a transaction of its own and leaves it open; the driver then commits all of them
in one call that also moves the sink's watermark. A repeated batch is recognised by the watermark: while
writing (nothing is written) or while committing (nothing is decided again). What a failed attempt leaves
behind is aborted with the batch, or by its lease.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from headrace.client.control.transactions import BatchStatus
from headrace.errors import InvalidArgumentError, PreconditionError, TransactionStateError
from headrace.spark.client_cache import client_for
from headrace.spark.creation import ensure_stream
from headrace.spark.identity import BatchIdentity, batch_job_identity, streaming_identity
from headrace.spark.options import SinkOptions
from headrace.spark.sink_target import Target, open_target
from headrace.spark.stream_choice import split_name
from headrace.spark.written_columns import check_schema, find_rows, rows_by_stream

_log: Final = logging.getLogger(__name__)

_STREAMS_MAX: Final = 100
"""That the rows of one task may name: each has an open transaction."""


@dataclass
class Written(WriterCommitMessage):
    """What one task wrote to a stream: at most one open transaction; ``identity`` is None for appends."""

    identity: BatchIdentity | None
    txn_id: int | None
    rows: int
    stream: str = ""
    """Its full name, if it is not that of the options."""


@dataclass
class WrittenStreams(WriterCommitMessage):
    """What one task wrote to the streams that its rows name."""

    parts: list[Written]


def make_writer(options: SinkOptions, schema: Any, *, overwrite: bool) -> BatchWriter:
    """Check everything that can be checked on the driver and return the writer of a batch job."""
    if overwrite:
        raise InvalidArgumentError('a stream cannot be overwritten: use mode("append")')
    if bool(options.app_id) != (options.version is not None):
        raise InvalidArgumentError("options txn_app_id and txn_version come together in batch writes")
    check_schema(schema, names_streams=not options.stream)
    _ensure(options)
    return BatchWriter(options, batch_job_identity(options.app_id, options.version or 0))


def make_stream_writer(options: SinkOptions, schema: Any, *, overwrite: bool) -> StreamWriter:
    """Check everything that can be checked on the driver and return the writer of one micro-batch."""
    if overwrite and not options.allow_complete:
        raise InvalidArgumentError(
            'output mode "complete" would append all rows again in every batch: set allow_complete=true if '
            "that is wanted"
        )
    check_schema(schema, names_streams=not options.stream)
    _ensure(options)
    return StreamWriter(options)


def _ensure(options: SinkOptions) -> None:
    if options.stream:
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


def write_rows(
    options: SinkOptions, batches: Iterator[Any], identity: BatchIdentity | None
) -> Written | WrittenStreams:
    """Write the rows of one task attempt and make them durable.

    Raises:
        InvalidArgumentError: an event is null, empty or too large, or a row names no stream.
        TransactionStateError: the batch was decided or aborted meanwhile; the attempt is void.
    """
    if not options.exactly_once:
        identity = None
    targets: dict[str, Target] = {}
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            for name, rows in rows_by_stream(batch) if not options.stream else [("", find_rows(batch))]:
                target = targets.get(name)
                if target is None:
                    if len(targets) == _STREAMS_MAX:
                        raise InvalidArgumentError(f"rows of one task name more than {_STREAMS_MAX} streams")
                    target = targets[name] = open_target(options, None if options.stream else name, identity)
                target.write(rows)
            if options.stream and targets[""].is_decided:
                break
        parts = [
            Written(identity, target.finish(), target.rows, target.full_name if name else "")
            for name, target in targets.items()
        ]
    except BaseException:
        for target in targets.values():
            target.give_up()
        raise
    if not options.stream:
        return WrittenStreams(parts)
    return parts[0] if parts else Written(identity, None, 0)


# ---------------------------------------------------------------------------------------- on the driver


def commit_batch(options: SinkOptions, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
    """Decide that all transactions in the messages become visible, once. May be repeated.

    Raises:
        PreconditionError: the sink belongs to another query.
        TransactionStateError: a transaction of the batch is gone; nothing was decided.
    """
    written = [each for each in _parts(messages) if each.txn_id is not None]
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
    for stream in sorted({each.stream for each in written}):
        own = [each for each in written if each.stream == stream]
        _commit_stream(options, stream or f"{options.scope}/{options.stream}", own, identity)


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[Written]:
    parts: list[Written] = []
    for each in messages:
        if isinstance(each, WrittenStreams):
            parts += each.parts
        elif isinstance(each, Written):
            parts.append(each)
    return parts


def _commit_stream(
    options: SinkOptions, stream: str, written: Sequence[Written], identity: BatchIdentity
) -> None:
    outcome = client_for(options.connection).commit_batch(
        *split_name(stream),
        sink=identity.sink,
        query=identity.query,
        batch=identity.batch,
        txn_ids=[each.txn_id for each in written if each.txn_id is not None],
        takeover=options.takeover,
        wait_until_visible=options.wait_readable,
    )
    name = f"{stream}, sink {identity.sink}"
    if outcome.status is BatchStatus.FOREIGN:
        owner = outcome.watermark.query if outcome.watermark else "unknown"
        raise PreconditionError(
            f"{name} belongs to query {owner}, not to {identity.query}. If the checkpoint was deleted on "
            "purpose, set on_foreign_query=takeover once, or choose another txn_app_id"
        )
    if outcome.status is BatchStatus.MISSING:
        raise TransactionStateError(
            f"{name}: transaction {outcome.missing or 0:032x} of batch {identity.batch} is not open any "
            f"more. If a batch takes longer than {options.lease_ms} ms, raise transaction_timeout_ms (and "
            "the server's maximum)"
        )
    rows = sum(each.rows for each in written)
    _log.info("%s: batch %d %s, %d rows", name, identity.batch, outcome.status.name, rows)


def abort_batch(
    options: SinkOptions, messages: Sequence[WriterCommitMessage | None], identity: BatchIdentity | None
) -> None:
    """Clean up behind a failed batch as far as possible. Never raises, and never undoes a decision.

    Spark may give nothing but None, and calls this even after a commit whose answer was lost.
    """
    try:
        parts = _parts(messages)
        if identity is None:
            identity = next((each.identity for each in parts if each.identity is not None), None)
        streams = {each.stream for each in parts} if not options.stream else {""}
        if identity is not None and options.exactly_once:
            for stream in sorted(streams):
                client_for(options.connection).abort_batch(
                    *split_name(stream or f"{options.scope}/{options.stream}"),
                    sink=identity.sink,
                    query=identity.query,
                    batch=identity.batch,
                )
    except Exception as error:  # noqa: BLE001 - a second error would hide the first; leases clean up
        _log.warning("could not abort the transactions of a failed batch: %s", error)

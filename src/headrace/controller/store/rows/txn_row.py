"""The row of a transaction that is not finished. Its version is its place in the order of commits.

The fixed part is packed at once because two such rows are written for every transaction. Source:
``docs/formats/controller-rows.md``, "T: transaction".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from headrace.errors import DataCorruptionError
from headrace.limits import INT64_MIN
from headrace.model.fields import FieldReader, FieldWriter
from headrace.model.transaction_tag import TransactionTag

KIND: Final = b"T"
VERSION: Final = 1
NO_TIME: Final = INT64_MIN

_HEAD: Final = struct.Struct(">cBBqqqqq")
"""kind, version, state, created, lease, end of life, prepared, commit time."""


class TxnState(IntEnum):
    """Numbers are those of the row. COMMITTED and ABORTED transactions have no row."""

    OPEN = 1
    PREPARED = 2
    """Part of a batch that is about to be decided: its lease cannot expire."""
    COMMITTING = 3
    ABORTING = 4


@dataclass(frozen=True, slots=True)
class TxnRow:
    """Names are those of the stream; times in ms since 1970; ``commit_time`` is the writer's."""

    state: TxnState
    scope: str
    stream: str
    created_ms: int
    lease_ms: int
    end_of_life_ms: int
    prepared_ms: int = 0
    commit_time: int = NO_TIME
    writer: str = ""
    tag: TransactionTag | None = None


def encode_txn(row: TxnRow) -> bytes:
    head = _HEAD.pack(
        KIND,
        VERSION,
        row.state,
        row.created_ms,
        row.lease_ms,
        row.end_of_life_ms,
        row.prepared_ms,
        row.commit_time,
    )
    writer = FieldWriter()
    writer.text(row.scope)
    writer.text(row.stream)
    writer.text(row.writer)
    writer.flag(row.tag is not None)
    if row.tag is not None:
        writer.text(row.tag.sink)
        writer.text(row.tag.query)
        writer.sint(row.tag.batch)
        writer.sint(row.tag.partition)
        writer.sint(row.tag.attempt)
    return head + writer.to_bytes()


def decode_txn(data: bytes) -> TxnRow:
    """Raises DataCorruptionError."""
    if len(data) < _HEAD.size:
        raise DataCorruptionError(f"a transaction row of {len(data)} bytes is too short")
    kind, version, state, created_ms, lease_ms, end_of_life_ms, prepared_ms, commit_time = _HEAD.unpack_from(
        data
    )
    if kind != KIND or version != VERSION:
        raise DataCorruptionError(f"a row of kind {kind!r} version {version} where a transaction belongs")
    try:
        txn_state = TxnState(state)
    except ValueError as error:
        raise DataCorruptionError(f"a transaction row holds {error}") from None
    reader = FieldReader(data[_HEAD.size :])
    scope, stream, writer = reader.text(), reader.text(), reader.text()
    tag = None
    if reader.flag():
        tag = TransactionTag(reader.text(), reader.text(), reader.sint(), reader.sint(), reader.sint())
    reader.end()
    return TxnRow(
        txn_state,
        scope,
        stream,
        created_ms,
        lease_ms,
        end_of_life_ms,
        prepared_ms,
        commit_time,
        writer,
        tag,
    )

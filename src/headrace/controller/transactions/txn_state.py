r"""What may happen to a transaction, as functions of its row and the time. Pure.

::

    OPEN ----> COMMITTING ----> (committed)
     | \           ^
     |  > PREPARED -+            a batch was decided with it
     |       |
     v       v                   no batch was decided
    ABORTING ------------------> (aborted)

Each function returns the next row, or the row itself if what is asked for has happened already.
"""

from __future__ import annotations

from dataclasses import replace

from headrace.controller.store.rows.txn_row import NO_TIME, TxnRow, TxnState
from headrace.errors import InvalidArgumentError, TransactionStateError
from headrace.model.transaction_tag import TransactionTag

LIFETIME_PER_LEASE = 1000


def check_lease(lease_ms: int, lease_ms_min: int, lease_ms_max: int) -> None:
    """Raises InvalidArgumentError."""
    if not lease_ms_min <= lease_ms <= lease_ms_max:
        raise InvalidArgumentError(f"a lease of {lease_ms} ms is outside [{lease_ms_min}, {lease_ms_max}]")


def open_txn(
    scope: str,
    stream: str,
    lease_ms: int,
    now_ms: int,
    lifetime_ms_max: int,
    tag: TransactionTag | None = None,
) -> TxnRow:
    lifetime_ms = min(LIFETIME_PER_LEASE * lease_ms, lifetime_ms_max)
    return TxnRow(TxnState.OPEN, scope, stream, now_ms, lease_ms, now_ms + lifetime_ms, tag=tag)


def commit(row: TxnRow, writer: str = "", commit_time: int = NO_TIME) -> TxnRow:
    """OPEN -> COMMITTING, for a transaction on its own.

    Raises:
        TransactionStateError: it is being aborted, or belongs to a batch.
    """
    match row.state:
        case TxnState.OPEN:
            return replace(row, state=TxnState.COMMITTING, writer=writer, commit_time=commit_time)
        case TxnState.COMMITTING:
            return row
        case TxnState.PREPARED:
            raise TransactionStateError("the transaction is committed with its batch or not at all")
        case TxnState.ABORTING:
            raise TransactionStateError("the transaction is aborted")


def commit_decided(row: TxnRow) -> TxnRow:
    """PREPARED -> COMMITTING, when the batch has been decided.

    Raises:
        TransactionStateError: it was aborted in spite of the decision; that must never be.
    """
    match row.state:
        case TxnState.PREPARED | TxnState.OPEN:
            return replace(row, state=TxnState.COMMITTING)
        case TxnState.COMMITTING:
            return row
        case TxnState.ABORTING:
            raise TransactionStateError("a transaction of a decided batch was aborted")


def abort(row: TxnRow) -> TxnRow:
    """OPEN -> ABORTING.

    Raises:
        TransactionStateError: it is being committed, or a batch may be decided with it.
    """
    match row.state:
        case TxnState.OPEN:
            return replace(row, state=TxnState.ABORTING)
        case TxnState.ABORTING:
            return row
        case TxnState.PREPARED:
            raise TransactionStateError("the transaction belongs to a batch that may be decided")
        case TxnState.COMMITTING:
            raise TransactionStateError("the transaction is committed")


def abort_undecided(row: TxnRow) -> TxnRow:
    """PREPARED -> ABORTING, when it is certain that no batch can be decided with this version of the row."""
    assert row.state is TxnState.PREPARED
    return replace(row, state=TxnState.ABORTING)


def prepare(row: TxnRow, now_ms: int, tag: TransactionTag) -> TxnRow | None:
    """OPEN or PREPARED -> PREPARED; None if it is neither, or PREPARED for another sink.

    The tag names the sink that may decide: a caller that wants to abort has to look there. The row is to be
    *written* even if it does not change: a caller that read it earlier must not abort it.
    """
    own = row.tag if row.tag is not None and row.tag.sink == tag.sink else tag
    if row.state is TxnState.OPEN or (row.state is TxnState.PREPARED and own is row.tag):
        return replace(row, state=TxnState.PREPARED, prepared_ms=now_ms, tag=own)
    return None


def extend_lease(row: TxnRow, lease_ms: int) -> TxnRow:
    """Give an OPEN transaction a new lease; the row is to be written even if it does not change."""
    assert row.state is TxnState.OPEN
    return replace(row, lease_ms=lease_ms)


def expiry_delay_ms(row: TxnRow, now_ms: int, *, grace_ms_min: int, prepared_ms_max: int) -> int | None:
    """Return how long from now until the transaction is given up unless its row changes; None: never.

    One client pings once per lease and may be late: an expired lease is worth another one, or a minimum.
    """
    if row.state is TxnState.OPEN:
        return row.lease_ms + max(row.lease_ms, grace_ms_min)
    if row.state is TxnState.PREPARED:
        return max(0, row.prepared_ms + prepared_ms_max - now_ms)
    return None

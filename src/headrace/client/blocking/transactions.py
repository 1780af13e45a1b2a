"""Transactions for threads: events that become visible together or not at all."""

from __future__ import annotations

import uuid
from collections.abc import Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.writers import Writer
from headrace.client.control.transactions import SinkWatermark, TransactionStatus
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.writer import txn_writer as on_loop
from headrace.errors import ClosedError, HeadraceError
from headrace.model.transaction_tag import TransactionTag

T = TypeVar("T")


class Transaction(Writer):
    """An open transaction. As a context manager it commits, or aborts if an exception leaves the block."""

    _leaving_is_a_call = True

    def __init__(self, transaction: on_loop.Transaction, thread: LoopThread) -> None:
        super().__init__(transaction, thread)
        self._transaction = transaction

    def __repr__(self) -> str:
        return waiting(repr(self._transaction))

    @property
    def txn_id(self) -> int:
        """The 128-bit id as a number."""
        return self._transaction.txn_id

    @property
    def txn_uuid(self) -> uuid.UUID:
        return self._transaction.txn_uuid

    @property
    def is_open(self) -> bool:
        """It was neither committed nor aborted through this object."""
        return self._transaction.is_open

    def commit(self, timestamp: datetime | int | None = None, *, wait: bool = False) -> None:
        """Make every event durable and decide that all become visible; see :meth:`Transaction.commit`.

        Raises TransactionStateError: it is not open any more.
        """

        async def commit() -> None:
            self._hand_over()
            self._check_taken()
            await self._transaction.commit(timestamp, wait=wait)

        self._run(commit())

    def abort(self) -> None:
        """Drop every event. Does nothing if it is aborted already.

        Raises TransactionStateError: it was committed, or detached.
        """
        if not self._transaction.is_aborted:
            self._run(self._transaction.abort())

    def _refusal(self) -> BaseException:
        return super()._refusal() if self.is_open else self._transaction.refusal()

    def _run(self, coroutine: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        try:
            return super()._run(coroutine, timeout_s)
        except ClosedError:
            if self.is_open:
                raise
            raise self._transaction.refusal() from None

    def status(self) -> TransactionStatus:
        """Ask the controller where the transaction is."""
        return self._thread.run(self._transaction.status())

    def detach(self, *, keep_alive: bool = False) -> int:
        """Leave the flushed transaction open for another caller to commit; return its id.

        With ``keep_alive`` it is pinged until it has ended or its writer is closed. Raises as
        :meth:`Transaction.detach`.
        """

        async def detach() -> int:
            return self._transaction.detach(keep_alive=keep_alive)

        return self._run(detach())

    def close(self) -> None:
        """Abort the transaction if it is open. Idempotent."""
        if not self._transaction.has_ended:
            self._run(self._transaction.close())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        if kind is None:
            self.commit()
            return
        try:
            self.abort()
        except HeadraceError:
            return  # the exception being raised matters more


class TxnWriter(OfOneProcess):
    """Begins transactions on one stream and keeps them alive."""

    def __init__(self, writer: on_loop.TxnWriter, thread: LoopThread) -> None:
        self._writer = writer
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._writer))

    def _wrap(self, transaction: on_loop.Transaction) -> Transaction:
        return Transaction(transaction, self._thread)

    def begin(self) -> Transaction:
        """Begin a transaction."""
        return self._wrap(self._thread.run(self._writer.begin()))

    def begin_tagged(self, tag: TransactionTag) -> Transaction | SinkWatermark:
        """Begin a transaction of a sink's batch; the watermark is returned if the batch is in already."""
        begun = self._thread.run(self._writer.begin_tagged(tag))
        return self._wrap(begun) if isinstance(begun, on_loop.Transaction) else begun

    def resume(self, txn_id: int) -> Transaction:
        """Continue an open transaction that another caller began."""
        return self._wrap(self._thread.run(self._writer.resume(txn_id)))

    def close(self) -> None:
        """Abort every open transaction and stop. Idempotent."""
        if not self._writer.is_ended:
            self._thread.run(self._writer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""Batches with numbers for threads."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

from headrace.client.blocking.acks import Ack, AckCondition
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.transactions import Transaction
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.writer import numbered_batch as on_loop
from headrace.errors import HeadraceError


class Batch(OfOneProcess):
    """A batch of an application. As a context it commits, or aborts if an exception leaves the block."""

    _leaving_is_a_call = True

    def __init__(self, batch: on_loop.Batch, thread: LoopThread) -> None:
        self._batch = batch
        self._thread = thread
        begun = batch.transaction
        self._transaction = None if begun is None else Transaction(begun, thread)
        self._left_out = Ack(AckCondition(threading.Lock(), self))
        """Of events of a batch that is in already."""
        self._left_out.settle(None)

    def __repr__(self) -> str:
        return waiting(repr(self._batch))

    @property
    def app(self) -> str:
        return self._batch.app

    @property
    def number(self) -> int:
        return self._batch.number

    @property
    def is_new(self) -> bool:
        """Its events are written. Otherwise it, or a later one, is in already, and they are left out."""
        return self._transaction is not None

    def write(
        self,
        event: Any,
        key: str | None = None,
        *,
        time: Time | None = None,
        headers: Headers | None = None,
    ) -> Ack:
        """Take one event of up to 8 MiB; see :meth:`EventWriter.write`.

        Raises:
            TransactionStateError: the batch has ended.
        """
        if self._transaction is None:
            return self._left_out
        return self._transaction.write(event, key, time=time, headers=headers)

    def write_many(self, events: Any, keys: Any = None, *, times: Any = None, headers: Any = None) -> Ack:
        """Take many events; see :meth:`EventWriter.write_many`. Raises as :meth:`write`."""
        if self._transaction is None:
            return self._left_out
        return self._transaction.write_many(events, keys, times=times, headers=headers)

    def commit(self) -> None:
        """Make every event durable, then decide that all of them become visible. Idempotent.

        Raises:
            UnknownOutcomeError: whether it is decided is unknown. Give the batch again under its number.
            TransactionStateError: it took longer than its lease. Nothing was decided.
            PreconditionError: a query of Spark has the name of the application. Nothing was decided.
        """
        if self._transaction is not None and self._transaction.is_open:
            self._transaction.flush()
        self._thread.run(self._batch.commit())

    def abort(self) -> None:
        """Drop every event; the batch may be given again. Does nothing once it has ended."""
        self._thread.run(self._batch.abort())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()
            return
        try:
            self.abort()
        except HeadraceError:
            return  # the exception being raised matters more

"""Batches with numbers: all events of one become visible together, once, however often it is given.

A batch is a transaction that carries its number, committed by the call that Spark's sink commits with: the
controller decides on it and moves the mark of the application in one write. A batch whose number the mark has
reached is not written again.
"""

from __future__ import annotations

import contextlib
from types import TracebackType
from typing import Any, Final, Self

from headrace.client.control.transactions import BatchStatus
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time
from headrace.client.writer.ack import Ack
from headrace.client.writer.txn_writer import Transaction, TxnWriter
from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    PreconditionError,
    TransactionStateError,
)
from headrace.limits import INT64_MAX
from headrace.model.transaction_tag import TransactionTag

APP_CHARS_MAX: Final = 255


def check_identity(app: Any, number: Any) -> None:
    """Raises InvalidArgumentError unless they name a batch."""
    if not isinstance(app, str) or not 1 <= len(app) <= APP_CHARS_MAX:
        raise InvalidArgumentError(f"an application has a name of 1 to 255 characters, not {app!r:.40}")
    if type(number) is not int or not 0 <= number <= INT64_MAX:
        raise InvalidArgumentError(f"a batch has a number from 0 to 2^63 - 1, not {number!r:.40}")


class Batch(OfOneProcess):
    """A batch of an application. As a context it commits, or aborts if an exception leaves the block.

    Made by :meth:`Client.batch`. Used on one loop.
    """

    _leaving_is_a_call = True

    def __init__(
        self, writer: TxnWriter, app: str, number: int, transaction: Transaction | None, *, wait: bool
    ) -> None:
        """``transaction`` None: the batch is in already."""
        self.app = app
        self.number = number
        self.transaction = transaction
        """What its events are written to."""
        self._writer = writer
        self._wait = wait
        self._is_ended = transaction is None

    @classmethod
    async def open(cls, writer: TxnWriter, app: str, number: int, *, wait: bool) -> Self:
        """Begin a batch, unless it is in."""
        attempt = int.from_bytes(writer.services.entropy.token(4)[:4], "big") >> 1
        try:
            begun = await writer.begin_tagged(TransactionTag(app, app, number, attempt=attempt))
        except BaseException:
            await writer.close()
            raise
        if isinstance(begun, Transaction):
            return cls(writer, app, number, begun, wait=wait)
        await writer.close()
        return cls(writer, app, number, None, wait=wait)

    def __repr__(self) -> str:
        state = f"batch {self.number} of {self.app}, {'new' if self.is_new else 'in already'}"
        return described("aio.Batch", self._writer.place, self._writer.services.uri, state)

    @property
    def is_new(self) -> bool:
        """Its events are written. Otherwise it, or a later one, is in already, and they are left out."""
        return self.transaction is not None

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
        if self.transaction is None:
            return Ack()
        return self.transaction.write(event, key, time=time, headers=headers)

    def write_many(self, events: Any, keys: Any = None, *, times: Any = None, headers: Any = None) -> Ack:
        """Take many events; see :meth:`EventWriter.write_many`. Raises as :meth:`write`."""
        if self.transaction is None:
            return Ack()
        return self.transaction.write_many(events, keys, times=times, headers=headers)

    async def drain(self) -> None:
        """Wait until the next events fit; see :meth:`EventWriter.drain`."""
        if self.transaction is not None:
            await self.transaction.drain()

    async def commit(self) -> None:
        """Make every event durable, then decide that all of them become visible. Idempotent.

        Raises:
            UnknownOutcomeError: whether it is decided is unknown. Give the batch again under its number.
            TransactionStateError: it took longer than its lease. Nothing was decided.
            PreconditionError: a query of Spark has the name of the application. Nothing was decided.
        """
        transaction = self.transaction
        if transaction is None or self._is_ended:
            return
        await transaction.flush()
        writer = self._writer
        outcome = await writer.transactions.commit_batch(
            writer.scope,
            writer.stream,
            sink=self.app,
            query=self.app,
            batch=self.number,
            txn_ids=[transaction.detach(keep_alive=True) if transaction.is_open else transaction.txn_id],
            wait_until_visible=self._wait,
        )
        self._is_ended = True
        await writer.close()
        place = f"{writer.place}, batch {self.number} of {self.app}"
        if outcome.status is BatchStatus.FOREIGN:
            raise PreconditionError(f"{place}: a query of Spark has this name, choose another one")
        if outcome.status is BatchStatus.MISSING:
            raise TransactionStateError(
                f"{place} took longer than its lease, {writer.lease_ms} ms: give it again, with a greater "
                "lease_ms"
            )

    async def abort(self) -> None:
        """Drop every event; the batch may be given again. Does nothing once it has ended."""
        if not self._is_ended:
            self._is_ended = True
            await self._writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.commit()
            return
        with contextlib.suppress(HeadraceError):  # the exception being raised matters more
            await self.abort()

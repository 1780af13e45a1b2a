"""Transactions: events that become visible together or not at all.

A transaction writes to private shadows of the segments its stream had when it began. They do not scale, so
there are no successors: a shadow that is sealed or gone means that the transaction has ended.

Source: protocol, "Transactions on the client side".
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from headrace.client.config import WriterConfig
from headrace.client.control.transactions import (
    CreatedTransaction,
    SinkWatermark,
    Transactions,
    TransactionStatus,
)
from headrace.client.control.writer_times import event_time
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.records.event_forms import EventForm
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import SegmentMap, SegmentRange
from headrace.client.services import ClientServices
from headrace.client.writer.routed_writer import RoutedWriter
from headrace.client.writer.segment_output import SegmentOutput
from headrace.errors import (
    ClosedError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchTransactionError,
    OverloadError,
    OwnershipError,
    PreconditionError,
    RequestError,
    TransactionStateError,
)
from headrace.model.transaction_tag import TransactionTag
from headrace.runtime.supervisor import Supervisor

T = TypeVar("T")

LEASE_MIN_MS: Final = 10_000
VISIBLE_WAIT_MS: Final = 2_000
"""How long a commit that waits may leave that to the controller, well within the timeout of a call."""
_VISIBLE_POLL_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)


def ping_interval_s(lease_ms: int) -> float:
    """Return how often a transaction with this lease is extended: 3.2 s for 10 s, 24.5 s for 10 minutes."""
    return lease_ms / max(1.0, math.sqrt(lease_ms / 1000)) / 1000


class TransactionState(StrEnum):
    """Where a transaction is, as far as its writer knows; a text for sentences."""

    OPEN = "open"
    COMMITTING = "being committed"
    COMMITTED = "committed"
    ABORTING = "being aborted"
    ABORTED = "aborted"
    DETACHED = "detached: another caller ends it"
    ENDED = "no longer open: its lease ran out, or another caller has ended it"


class Transaction(RoutedWriter):
    """An open transaction. As a context manager it commits, or aborts if an exception leaves the block.

    Once it is not open any more, every call but :meth:`status` is refused at once with its state.
    """

    _leaving_is_a_call = True

    def __init__(self, owner: TxnWriter, txn_id: int, segments: SegmentMap, form: EventForm) -> None:
        super().__init__(owner.scope, owner.stream, owner.services, owner.config, segments, form)
        self.txn_id = txn_id
        """The 128-bit id as a number."""
        self._owner = owner
        self._state = TransactionState.OPEN
        self._commits: set[asyncio.Future[None]] = set()
        """Calls of ``commit`` that have not ended."""
        self._commit_was_sent = False
        # Events without a key stay together, as with other clients of the protocol.
        self._default_key = str(self.txn_uuid)

    @property
    def txn_uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self.txn_id)

    def __repr__(self) -> str:
        state = f"{self.txn_uuid}, {self._state}"
        return described("aio.Transaction", f"{self.scope}/{self.stream}", self.uri, state)

    @property
    def is_open(self) -> bool:
        """It was neither committed nor aborted through this object. The server may think otherwise."""
        return self._state in {TransactionState.OPEN, TransactionState.COMMITTING}

    @property
    def has_ended(self) -> bool:
        """There is nothing to commit and nothing to abort through this object."""
        return not self.is_open and self._state is not TransactionState.ABORTING

    @property
    def is_aborted(self) -> bool:
        """It was aborted through this object, or its writer was notified of that."""
        return self._state is TransactionState.ABORTED

    def refusal(self) -> HeadraceError:
        """Return why nothing is taken: the state, unless the transaction is open."""
        if self._state is TransactionState.OPEN:
            return super().refusal()
        return TransactionStateError(f"transaction {self.txn_uuid} is {self._state}")

    def _check_open(self) -> None:
        if self._state is not TransactionState.OPEN:
            raise self.refusal()

    def _address(self, segment_id: int) -> SegmentAddress:
        return SegmentAddress(self.scope, self.stream, segment_id, self.txn_id)

    def on_segment_ended(self, output: SegmentOutput) -> None:
        """The shadow is sealed or gone: so is the transaction."""
        self._set_ended(TransactionState.ENDED)
        self._drop(output, self.refusal())

    def on_lease_ended(self, status: TransactionStatus) -> None:
        """The controller says that the transaction has ended, and how."""
        if self._state is TransactionState.OPEN:
            self._end(_STATE_OF.get(status, TransactionState.ENDED))

    async def flush(self) -> None:
        """Wait until every event taken so far is durable.

        Raises:
            TransactionStateError: the transaction is not open any more.
            HeadraceError: why an event is not durable; the transaction cannot be committed then.
        """
        self._check_open()
        await super().flush()

    async def drain(self) -> None:
        """See :meth:`RoutedWriter.drain`. Raises TransactionStateError: it is not open any more."""
        self._check_open()
        await super().drain()

    async def commit(self, timestamp: datetime | int | None = None, *, wait: bool = False) -> None:
        """Make every event durable, then decide that all of them become visible.

        Nothing is taken meanwhile. A call that fails before it has asked the controller leaves the
        transaction open; cancelled, or with an unknown outcome, it may be called again.

        Args:
            timestamp: noted for the writer when the transaction is visible, as by
                :meth:`EventWriter.note_time`.
            wait: return only when it is.

        Raises:
            InvalidArgumentError: ``timestamp`` is no time; the transaction stays open.
            TransactionStateError: it was committed or detached, or has ended otherwise; then none of its
                events will be visible.
            UnknownOutcomeError: whether it is decided is unknown; commit again, or ask for its status.
        """
        if not self.is_open:
            raise self.refusal()
        noted = None if timestamp is None else event_time(timestamp)
        self._state = TransactionState.COMMITTING
        self._stop_taking()
        ended = asyncio.get_running_loop().create_future()
        self._commits.add(ended)
        try:
            await self._settle()
            status = await self._ask_to_commit(noted, wait=wait)
        finally:
            self._commits.discard(ended)
            ended.set_result(None)
            if self._state is TransactionState.COMMITTING and not (self._commits or self._commit_was_sent):
                self._state = TransactionState.OPEN
                self._go_on_taking()
        self._end(TransactionState.COMMITTED)
        if wait and status is not TransactionStatus.COMMITTED:
            await self._wait_until_visible()

    async def _ask_to_commit(self, timestamp: int | None, *, wait: bool) -> TransactionStatus:
        owner = self._owner
        was_sent, self._commit_was_sent = self._commit_was_sent, True
        try:
            return await owner.transactions.commit(
                self.scope,
                self.stream,
                self.txn_id,
                owner.writer_id,
                timestamp,
                wait_ms=VISIBLE_WAIT_MS if wait else 0,
            )
        except (TransactionStateError, NoSuchTransactionError):
            self._end(TransactionState.ENDED)
            raise
        except (RequestError, OwnershipError, OverloadError):  # it did not happen this time
            self._commit_was_sent = was_sent
            raise

    async def _wait_until_visible(self) -> None:
        attempt = 0
        while True:
            status = await self.status()
            if status is TransactionStatus.COMMITTED:
                return
            if status is not TransactionStatus.COMMITTING:
                raise TransactionStateError(f"transaction {self.txn_uuid} is {status.name}")
            await asyncio.sleep(_VISIBLE_POLL_S[min(attempt, len(_VISIBLE_POLL_S) - 1)])
            attempt += 1

    async def wait_committed(self) -> None:
        """Wait until no call of :meth:`commit` is in progress, whatever it came to."""
        while self._commits:
            await asyncio.wait(list(self._commits))

    async def abort(self) -> None:
        """Drop every event. Does nothing if it is aborted already; repeated if that is unknown.

        Raises:
            TransactionStateError: it was committed, or detached.
        """
        if self.is_aborted:
            return
        if self._state in {TransactionState.COMMITTED, TransactionState.DETACHED}:
            raise self.refusal()
        self._end(TransactionState.ABORTING)
        try:
            await self._owner.transactions.abort(self.scope, self.stream, self.txn_id)
        except TransactionStateError:
            self._set_ended(TransactionState.COMMITTED)
            raise
        except NoSuchTransactionError:
            self._set_ended(TransactionState.ENDED)
            raise
        self._set_ended(TransactionState.ABORTED)

    async def status(self) -> TransactionStatus:
        """Ask the controller where the transaction is."""
        return await self._owner.transactions.status(self.scope, self.stream, self.txn_id)

    def detach(self, *, keep_alive: bool = False) -> int:
        """Leave the flushed transaction open for another caller to commit; return its id.

        Args:
            keep_alive: ping it until it has ended or its writer is closed. Otherwise its lease has to cover
                the time until it is committed.

        Raises:
            TransactionStateError: it is not open any more.
            PreconditionError: not every event is durable, flush it first. Nothing changed.
            HeadraceError: why an event is not.
        """
        self._check_open()
        self._stop_taking()
        if self._error is not None:
            raise self._error
        if self.bytes_held:
            self._go_on_taking()
            raise PreconditionError(
                f"transaction {self.txn_uuid} has {self.bytes_held} unacknowledged bytes: flush it first"
            )
        self._end(TransactionState.DETACHED)
        if keep_alive:
            self._owner.keep_alive(self.txn_id)
        return self.txn_id

    def _end(self, state: TransactionState) -> None:
        self._set_ended(state)
        self._leave()

    def _set_ended(self, state: TransactionState) -> None:
        self._state = state
        self._stop_taking()
        self._owner.forget(self)

    async def close(self) -> None:
        """Abort the transaction if it is open. Idempotent."""
        if not self.has_ended:
            await self.abort()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.is_open:
            return
        if kind is None:
            await self.commit()
            return
        with contextlib.suppress(HeadraceError):  # the exception being raised matters more
            await self.abort()


_STATE_OF: Final = {
    TransactionStatus.COMMITTING: TransactionState.COMMITTED,
    TransactionStatus.COMMITTED: TransactionState.COMMITTED,
    TransactionStatus.ABORTING: TransactionState.ABORTED,
    TransactionStatus.ABORTED: TransactionState.ABORTED,
}


@dataclass(slots=True)
class TxnWriterStatistics:
    """Ids of the transactions that are open as far as their writer knows."""

    open: list[int]


class TxnWriter(OfOneProcess):
    """Begins transactions on one stream and keeps them alive. Made by :meth:`Client.txn_writer`."""

    def __init__(
        self,
        scope: str,
        stream: str,
        services: ClientServices,
        transactions: Transactions,
        config: WriterConfig,
        *,
        writer_id: str,
        lease_ms: int,
        find_form: Callable[[], Awaitable[EventForm]],
    ) -> None:
        if lease_ms < LEASE_MIN_MS:
            raise InvalidArgumentError(f"a lease of {lease_ms} ms is below {LEASE_MIN_MS} ms")
        self.scope = scope
        self.stream = stream
        self.place = f"{scope}/{stream}"
        self.services = services
        self.transactions = transactions
        self.config = config
        self.writer_id = writer_id
        self._find_form = find_form
        self.lease_ms = lease_ms
        self._open: dict[int, Transaction | None] = {}
        """What is kept alive; None stands for a transaction that another caller commits."""
        self._tasks = Supervisor(f"transactions of {scope}/{stream}")
        self._pinging = False
        self._stopped = False
        self.is_ended = False
        """Closed; open transactions were aborted, or left to their leases."""

    def __repr__(self) -> str:
        state = f"{len(self._open)} open transactions"
        return described("aio.TxnWriter", f"{self.scope}/{self.stream}", self.services.uri, state)

    async def begin(self) -> Transaction:
        """Begin a transaction. Raises NoSuchStreamError, or what else forbids it."""
        self._check_open()
        created, form = await self._with_form(
            self.transactions.create(self.scope, self.stream, self.lease_ms)
        )
        return self._adopt(created, form)

    async def begin_tagged(self, tag: TransactionTag) -> Transaction | SinkWatermark:
        """Begin a transaction of a sink's batch; the watermark is returned if the batch is in already."""
        self._check_open()
        created, form = await self._with_form(
            self.transactions.create_tagged(self.scope, self.stream, self.lease_ms, tag)
        )
        return self._adopt(created, form) if isinstance(created, CreatedTransaction) else created

    async def resume(self, txn_id: int) -> Transaction:
        """Continue an open transaction that another caller began.

        Raises:
            TransactionStateError: it is not open.
        """
        self._check_open()
        status, form = await self._with_form(self.transactions.status(self.scope, self.stream, txn_id))
        if status is not TransactionStatus.OPEN:
            raise TransactionStateError(f"transaction {uuid.UUID(int=txn_id)} is {status.name}")
        epoch = txn_id >> 96
        listed = await self.services.segments.of_epoch(self.scope, self.stream, epoch)
        # Shadows are named by the transaction's epoch, whichever epoch created their parents.
        ranges = [
            SegmentRange(epoch << 32 | each.segment_id & 0xFFFF_FFFF, each.key_range) for each in listed
        ]
        return self._adopt(CreatedTransaction(txn_id, tuple(ranges)), form)

    async def _with_form(self, call: Coroutine[Any, Any, T]) -> tuple[T, EventForm]:
        """Make a call, and ask meanwhile how events are written: each time, for a stream may be another one
        of its name.
        """
        asking = asyncio.ensure_future(self._find_form())
        asking.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # told by the call as well
        try:
            return await call, await asking
        finally:
            asking.cancel()

    def _check_open(self) -> None:
        if self._stopped:
            raise ClosedError(f"the writer of transactions of {self.place} is closed")

    def _adopt(self, created: CreatedTransaction, form: EventForm) -> Transaction:
        self._check_open()  # it may have been closed since; then the lease of the transaction ends it
        transaction = Transaction(self, created.txn_id, SegmentMap(created.segments), form)
        self._open[created.txn_id] = transaction
        if not self._pinging:
            self._pinging = True
            self._tasks.spawn("ping", self._ping())
        return transaction

    async def _ping(self) -> None:
        """Extend all leases, again and again, as long as a transaction is open."""
        while self._open:
            await asyncio.sleep(ping_interval_s(self.lease_ms))
            for txn_id in list(self._open):
                await self._ping_one(txn_id)
        self._pinging = False

    async def _ping_one(self, txn_id: int) -> None:
        try:
            is_open = await self.transactions.ping(self.scope, self.stream, txn_id, self.lease_ms)
        except RequestError:
            is_open = False
        except HeadraceError:
            return  # unknown: the next round tries again well before the lease runs out
        if is_open:
            return
        transaction = self._open.pop(txn_id, None)
        if transaction is not None:
            status = TransactionStatus.UNKNOWN
            with contextlib.suppress(HeadraceError):
                status = await transaction.status()
            transaction.on_lease_ended(status)

    def statistics(self) -> TxnWriterStatistics:
        """Return which transactions are kept alive."""
        return TxnWriterStatistics(list(self._open))

    def keep_alive(self, txn_id: int) -> None:
        """Ping a transaction that is not written here any more."""
        self._open[txn_id] = None

    def forget(self, transaction: Transaction) -> None:
        """A transaction has ended."""
        self._open.pop(transaction.txn_id, None)

    unit = "events"
    lost = 0
    """What was not committed is not lost: it never happened."""

    async def close(self) -> None:
        """Abort every open transaction that was not detached, and stop. Idempotent.

        A transaction that is being committed is waited for.
        """
        self._stopped = True
        await self._tasks.stop()
        for transaction in [each for each in self._open.values() if each is not None]:
            await transaction.wait_committed()
            with contextlib.suppress(HeadraceError):  # its lease ends it
                await transaction.close()
            self.forget(transaction)
        self.is_ended = True
        self.services.open_writers.forget(self)

    finish = close

    def abandon(self, error: HeadraceError) -> None:
        """Leave open transactions to their leases; what they have been given and not stored fails."""
        self._stopped = True
        for transaction in list(self._open.values()):
            if transaction is not None:
                transaction.abandon(error)
        self._open.clear()
        self.is_ended = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

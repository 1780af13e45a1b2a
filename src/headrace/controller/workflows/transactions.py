"""What one may do with transactions: begin, extend, commit, abort, ask.

Commit and abort record a decision and return; merging and deleting happen afterwards. A decision is a
change of one row under its version, so of two that are made at the same time one loses and sees the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final

from headrace.controller.config import ControllerConfig
from headrace.controller.context import ControllerContext
from headrace.controller.events.event import EventKind, RequestEvent
from headrace.controller.store.rows.txn_row import NO_TIME, TxnRow, TxnState
from headrace.controller.streams.stream import Stream
from headrace.controller.transactions import txn_state
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.timeouts import Timeouts
from headrace.controller.transactions.txn_ids import generalised_id, shadow_segment
from headrace.controller.workflows.abort_txn import Aborts, finish_abort
from headrace.controller.workflows.batch_commit import BatchCommits
from headrace.errors import (
    HeadraceError,
    NoSuchTransactionError,
    StreamBusyError,
    StreamSealedError,
    TransactionStateError,
)
from headrace.model.transaction_tag import TransactionTag
from headrace.runtime.logs import logger
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

TXN_ID_BYTES: Final = 16
"""Of the payload of a ``TXN_WORK`` event, big endian."""
FINISH_S: Final = 10.0
"""How long the end of a decided transaction is waited for; who asks for it does not wait so long."""
_ENDLESS_TASKS: Final = 1
"""It waits for leases to run out."""


class Status(Enum):
    """What a caller may learn about a transaction."""

    UNKNOWN = auto()
    OPEN = auto()
    COMMITTING = auto()
    COMMITTED = auto()
    ABORTING = auto()
    ABORTED = auto()


class PingOutcome(Enum):
    OK = auto()
    LEASE_TOO_LARGE = auto()
    LIFETIME_EXCEEDED = auto()
    COMMITTED = auto()
    ABORTED = auto()
    UNKNOWN = auto()


_STATUS_OF = {
    TxnState.OPEN: Status.OPEN,
    TxnState.PREPARED: Status.OPEN,
    TxnState.COMMITTING: Status.COMMITTING,
    TxnState.ABORTING: Status.ABORTING,
}


class Transactions:
    """All transactions of all streams. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._supervisor = Supervisor("transactions")
        self._timeouts = Timeouts(self._expire)
        self._aborts = Aborts(context, self._supervisor)
        self.batches = BatchCommits(context, self.abort_open, self._look_after)
        context.buckets.on_release(self._release)
        context.events.handle(EventKind.TXN_WORK, self._on_event)

    @property
    def _config(self) -> ControllerConfig:
        return self._context.config

    async def start(self) -> None:
        """Let leases run out from now on. Transactions are taken over with their buckets."""
        self._supervisor.spawn("timeouts", self._timeouts.run())

    async def stop(self) -> None:
        await self._supervisor.stop()

    # ---------------------------------------------------------------------------------- begin

    async def create(self, stream: Stream, lease_ms: int, tag: TransactionTag | None = None) -> Txn:
        """Begin a transaction on the active epoch; its segments exist when this returns.

        Raises:
            InvalidArgumentError: the lease is out of bounds.
            StreamSealedError: the stream takes nothing new.
        """
        config, context = self._config, self._context
        txn_state.check_lease(lease_ms, config.lease_ms_min, config.lease_ms_max)
        check_open(stream)
        record, rollover_bytes = stream.row.epoch, stream.row.config.rollover_size_bytes
        txn_id = await context.txn_ids.next(record.reference)
        now_ms, began_s = context.clock.now_ms(), asyncio.get_running_loop().time()
        row = txn_state.open_txn(stream.scope, stream.name, lease_ms, now_ms, config.txn_lifetime_ms_max, tag)
        txn = await context.registry.add(stream.uid, txn_id, row)
        txn.segments = record.segments
        shadows = [
            shadow_segment(stream.segment(generalised_id(segment.number, txn_id)), txn_id)
            for segment in record.segments
        ]
        try:
            await asyncio.gather(
                self._begin_lease(stream, txn),
                context.segments.create(shadows, rollover_bytes=rollover_bytes),
            )
            await stream.refresh()
            # A seal that began meanwhile may have looked for open transactions before this one had a row.
            check_open(stream)
            # No lease ends before its time; the transactions of a sink's batch may be aborted for another.
            took_ms = (asyncio.get_running_loop().time() - began_s) * 1000
            if tag is not None or took_ms > lease_ms / 2:
                present = await context.registry.find(stream.uid, txn_id)
                if present is None or present.row.state is TxnState.ABORTING:
                    raise StreamBusyError(f"transaction {txn_id:032x} expired before it was complete")
        except HeadraceError:
            await self.abort_open(stream, txn)
            # Another controller may have aborted it, and looked for its segments too early.
            await context.segments.delete(shadows)
            raise
        return txn

    # ---------------------------------------------------------------------------------- decide

    async def get_stream(self, scope: str, name: str, txn_id: int) -> Stream:
        """Return the stream of a transaction.

        One that is known to have, or to have had, this transaction is not read again: no other stream of that
        name ever has it.

        Raises:
            NoSuchStreamError: there is no stream of that name.
        """
        context = self._context
        stream = context.directory.known(scope, name)
        if stream is not None and (
            context.registry.knows(stream.uid, txn_id)
            or context.outcomes.known(stream.uid, txn_id) is not None
        ):
            return stream
        return await context.directory.get(scope, name)

    async def commit(self, stream: Stream, txn_id: int, writer: str, commit_time: int = NO_TIME) -> None:
        """Decide to commit. Repeatable, also after the transaction is finished.

        Raises:
            NoSuchTransactionError: it is unknown, aborted or being aborted.
            TransactionStateError: it belongs to a batch.
        """
        while (txn := await self._context.registry.find_to_write(stream.uid, txn_id)) is not None:
            if txn.row.state is TxnState.ABORTING:
                raise NoSuchTransactionError(f"transaction {txn_id:032x} was aborted")
            row = txn_state.commit(txn.row, writer, commit_time)
            if row is txn.row or await self._context.registry.write(txn, row):
                self._look_after(stream, txn)
                return
        if not await self._context.outcomes.find(stream.uid, txn_id):
            raise NoSuchTransactionError(f"transaction {txn_id:032x} is unknown or was aborted")

    async def abort(self, stream: Stream, txn_id: int) -> None:
        """Decide to abort. Repeatable, also after the transaction is finished.

        Raises:
            NoSuchTransactionError: it is unknown.
            TransactionStateError: it is committed.
        """
        txn = await self._context.registry.find(stream.uid, txn_id)
        if txn is None:
            committed = await self._context.outcomes.find(stream.uid, txn_id)
            if committed is None:
                raise NoSuchTransactionError(f"transaction {txn_id:032x} is unknown")
            if committed:
                raise TransactionStateError(f"transaction {txn_id:032x} is committed")
            return
        if not await self.abort_open(stream, txn):
            raise TransactionStateError(f"transaction {txn_id:032x} is committed")

    async def abort_open(self, stream: Stream, txn: Txn, version: int | None = None) -> bool:
        """Abort the transaction unless it is decided; return whether it is (being) aborted.

        With ``version``, do nothing if the row is no longer the one of that version.
        """
        registry = self._context.registry
        while version is None or txn.version == version:
            match txn.row.state:
                case TxnState.OPEN:
                    if await registry.write(txn, txn_state.abort(txn.row)):
                        self._look_after(stream, txn)
                        return True
                case TxnState.ABORTING:
                    self._look_after(stream, txn)
                    return True
                case TxnState.PREPARED:
                    if await self.batches.abort_undecided(stream, txn):
                        self._look_after(stream, txn)
                        return True
                case TxnState.COMMITTING:
                    return False
            found = await registry.find(txn.uid, txn.txn_id)
            if found is None:
                return await self._context.outcomes.find(txn.uid, txn.txn_id) is False
            txn = found
        return False

    # ---------------------------------------------------------------------------------- ask, extend

    async def status(self, stream: Stream, txn_id: int, wait_s: float = 0.0) -> Status:
        """Return the present state; if the transaction is decided, as :meth:`outcome` does."""
        outcomes = self._context.outcomes
        committed = outcomes.is_merged(stream.uid, txn_id) or outcomes.known(stream.uid, txn_id)
        if committed is None:
            txn = await self._context.registry.find(stream.uid, txn_id)
            if txn is not None and wait_s > 0 and _is_decided(txn):
                return await self.outcome(stream, txn_id, wait_s)
            if txn is not None:
                return _STATUS_OF[txn.row.state]
            committed = await outcomes.find(stream.uid, txn_id)
        if committed is None:
            return Status.UNKNOWN
        return Status.COMMITTED if committed else Status.ABORTED

    async def outcome(self, stream: Stream, txn_id: int, wait_s: float) -> Status:
        """Return the state of a decided transaction.

        The answer waits for the end of it, ``wait_s`` at most, if this controller works for it, or the one
        that does tells it: a caller that asks until it is visible need not ask again and again.
        """
        if self._is_owner(stream):
            await self._context.outcomes.wait_recorded(stream.uid, txn_id, wait_s, or_merged=True)
        else:
            await self._context.owners.wait_ended(stream, [txn_id], wait_s)
        return await self.status(stream, txn_id)

    async def wait_visible(self, stream: Stream, txn_ids: Sequence[int]) -> None:
        """Wait until none of these transactions, which were just read and are decided, is unfinished."""
        registry, left = self._context.registry, list(txn_ids)
        if left and not self._is_owner(stream) and await self._context.owners.wait_ended(stream, left):
            ended = await self._context.outcomes.find_many(stream.uid, left)
            unseen = [txn_id for txn_id in left if txn_id not in ended]
            left = [txn.txn_id for txn in await registry.find_many(stream.uid, unseen) if txn is not None]
        await registry.wait_removed(stream.uid, left)

    async def ping(self, stream: Stream, txn_id: int, lease_ms: int) -> PingOutcome:
        """Extend the lease of an open transaction to ``lease_ms`` from now."""
        context = self._context
        while (txn := await context.registry.find(stream.uid, txn_id)) is not None:
            match txn.row.state:
                case TxnState.COMMITTING:
                    return PingOutcome.COMMITTED
                case TxnState.ABORTING:
                    return PingOutcome.ABORTED
                case _:
                    pass
            if lease_ms > self._config.lease_ms_max or lease_ms < 0:
                return PingOutcome.LEASE_TOO_LARGE
            if context.clock.now_ms() + lease_ms > txn.row.end_of_life_ms:
                return PingOutcome.LIFETIME_EXCEEDED
            if txn.row.state is TxnState.PREPARED:
                return PingOutcome.OK  # its lease cannot expire
            armed = txn.watched
            if await context.registry.write(txn, txn_state.extend_lease(txn.row, lease_ms)):
                if self._is_owner(stream):
                    self._arm(txn)
                else:
                    txn.watched = armed  # the owner finds the new row when the lease that it knows runs out
                return PingOutcome.OK
        committed = await context.outcomes.find(stream.uid, txn_id)
        if committed is None:
            return PingOutcome.UNKNOWN
        return PingOutcome.COMMITTED if committed else PingOutcome.ABORTED

    # ---------------------------------------------------------------------------------- own

    async def adopt(self, scope: str, stream_name: str, txn_id: int) -> None:
        """Do what the row of a transaction says, as the owner of its bucket. Repeatable."""
        stream = await self._context.directory.find(scope, stream_name)
        txn = None if stream is None else await self._context.registry.find(stream.uid, txn_id)
        if stream is not None and txn is not None:
            await self.go_on(stream, txn)

    async def finish(self, stream: Stream, txn_ids: Sequence[int]) -> bool:
        """Carry out what was decided, as the owner of the bucket, and wait for the end of it.

        Return whether all have ended: False if one is not decided.
        """
        outcomes, uid = self._context.outcomes, stream.uid
        found = await self._context.registry.find_many(uid, txn_ids)
        unfinished = [txn for txn in found if txn is not None]
        for txn in unfinished:
            self._carry_out(stream, txn)
        decided = [txn.txn_id for txn in unfinished if _is_decided(txn)]
        await asyncio.gather(*(outcomes.wait_recorded(uid, txn_id, FINISH_S) for txn_id in decided))
        return all(outcomes.known(uid, txn.txn_id) is not None for txn in unfinished)

    async def go_on(self, stream: Stream, txn: Txn) -> None:
        """Go on with a transaction as it was just read: arm it, or carry out what was decided."""
        if txn.row.state is TxnState.PREPARED:
            await self.batches.finish_decided(stream, txn)
        elif txn.row.state is TxnState.COMMITTING and await self._context.outcomes.find(txn.uid, txn.txn_id):
            await self._context.registry.remove(txn.uid, [txn.txn_id])
            return
        self._carry_out(stream, txn)

    # ---------------------------------------------------------------------------------- seal

    async def settle(self, stream: Stream) -> list[Txn]:
        """Abort what is open and finish what is being aborted; return what is still undone.

        Called while the stream is being sealed, again and again until nothing is left.
        """
        for txn in await self._context.registry.all_of(stream.uid):
            if txn.row.state is TxnState.COMMITTING:
                continue
            if await self.abort_open(stream, txn):
                await finish_abort(self._context, stream, txn)
        return await self._context.registry.all_of(stream.uid)

    def busy(self) -> bool:
        """Whether transactions are being given up or aborted."""
        return len(self._supervisor.statistics().running) > _ENDLESS_TASKS

    def statistics(self) -> dict[str, int]:
        """Return how many transactions are in each state, armed and being aborted."""
        known = self._context.registry.statistics()
        return {**known, **self._timeouts.statistics(), "aborts": self._aborts.count}

    # ---------------------------------------------------------------------------------- inside

    def _is_owner(self, stream: Stream) -> bool:
        return self._context.buckets.owns_stream(stream.scope, stream.name)

    def _look_after(self, stream: Stream, txn: Txn) -> None:
        """See that the owner of the transaction does what its row says.

        Should the notification be lost with this process, the owner finds the row when the lease that it
        knows runs out.
        """
        if self._is_owner(stream):
            self._carry_out(stream, txn)
        else:
            self._context.events.notify(_event_of(stream, txn))

    async def _begin_lease(self, stream: Stream, txn: Txn) -> None:
        """See that the owner of the transaction, which does not know of it, gives it up in time."""
        if not self._is_owner(stream):
            try:
                await self._context.events.post(_event_of(stream, txn))
            except HeadraceError as error:
                _log.warning("the owner of a bucket is not reached", error=str(error))
            else:
                return
        self._arm(txn)

    async def _on_event(self, event: RequestEvent) -> None:
        await self.adopt(event.scope, event.stream, int.from_bytes(event.payload, "big"))

    def _release(self, buckets: frozenset[int]) -> None:
        """Another controller looks after what is in ``buckets``."""
        bucket_of = self._context.buckets.bucket_of
        self._timeouts.drop(lambda txn: bucket_of(txn.row.scope, txn.row.stream) in buckets)
        self._context.registry.trim()

    def _arm(self, txn: Txn) -> None:
        delay_ms = txn_state.expiry_delay_ms(
            txn.row,
            self._context.clock.now_ms(),
            grace_ms_min=self._config.lease_grace_ms_min,
            prepared_ms_max=self._config.prepared_ms_max,
        )
        if delay_ms is not None:
            self._timeouts.arm(txn, delay_ms)

    def _expire(self, txn: Txn, version: int) -> None:
        self._supervisor.spawn("expiry", self._give_up(txn, version))

    async def _give_up(self, txn: Txn, version: int) -> None:
        """Abort a transaction whose lease has ended, unless its row has changed meanwhile."""
        if not self._context.buckets.is_member():
            return  # paused for too long: others have taken over, and armed it anew
        try:
            stream = await self._stream_of(txn.uid, txn.row)
            if stream is None:
                return
            if await self.abort_open(stream, txn, version):
                _log.info("transaction expired", stream=stream.full_name, txn=f"{txn.txn_id:032x}")
            elif (found := await self._context.registry.find(txn.uid, txn.txn_id)) is not None:
                # Its row is not the known one: the answer to a write was lost, and the read after it failed.
                # The writer of the row has neither gone on with it nor armed it.
                self._carry_out(stream, found)
        except HeadraceError as error:
            _log.warning("expiry is retried", txn=f"{txn.txn_id:032x}", error=str(error))
            self._timeouts.arm(txn, 1000)

    async def _stream_of(self, uid: bytes, row: TxnRow) -> Stream | None:
        stream = await self._context.directory.find(row.scope, row.stream)
        return stream if stream is not None and stream.uid == uid else None

    def _carry_out(self, stream: Stream, txn: Txn) -> None:
        """Do next what the row says, here."""
        match txn.row.state:
            case TxnState.OPEN | TxnState.PREPARED:
                self._arm(txn)
            case TxnState.COMMITTING:
                self._context.engine.wake(stream)
            case TxnState.ABORTING:
                self._aborts.begin(stream, txn)


def _is_decided(txn: Txn) -> bool:
    return txn.row.state in {TxnState.COMMITTING, TxnState.ABORTING}


def _event_of(stream: Stream, txn: Txn) -> RequestEvent:
    payload = txn.txn_id.to_bytes(TXN_ID_BYTES, "big")
    return RequestEvent(EventKind.TXN_WORK, stream.scope, stream.name, payload)


def check_open(stream: Stream) -> None:
    """Raise unless new transactions may begin: StreamBusyError (being created), StreamSealedError."""
    stream.check_readable()
    if stream.row.state.name in {"SEALING", "SEALED"}:
        raise StreamSealedError(f"stream {stream.full_name} is sealed: no transaction begins on it")

"""Commit many transactions as one batch of a sink: all of them or none, once, however often it is asked for.

The decision is one write of the sink's row, under the version at which it was read. Around it:

1. Read the sink's row.
2. *Pin* every transaction: write it PREPARED, so that its lease cannot expire. Even one that is PREPARED is
   written again.
3. *Decide*: write the mark, with the list, over the version of step 1.
4. Hand the transactions to the commit order, all in one update: PREPARED -> COMMITTING.
5. The mark is DONE, its list dropped; transactions that this and earlier batches left open are aborted.

A controller that dies before 3 leaves transactions that are PREPARED and nothing else. One that finds a
decided mark does 4 and 5 itself. A transaction that is PREPARED is only aborted if no later decision can
include it: read it; read the row of sinks and see that it is in no list; write that row (a *fence*: decisions
prepared before now fail at 3); then abort it under the version read first (pins made since then fail that).
Either side may have to begin again; neither misses what the other one wrote.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from headrace.controller.context import ControllerContext
from headrace.controller.store.contract import ABSENT
from headrace.controller.store.rows.sink_row import SinkMark, SinkPhase, SinkRow
from headrace.controller.store.rows.txn_row import TxnState
from headrace.controller.streams.stream import Stream
from headrace.controller.transactions import txn_state
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.sinks import SinkView
from headrace.errors import (
    InvalidArgumentError,
    MetadataConflictError,
    StreamSealedError,
    TransactionStateError,
)
from headrace.model.transaction_tag import TransactionTag
from headrace.runtime.logs import logger

_log = logger(__name__)

BATCH_TXNS_MAX = 4096
NAME_CHARS_MAX = 255
_ATTEMPTS_MAX = 100

AbortOpen = Callable[[Stream, Txn], Awaitable[bool]]
LookAfter = Callable[[Stream, Txn], None]


class Verdict(Enum):
    COMMITTED = auto()
    ALREADY = auto()
    FOREIGN = auto()
    MISSING = auto()


@dataclass(slots=True)
class BatchAnswer:
    """``mark`` is the sink's after the call; ``missing`` is a transaction that is not open."""

    verdict: Verdict
    mark: SinkMark | None = None
    missing: int | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of one sink. ``query`` names the execution whose batches are numbered."""

    sink: str
    query: str
    number: int

    def check(self) -> None:
        """Raises InvalidArgumentError."""
        for name in (self.sink, self.query):
            if not 1 <= len(name) <= NAME_CHARS_MAX:
                raise InvalidArgumentError(
                    f"sinks and queries have names of 1 to {NAME_CHARS_MAX} characters"
                )

    def is_in(self, mark: SinkMark | None) -> bool:
        """Whether the mark says that this batch, or a later one of the query, was decided."""
        return mark is not None and mark.query == self.query and mark.batch >= self.number


class BatchCommits:
    """Decides batches and helps those that were decided to their end. Used on the controller's loop."""

    def __init__(self, context: ControllerContext, abort_open: AbortOpen, look_after: LookAfter) -> None:
        """``look_after`` is called with one transaction of a decided batch, so that its stream merges them
        all, and with each that is PREPARED when a commit ends undecided: it has to be aborted or committed,
        though no caller may retry.
        """
        self._context = context
        self._abort_open = abort_open
        self._look_after = look_after

    async def find_mark(self, stream: Stream, sink: str) -> SinkMark | None:
        """Return how far a sink has come."""
        return (await self._context.sinks.read(stream.uid, sink)).row.mark

    async def commit(
        self, stream: Stream, batch: Batch, txn_ids: Sequence[int], *, takeover: bool = False
    ) -> BatchAnswer:
        """Commit ``txn_ids`` as ``batch``. Repeatable at any time, by anyone.

        Raises:
            InvalidArgumentError: a name or the list is out of bounds.
            StreamSealedError: the stream takes nothing new, and the batch is not in.
        """
        batch.check()
        if len(txn_ids) > BATCH_TXNS_MAX or len(set(txn_ids)) != len(txn_ids):
            raise InvalidArgumentError(f"a batch has at most {BATCH_TXNS_MAX} transactions, each once")
        for _ in range(_ATTEMPTS_MAX):
            answer = await self._try_commit(stream, batch, txn_ids, takeover=takeover)
            if answer is not None:
                return answer
            await asyncio.sleep(0)  # another caller changed the rows: it goes first
        raise MetadataConflictError(f"sink {batch.sink!r} is used by too many callers at once")

    async def abort(self, stream: Stream, batch: Batch) -> int:
        """Abort the undecided transactions that carry the tag of ``batch``; return how many."""
        aborted = 0
        for txn in await self._context.registry.all_of(stream.uid):
            tag = txn.row.tag
            if tag is None or (tag.sink, tag.query, tag.batch) != (batch.sink, batch.query, batch.number):
                continue
            if txn.row.state in {TxnState.OPEN, TxnState.PREPARED}:
                aborted += await self._abort_open(stream, txn)
        return aborted

    async def finish_decided(self, stream: Stream, txn: Txn) -> None:
        """If a batch was decided with the transaction, help it to its end."""
        if txn.row.tag is not None:
            mark = await self.find_mark(stream, txn.row.tag.sink)
            if mark is not None and txn.txn_id in mark.txn_ids:
                await self._roll_forward(stream, mark)

    async def abort_undecided(self, stream: Stream, txn: Txn) -> bool:
        """PREPARED -> ABORTING if it is undecided and stays so; return whether that was done.

        If it is decided, its batch is helped on instead. Nothing is done if the row changes meanwhile.
        """
        version, row = txn.version, txn.row
        if row.state is not TxnState.PREPARED:
            return False
        assert row.tag is not None  # set by pinning
        view = await self._context.sinks.read(stream.uid, row.tag.sink)
        if view.row.mark is not None and txn.txn_id in view.row.mark.txn_ids:
            await self._roll_forward(stream, view.row.mark)
            return False
        await self._enlist(stream, row.tag.sink, is_new=view.version == ABSENT)
        fenced = replace(view.row, fence=view.row.fence + 1)
        if not await self._context.sinks.write(stream.uid, view, fenced):
            return False
        return await self._context.registry.write(txn, txn_state.abort_undecided(row), version)

    # ---------------------------------------------------------------------------------- inside

    async def _try_commit(
        self, stream: Stream, batch: Batch, txn_ids: Sequence[int], *, takeover: bool
    ) -> BatchAnswer | None:
        """Go once through the steps; None: another controller was faster, begin again."""
        await stream.refresh()
        view = await self._context.sinks.read(stream.uid, batch.sink)
        mark = view.row.mark
        if mark is not None and mark.phase is SinkPhase.DECIDED:
            await self._roll_forward(stream, mark)
            if not batch.is_in(mark):
                return None
        if batch.is_in(mark):
            await self._abort_losers(stream, mark, txn_ids)
            return BatchAnswer(Verdict.ALREADY, mark)
        if mark is not None and mark.query != batch.query and not takeover:
            return BatchAnswer(Verdict.FOREIGN, mark)
        if stream.row.state.name in {"SEALING", "SEALED"}:
            raise StreamSealedError(f"stream {stream.full_name} is {stream.row.state.name}")
        pinned: list[Txn] = []
        try:
            answer = await self._decide(stream, batch, txn_ids, view, pinned)
        finally:
            for txn in pinned:
                if txn.row.state is TxnState.PREPARED:
                    self._look_after(stream, txn)
        if answer is not None and answer.verdict is Verdict.COMMITTED:
            await self._abort_left_open(stream, batch)
        return answer

    async def _decide(
        self, stream: Stream, batch: Batch, txn_ids: Sequence[int], view: SinkView, pinned: list[Txn]
    ) -> BatchAnswer | None:
        """Pin the transactions, which become those in ``pinned``, and decide on them."""
        missing = await self._pin(stream, batch, txn_ids, pinned)
        if missing is not None:
            # A twin of this request may have decided while it was looked at.
            if (await self._context.sinks.read(stream.uid, batch.sink)).version != view.version:
                return None
            return BatchAnswer(Verdict.MISSING, view.row.mark, missing)
        now_ms = self._context.clock.now_ms()
        decided = SinkMark(batch.sink, batch.query, batch.number, SinkPhase.DECIDED, now_ms, tuple(txn_ids))
        await self._enlist(stream, batch.sink, is_new=view.version == ABSENT)
        if not await self._context.sinks.write(stream.uid, view, SinkRow(view.row.fence, decided)):
            return None
        await self._roll_forward(stream, decided)
        pinned.clear()
        return BatchAnswer(Verdict.COMMITTED, replace(decided, phase=SinkPhase.DONE, txn_ids=()))

    async def _pin(
        self, stream: Stream, batch: Batch, txn_ids: Sequence[int], pinned: list[Txn]
    ) -> int | None:
        """Write every transaction PREPARED; return one that cannot be, if there is."""
        tag = TransactionTag(batch.sink, batch.query, batch.number, -1)
        outcomes = await asyncio.gather(
            *(self._pin_one(stream, txn_id, tag, pinned) for txn_id in txn_ids), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome  # once all are done: which ones are pinned is known then
        return next((txn_id for txn_id, done in zip(txn_ids, outcomes, strict=True) if not done), None)

    async def _pin_one(self, stream: Stream, txn_id: int, tag: TransactionTag, pinned: list[Txn]) -> bool:
        registry = self._context.registry
        while (txn := await registry.find_to_write(stream.uid, txn_id)) is not None:
            row = txn_state.prepare(txn.row, self._context.clock.now_ms(), tag)
            if row is None:
                return False
            if await registry.write(txn, row):
                pinned.append(txn)
                return True
        return False

    async def _roll_forward(self, stream: Stream, mark: SinkMark) -> None:
        """Hand the transactions of a decided batch to the commit order, then say so."""
        while (unmerged := await self._hand_over(stream, mark.txn_ids)) is None:
            pass  # another controller does it; each round has read the rows again
        for txn in unmerged[:1]:  # a merge of one reads all that are decided
            self._look_after(stream, txn)
        while True:
            view = await self._context.sinks.read(stream.uid, mark.sink)
            present = view.row.mark
            if present is None or present.phase is SinkPhase.DONE:
                return
            if (present.query, present.batch) != (mark.query, mark.batch):
                return
            done = replace(present, phase=SinkPhase.DONE, txn_ids=())
            if await self._context.sinks.write(stream.uid, view, SinkRow(view.row.fence, done)):
                return
            await asyncio.sleep(0)  # another caller changed the row: it goes first

    async def _hand_over(self, stream: Stream, txn_ids: Sequence[int]) -> list[Txn] | None:
        """PREPARED -> COMMITTING for all that are not yet; return those that are not merged.

        None: a row changed, begin again.
        """
        txns: list[Txn] = []
        unmerged: list[Txn] = []
        for txn_id, txn in zip(
            txn_ids, await self._context.registry.find_many(stream.uid, txn_ids), strict=True
        ):
            if txn is None:
                continue
            unmerged.append(txn)
            if txn.row.state is TxnState.COMMITTING:
                continue
            if txn.row.state is TxnState.ABORTING:
                raise TransactionStateError(f"transaction {txn_id:032x} was decided and aborted")
            txns.append(txn)
        rows = [txn_state.commit_decided(txn.row) for txn in txns]
        if txns and not await self._context.registry.write_in_order(txns, rows):
            return None
        return unmerged

    async def _abort_losers(self, stream: Stream, mark: SinkMark | None, txn_ids: Sequence[int]) -> None:
        """Abort what was given for a batch that is in without it."""
        decided = () if mark is None else mark.txn_ids
        for txn in await self._context.registry.find_many(stream.uid, txn_ids):
            if txn is not None and txn.txn_id not in decided:
                await self._abort_open(stream, txn)

    async def _abort_left_open(self, stream: Stream, batch: Batch) -> None:
        """Abort open transactions that carry the sink's tag and whose batch is over."""
        for txn in await self._context.registry.all_of(stream.uid):
            tag = txn.row.tag
            if tag is None or tag.sink != batch.sink or tag.batch > batch.number:
                continue
            if txn.row.state in {TxnState.OPEN, TxnState.PREPARED}:
                await self._abort_open(stream, txn)

    async def _enlist(self, stream: Stream, sink: str, *, is_new: bool) -> None:
        if is_new:
            now_ms, retention_ms = self._context.clock.now_ms(), self._context.config.sink_kept_ms
            await self._context.sinks.enlist(stream.uid, sink, now_ms, retention_ms)

"""Abort transactions: their segments go, then the outcome is recorded, then the row goes.

Does not wait in the queue of the stream: nothing else touches the segments of an aborted transaction.
"""

from __future__ import annotations

import asyncio
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.streams.stream import Stream
from headrace.controller.transactions.registry import Txn
from headrace.controller.transactions.txn_ids import epoch_of_txn, generalised_id, shadow_segment
from headrace.errors import DataCorruptionError, HeadraceError, NoSuchStreamError
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

ABORTS_AT_ONCE_MAX: Final = 64
"""Aborts carried out side by side; a take-over finds thousands, and each deletes segments."""
_RETRY: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1)


class Aborts:
    """Those that this controller carries out, a bounded number at once. Used on the controller's loop."""

    def __init__(self, context: ControllerContext, supervisor: Supervisor) -> None:
        self._context = context
        self._supervisor = supervisor
        self._slots = asyncio.Semaphore(ABORTS_AT_ONCE_MAX)
        self._running: set[tuple[bytes, int]] = set()

    @property
    def count(self) -> int:
        """Those that are not finished."""
        return len(self._running)

    def begin(self, stream: Stream, txn: Txn) -> None:
        """Carry the abort out in the background, until it is done. Idempotent."""
        key = (txn.uid, txn.txn_id)
        if key not in self._running:
            self._running.add(key)
            self._supervisor.spawn("abort", self._run(stream, txn))

    async def _run(self, stream: Stream, txn: Txn) -> None:
        failures = 0
        try:
            async with self._slots:
                while True:
                    try:
                        await finish_abort(self._context, stream, txn)
                    except NoSuchStreamError:
                        return
                    except HeadraceError as error:
                        failures += 1
                        _log.warning("abort is retried", stream=stream.full_name, error=str(error))
                        await asyncio.sleep(_RETRY.delay_s(failures, self._context.entropy.random()))
                    else:
                        return
        finally:
            self._running.discard((txn.uid, txn.txn_id))


async def finish_abort(context: ControllerContext, stream: Stream, txn: Txn) -> None:
    """Carry out what an ABORTING row says. Repeatable from any step."""
    await context.segments.delete(await shadow_segments(stream, txn.txn_id))
    await context.outcomes.record(stream.uid, [txn.txn_id], committed=False)
    await context.registry.remove(stream.uid, [txn.txn_id])


async def shadow_segments(stream: Stream, txn_id: int) -> list[str]:
    """Return the names of all segments of a transaction."""
    epoch = epoch_of_txn(txn_id)
    epochs = stream.epochs()
    record = epochs.row.epoch
    if record.reference != epoch:
        found = await epochs.find(epoch)
        if found is None:
            raise DataCorruptionError(f"stream {stream.full_name} has no stream epoch {epoch}")
        record = found
    return [
        shadow_segment(stream.segment(generalised_id(segment.number, txn_id)), txn_id)
        for segment in record.segments
    ]

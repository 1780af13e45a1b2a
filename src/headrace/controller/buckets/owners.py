"""What the owner of a stream's bucket tells a controller whose caller waits for the owner's work.

It says when looking at the rows is of use, and nothing else: whoever is not told, because the owner is not
known, refuses, or has died, looks at them after a pause. So neither safety nor liveness rests on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from headrace.controller.buckets.ownership import Buckets
from headrace.controller.streams.stream import Stream
from headrace.errors import HeadraceError, UnreachableError
from headrace.model.endpoint import Endpoint
from headrace.rpc.convert import txn_id_to_message
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import internal_pb2 as ib
from headrace.runtime.logs import logger

_log = logger(__name__)

AskController = Callable[[Endpoint, str, Any, float], Awaitable[Any]]
"""Makes an internal call: where, its method, the request, how many seconds it may take. Raises HeadraceError.
"""

WAIT_S: Final = 5.0
"""After so long the rows are looked at, whatever the owner says: it may be paused."""
_ANSWER_S: Final = 1.0
"""What an answer may take longer than it was to wait."""


async def ask_nobody(where: Endpoint, method: str, request: Any, timeout_s: float) -> Any:  # noqa: ARG001
    """Refuse every call: those of a controller that has no way to others."""
    raise UnreachableError("this controller calls no other one")


class Owners:
    """Asks them. Used on the controller's loop."""

    def __init__(self, buckets: Buckets, ask: AskController) -> None:
        self._buckets = buckets
        self._ask = ask

    async def wait_changed(self, stream: Stream) -> bool:
        """Wait until the owner says that the row of ``stream`` has changed since it was read here.

        Return False if it does not, for whatever reason.
        """
        request = ib.WaitStreamRequest(
            streamInfo=_info(stream), streamUid=stream.uid, version=stream.version, waitMs=_ms(WAIT_S)
        )
        return await self._is_told(stream, "waitStream", request, WAIT_S)

    async def wait_ended(self, stream: Stream, txn_ids: Iterable[int], wait_s: float = WAIT_S) -> bool:
        """Wait until the owner says that these transactions, which were decided, have ended.

        Return False if it does not within ``wait_s``, for whatever reason.
        """
        wait_s = min(wait_s, WAIT_S)
        request = ib.WaitTransactionsRequest(
            streamInfo=_info(stream),
            streamUid=stream.uid,
            txnIds=map(txn_id_to_message, txn_ids),
            waitMs=_ms(wait_s),
        )
        return await self._is_told(stream, "waitTransactions", request, wait_s)

    async def _is_told(self, stream: Stream, method: str, request: Any, wait_s: float) -> bool:
        departure = self._buckets.departure
        owner = await self._buckets.owner_of(self._buckets.bucket_of(stream.scope, stream.name))
        if owner is None:
            return False
        asking = asyncio.ensure_future(self._ask(owner, method, request, wait_s + _ANSWER_S))
        leaving = asyncio.ensure_future(departure.wait())  # it may be the owner that has gone
        try:
            await asyncio.wait([asking, leaving], return_when=asyncio.FIRST_COMPLETED)
            return asking.done() and bool(asking.result().isOver)
        except HeadraceError as error:
            _log.debug("the owner of a bucket tells nothing", owner=owner, error=str(error))
            return False
        finally:
            asking.cancel()
            leaving.cancel()


def _info(stream: Stream) -> pb.StreamInfo:
    return pb.StreamInfo(scope=stream.scope, stream=stream.name)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)

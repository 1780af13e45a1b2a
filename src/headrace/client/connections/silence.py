"""What is done about a server that says nothing: it is asked for a sign of life, and then whether it is left.

A host that was killed closes its connections. One that sleeps, or has lost its network, does not, and what it
served is served elsewhere long before TCP notices. So who knows where segments are is asked, again and again,
and a server that is only busy is not left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

from headrace.client.segment_address import SegmentAddress
from headrace.errors import ConnectionLostError, HeadraceError
from headrace.model.endpoint import Endpoint

EVERY_S: Final = 2.0
"""Between two looks at a connection."""
KEEP_ALIVE_AFTER_S: Final = 10.0
"""Of silence, on a connection on which nothing is waited for."""
DOUBT_AFTER_S: Final = 4.0
"""Of silence: two signs of life that were asked for have not come."""
DOUBT_EVERY_S: Final = 1.0
DEAD_AFTER_S: Final = 60.0

IsGone = Callable[[Endpoint, Sequence[SegmentAddress]], Awaitable[bool]]
"""Says whether a store does not serve any more what is asked of it there."""


class WatchedConnection(Protocol):
    """As much of a connection as its watch needs."""

    endpoint: Endpoint

    @property
    def silent_s(self) -> float: ...
    @property
    def flow_count(self) -> int: ...
    def addresses(self) -> list[SegmentAddress]: ...
    def keep_alive(self) -> None: ...
    def abort(self, error: Exception | None = None) -> None: ...


class SilenceWatch:
    """Of one connection, from :meth:`start` to :meth:`stop`."""

    def __init__(self, connection: WatchedConnection, is_gone: IsGone | None) -> None:
        self._connection = connection
        self._is_gone = is_gone
        self._timer: asyncio.TimerHandle | None = None
        self._asking: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._look)

    def stop(self) -> None:
        """Idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        if self._asking is not None and self._asking is not asyncio.current_task():
            self._asking.cancel()

    def _look(self) -> None:
        connection = self._connection
        silent_s = connection.silent_s
        if silent_s > DEAD_AFTER_S:
            connection.abort(ConnectionLostError(f"nothing received for {silent_s:.0f} s"))
            return
        loop = asyncio.get_running_loop()
        is_waited_for = connection.flow_count > 0
        if silent_s >= (EVERY_S if is_waited_for else KEEP_ALIVE_AFTER_S):
            connection.keep_alive()
        in_doubt = is_waited_for and silent_s >= DOUBT_AFTER_S
        if in_doubt and self._is_gone is not None and (self._asking is None or self._asking.done()):
            self._asking = loop.create_task(self._ask(self._is_gone))
        self._timer = loop.call_later(DOUBT_EVERY_S if in_doubt else EVERY_S, self._look)

    async def _ask(self, is_gone: IsGone) -> None:
        connection = self._connection
        with suppress(HeadraceError):  # nobody knows: it is asked again
            if await is_gone(connection.endpoint, connection.addresses()):
                silent_s = connection.silent_s
                connection.abort(
                    ConnectionLostError(f"nothing received for {silent_s:.0f} s, and another store serves it")
                )

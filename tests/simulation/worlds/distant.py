"""What a process reaches over a network: calls take time, and may fail, or happen and lose their reply.

Fault model: a call takes effect at some moment between its start and its answer, also if the process that
made it is killed or paused meanwhile; some are refused without effect (:attr:`Weather.refused`), some take
effect and lose their reply (:attr:`Weather.lost`), a few take seconds (:attr:`Weather.slow`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any, Final

from headrace.errors import ConnectionLostError, ContainerOfflineError
from headrace.runtime.entropy import Entropy

_QUICK_MS: Final = 8
_SLOW_MS: Final = 4_000


@dataclass(slots=True)
class Weather:
    """Chances, of a thousand calls each."""

    refused: int = 0
    lost: int = 0
    slow: int = 0
    doubled: int = 0
    """Of appends: how many happen twice, as if a former reply had been lost."""

    def calm(self) -> None:
        """Let every call succeed from now on."""
        self.refused = self.lost = self.slow = self.doubled = 0


class Distant:
    """The coroutine methods of ``target``, reached over the network. To be made outside of any process."""

    def __init__(self, target: object, entropy: Entropy, weather: Weather) -> None:
        self._target = target
        self._entropy = entropy
        self._weather = weather
        self._world = copy_context()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(method):
            return method

        async def call(*args: Any, **kwargs: Any) -> Any:
            times = 2 if name == "append" and "expected_offset" not in kwargs and self._is("doubled") else 1
            effect = self._effect(lambda: method(*args, **kwargs), times)
            happening = asyncio.get_running_loop().create_task(effect, context=self._world.copy())
            try:
                value, error = await asyncio.shield(happening)
            except asyncio.CancelledError:
                if name == "read":  # it may wait for ever
                    happening.cancel()
                raise
            if error is not None:
                raise error
            return value

        return call

    async def _effect(
        self, call: Callable[[], Coroutine[Any, Any, Any]], times: int
    ) -> tuple[Any, Exception | None]:
        await self._travel()
        if self._is("refused"):
            return None, ContainerOfflineError("the container moves")
        try:
            value = await call()
            for _ in range(times - 1):
                value = await call()
        except Exception as error:
            await self._travel()
            return None, error
        await self._travel()
        if self._is("lost"):
            return None, ConnectionLostError("the reply was lost")
        return value, None

    async def _travel(self) -> None:
        longest_ms = _SLOW_MS if self._is("slow") else _QUICK_MS
        await asyncio.sleep(self._entropy.randbelow(longest_ms) / 1000)

    def _is(self, what: str) -> bool:
        chance: int = getattr(self._weather, what)
        return chance > 0 and self._entropy.randbelow(1000) < chance

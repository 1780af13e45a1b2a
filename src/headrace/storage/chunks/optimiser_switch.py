"""Pauses the optimisers of all containers of a process, until it ends or they are resumed."""

from __future__ import annotations

import asyncio
import logging

_logger = logging.getLogger(__name__)


class OptimiserSwitch:
    """Shared by the optimisers of a process: a container that restarts meanwhile stays paused. Used on the
    loop of the containers.
    """

    def __init__(self) -> None:
        self._on = asyncio.Event()
        self._on.set()

    @property
    def is_paused(self) -> bool:
        return not self._on.is_set()

    def pause(self) -> None:
        """Let no optimiser begin another step; one that is in the middle of a step ends it."""
        if not self.is_paused:
            _logger.info("the storage optimisers are paused")
        self._on.clear()

    def resume(self) -> None:
        """Let optimisers go on where they are."""
        if self.is_paused:
            _logger.info("the storage optimisers are resumed")
        self._on.set()

    async def wait_on(self) -> None:
        """Wait while it is paused."""
        await self._on.wait()

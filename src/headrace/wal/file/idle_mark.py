"""The durable mark of a log that is idle: no later record proves its last ones durable."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from headrace.errors import HeadraceError
from headrace.runtime.supervisor import Supervisor
from headrace.wal.file.group_commit import GroupCommit
from headrace.wal.file.truncation import Truncation

#: A log that is idle for so long writes a durable mark.
DURABLE_MARK_AFTER_S: Final = 1.0


class IdleMark:
    """Writes the mark once nothing has become durable for a while. Used on one loop."""

    def __init__(self, directory: str, commit: GroupCommit, truncation: Truncation) -> None:
        self._commit = commit
        self._truncation = truncation
        self._supervisor = Supervisor(f"log in {directory}")
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def on_idle(self) -> None:
        """Every frame has its answer."""
        if self._timer is None and not self._ended:
            loop = asyncio.get_running_loop()
            durable = self._commit.durable_sequence
            self._timer = loop.call_later(DURABLE_MARK_AFTER_S, self._on_timer, durable)

    def _on_timer(self, durable: int) -> None:
        self._timer = None
        commit = self._commit
        if commit.failure is not None or commit.frames_pending:
            return
        if commit.durable_sequence != durable:
            self.on_idle()
        else:
            self._supervisor.spawn("durable mark", self.write())

    async def write(self) -> None:
        """Write the mark now, if it says anything new and can be written."""
        with contextlib.suppress(OSError, HeadraceError):  # the next write will fail, too
            await self._truncation.write_durable_mark()

    def end(self) -> None:
        """Begin no mark in the background any more."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def stop(self) -> None:
        """Cancel a mark that is being written in the background, and wait for its end."""
        await self._supervisor.stop()

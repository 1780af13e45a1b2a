"""A write-ahead log in memory that takes time, fails and dies on purpose, for simulations of what is above.

Fault model. A write takes a while; several may be in flight. The n-th write may fail without effect, or
take effect and be called a failure, or be refused for lack of space; the process may die right before it or
right after it. What was acknowledged stays.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from headrace.errors import StorageFullError, WalWriteError
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.loop import SimulatedLoop
from headrace.wal.config import WalConfig
from headrace.wal.frame import Frame
from headrace.wal.memory import MemoryLogStore, MemoryWal


class WalFault(Enum):
    """What happens to one write of a log."""

    FAIL = "nothing is written, the outcome is reported as unknown"
    LOSE_REPLY = "it is written, the outcome is reported as unknown"
    FULL = "nothing is written, the caller gets an error: no space"
    DIE_BEFORE = "the process dies, nothing was written"
    DIE_AFTER = "the process dies, it was written"


class FaultyMemoryWal(MemoryWal):
    """A ``MemoryWal`` whose writes take up to ``write_s_max`` seconds; ``plan`` hits one of them."""

    def __init__(
        self,
        store: MemoryLogStore,
        name: str,
        config: WalConfig,
        loop: SimulatedLoop,
        entropy: SeededEntropy,
        *,
        write_s_max: float,
        kill: Callable[[], None],
    ) -> None:
        super().__init__(store, name, config)
        self._simulated = loop
        self._entropy = entropy
        self._kill = kill
        self._begun = 0
        self._written = 0
        self._planned: tuple[int, WalFault] | None = None
        self.write_s_max = write_s_max

    def plan(self, writes: int, fault: WalFault) -> None:
        """Let the write that comes after ``writes`` further ones meet ``fault``."""
        self._planned = (self._written + writes, fault)

    def _store_next(self) -> None:
        if self._begun < self._written + len(self._in_flight):
            # Called once per append: the write begins now and is done some time later, in order.
            self._begun += 1
            done_at = self._simulated.machine_time() + self._entropy.random() * self.write_s_max
            self._simulated.call_at_machine_time(done_at, self._finish_next)

    def _finish_next(self) -> None:
        planned = self._planned
        fault = planned[1] if planned is not None and planned[0] == self._written else None
        self._written += 1
        if fault is WalFault.DIE_BEFORE:
            self._kill()
            return
        if fault is WalFault.DIE_AFTER:
            frame = self._in_flight[0]
            frame.done = self._ignore
            super()._store_next()
            self._kill()
            return
        if fault is WalFault.FAIL:
            self._failure = WalWriteError("injected")
        elif fault is WalFault.FULL:
            self._failure = StorageFullError("injected")
        elif fault is WalFault.LOSE_REPLY:
            frame = self._in_flight[0]
            done = frame.done
            assert done is not None
            frame.done = lambda lost, _: done(lost, WalWriteError("injected"))
            super()._store_next()
            self._failure = self._failure or WalWriteError("injected")
            return
        super()._store_next()

    @staticmethod
    def _ignore(_: Frame, __: Exception | None) -> None:
        """The owner is gone."""

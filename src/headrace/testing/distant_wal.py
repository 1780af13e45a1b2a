"""A log that is asked over a network: what may wait does, whatever log it really is.

Fault model: none. Records, and the answer who owns the log, come after a while, so that other tasks run in
between and what was true when the question arrived need not be true any more when the answer does.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from headrace.runtime.entropy import SeededEntropy
from headrace.wal.contract import Wal, WalRecord


def make_distant(wal: Wal, entropy: SeededEntropy, way_s_max: float) -> Wal:
    """Return ``wal`` behind a network on which each way takes up to ``way_s_max``."""
    return cast("Wal", _DistantWal(wal, entropy, way_s_max))


class _DistantWal:
    """All that it has not itself is the real log's."""

    def __init__(self, wal: Wal, entropy: SeededEntropy, way_s_max: float) -> None:
        self._wal = wal
        self._entropy = entropy
        self._way_s_max = way_s_max

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wal, name)

    async def records(self) -> AsyncGenerator[WalRecord, None]:
        async with aclosing(self._wal.records()) as records:
            async for record in records:
                if not self._entropy.randbelow(3):  # the remaining ones came with the one before
                    await self._go()
                yield record

    async def copy_records(self) -> AsyncGenerator[list[bytes], None]:
        async with aclosing(self._wal.copy_records()) as pieces:
            async for piece in pieces:
                await self._go()
                yield piece

    async def is_fenced(self) -> bool:
        await self._go()
        fenced = await self._wal.is_fenced()
        await self._go()
        return fenced

    async def _go(self) -> None:
        await asyncio.sleep(self._way_s_max * self._entropy.random())

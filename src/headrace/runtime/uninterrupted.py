"""Work whose outcome has to be known before anybody else may go on, cancelled or not."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Execute ``work`` to its end. A caller that is cancelled meanwhile is cancelled behind it.

    For work that ends soon by itself: a second cancellation leaves it alone. Raises what it raises.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if not task.done():
            await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # its failure is less than the cancellation
        raise

"""An operation on its way to durability."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.segmentstore.operations.catalogue import Operation


class Ticket:
    """The operation, the address of the frame in which it ends, and the future that tells its caller."""

    __slots__ = ("address", "future", "operation")

    def __init__(self, operation: Operation, future: asyncio.Future[Any]) -> None:
        self.operation = operation
        self.future = future
        self.address = -1

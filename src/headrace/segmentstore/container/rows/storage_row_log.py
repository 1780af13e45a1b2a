"""Rows of long-term storage in the container's own log: a change is committed once its operation is durable.

Rows go through the fenced log, so a former owner can never commit one; metadata checkpoints have them, so
they survive the truncation of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from headrace.segmentstore.durablelog.operation_processor import OperationProcessor
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state.container_state import ContainerState


def _propose(changes: Mapping[str, bytes | None], sequence: int) -> ops.StorageRows:
    return ops.StorageRows(sequence, changes)


class LogRowStore:
    """Rows in a container's log, all of them in memory. Used on the container's loop."""

    def __init__(self, container: ContainerState, processor: OperationProcessor) -> None:
        self._container = container
        self._processor = processor

    def get(self, key: str) -> bytes | None:
        return self._container.storage_rows.get(key)

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        """Put and remove rows together; durable when it returns.

        Raises:
            WalWriteError: it may have happened; the container is ending.
            ContainerOfflineError: the container has ended.
            ThrottledError: too many requests wait; nothing happened.
        """
        size = sum(len(key) + len(value or b"") + 8 for key, value in changes.items())
        # Rows free memory and log: they must not wait behind appends that wait for these.
        await self._processor.submit(partial(_propose, dict(changes)), size, critical=True)

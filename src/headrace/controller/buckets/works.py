"""Tasks of the works on owned buckets: begun with a bucket, ended with it, repeated after failures."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from headrace.controller.buckets.contract import BucketWork
from headrace.errors import HeadraceError
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

_PATIENT: Final = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1)
_WELL_S: Final = 30.0
"""After so long a work was well, and its next failure is the first in a row."""


class Works:
    """One task per bucket and work. Used on the controller's loop."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._works: list[BucketWork] = []
        self._supervisor = Supervisor("bucket works")
        self._tasks: dict[int, list[asyncio.Task[Any]]] = {}

    def add(self, work: BucketWork) -> None:
        self._works.append(work)

    def begin(self, bucket: int) -> None:
        """Run every work on ``bucket``."""
        assert bucket not in self._tasks
        self._tasks[bucket] = [
            self._supervisor.spawn(f"{work.name} {bucket}", self._run(work, bucket)) for work in self._works
        ]

    def cancel(self, buckets: Iterable[int]) -> None:
        """Cancel what runs on ``buckets``; it may take time to end."""
        for bucket in buckets:
            for task in self._tasks.get(bucket, ()):
                if not task.cancelling():  # once: a second time would interrupt how it ends
                    task.cancel()

    async def end(self, buckets: Iterable[int]) -> None:
        """Wait until what was cancelled on ``buckets`` has ended."""
        buckets = list(buckets)
        ending = [task for bucket in buckets for task in self._tasks.get(bucket, ())]
        if ending:
            await asyncio.wait(ending)
        for bucket in buckets:
            self._tasks.pop(bucket, None)

    async def stop(self) -> None:
        """Cancel everything and wait until it has ended."""
        buckets = list(self._tasks)
        self.cancel(buckets)
        await self.end(buckets)

    async def _run(self, work: BucketWork, bucket: int) -> None:
        """Run a work for good, again after each failure."""
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began = loop.time()
            try:
                return await work.run(bucket)
            except Exception as error:  # noqa: BLE001 - it is reported, and the work has to go on
                _report(work, bucket, error)
            failures = 1 if loop.time() - began >= _WELL_S else failures + 1
            await asyncio.sleep(_PATIENT.delay_s(failures, self._entropy.random()))


def _report(work: BucketWork, bucket: int, error: Exception) -> None:
    while isinstance(error, ExceptionGroup) and error.split(HeadraceError)[1] is None:
        error = error.exceptions[0]
    if isinstance(error, HeadraceError):
        _log.warning("work on a bucket is retried", work=work.name, bucket=bucket, error=str(error))
    else:
        _log.error("work on a bucket failed and is retried", work=work.name, bucket=bucket, exc_info=error)

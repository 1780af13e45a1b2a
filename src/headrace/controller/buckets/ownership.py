"""The buckets of this controller, with the work that runs on each of them."""

from __future__ import annotations

from headrace.controller.buckets.contract import BucketWork
from headrace.errors import HeadraceError
from headrace.model.buckets import bucket_of
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.runtime.retry import RetryPolicy, retry
from headrace.runtime.supervisor import Supervisor

_log = logger(__name__)

_PATIENT = RetryPolicy(initial_s=0.1, multiplier=2.0, delay_max_s=30.0, attempts=1_000_000)


class Buckets:
    """Owns every bucket. Used on the controller's loop."""

    def __init__(self, count: int, entropy: Entropy) -> None:
        self.count = count
        self._entropy = entropy
        self._works: list[BucketWork] = []
        self._supervisor = Supervisor("buckets")

    def add(self, work: BucketWork) -> None:
        """Run ``work`` on each owned bucket. To be called before :meth:`start`."""
        self._works.append(work)

    async def start(self) -> None:
        """Claim buckets from now on."""
        for bucket in range(self.count):
            for work in self._works:
                self._supervisor.spawn(f"{work.name} {bucket}", self._run(work, bucket))

    async def stop(self) -> None:
        """End the work, wherever it is, and release the buckets."""
        await self._supervisor.stop()

    def bucket_of(self, scope: str, stream: str) -> int:
        return bucket_of(scope, stream, self.count)

    def owns(self, bucket: int) -> bool:
        """Whether this controller does the work of ``bucket`` now, as far as it knows."""
        return 0 <= bucket < self.count

    def owns_stream(self, scope: str, stream: str) -> bool:
        return self.owns(self.bucket_of(scope, stream))

    async def _run(self, work: BucketWork, bucket: int) -> None:
        await retry(
            _PATIENT,
            lambda: work.run(bucket),
            entropy=self._entropy,
            retryable=lambda error: _is_reported(work, bucket, error),
        )


def _is_reported(work: BucketWork, bucket: int, error: Exception) -> bool:
    if isinstance(error, HeadraceError):
        _log.warning("work on a bucket is retried", work=work.name, bucket=bucket, error=str(error))
    else:
        _log.error("work on a bucket failed and is retried", work=work.name, bucket=bucket, exc_info=error)
    return True

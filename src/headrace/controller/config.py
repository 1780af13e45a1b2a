"""Settings of one controller."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headrace.controller.settings.cut_series import CutSeriesConfig
from headrace.controller.settings.retention import RetentionConfig
from headrace.controller.settings.watermarks import WatermarkConfig
from headrace.errors import InvalidArgumentError
from headrace.runtime.settings import internal, tunable

BUCKETS_DEFAULT: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerConfig:
    """What a controller publishes, how long transactions live, how much memory it uses."""

    rpc_host: str = internal("127.0.0.1", help="Host name under which clients find this controller.")
    rpc_port: int = internal(9090, help="Port under which clients find this controller.")
    buckets: int = tunable(
        BUCKETS_DEFAULT,
        low=1,
        high=1024,
        simulate=(1, 4),
        help="Parts into which streams are divided, each with one owner. Fixed once data exist.",
    )
    page_rows_max: int = internal(1000, simulate=(1, 3), help="Entries of one page of a listing.")
    streams_cached_max: int = tunable(
        20_000, low=16, high=1_000_000, simulate=(16,), help="Streams whose rows are cached."
    )
    workflow_timeout_s: float = internal(
        120.0, help="A call waits this long for a workflow; the workflow goes on."
    )
    streams_at_once: int = internal(
        256,
        simulate=(1, 2),
        help="Streams whose workflows run at a time; the others wait. Each has some calls of segments in "
        "flight, and a row of up to 1 MiB.",
    )
    lease_ms_min: int = internal(10_000, help="Shortest lease of a transaction.")
    lease_ms_max: int = tunable(
        600_000, low=1_000, high=86_400_000, help="Longest lease of a transaction; raise it for slow batches."
    )
    lease_grace_ms_min: int = internal(
        30_000,
        help="An expired transaction is aborted after one more lease or this, whichever is longer.",
    )
    txn_lifetime_ms_max: int = tunable(
        86_400_000, low=1_000, high=30 * 86_400_000, help="Leases extend no transaction beyond this age."
    )
    commit_batch_max: int = internal(100, simulate=(1, 2), help="Transactions merged by one step.")
    prepared_ms_max: int = internal(86_400_000, help="An undecided batch is aborted after this.")
    outcomes_kept_ms: int = tunable(
        86_400_000,
        low=86_400_000,
        high=30 * 86_400_000,
        help="At least so long it is known how a transaction ended, in whole days; each of them costs a "
        "question about an unknown transaction one read.",
    )
    sink_kept_ms: int = tunable(
        30 * 86_400_000,
        low=86_400_000,
        high=3650 * 86_400_000,
        help="How long the watermark of an unused sink is retained.",
    )
    cut_series: CutSeriesConfig = field(default_factory=CutSeriesConfig)
    watermarks: WatermarkConfig = field(default_factory=WatermarkConfig)
    retention: RetentionConfig = field(default_factory=RetentionConfig)

    def check(self) -> None:
        """Raises InvalidArgumentError if the settings contradict each other."""
        if self.lease_ms_min > self.lease_ms_max:
            raise InvalidArgumentError("lease_ms_min is larger than lease_ms_max")

"""The table that a segment store brings: every metric of its statistics, and every statistic that is none,
with its reason. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headrace.processes.metrics.container_metrics import CONTAINER_METRICS
from headrace.processes.metrics.store_metrics import STORE_METRICS
from headrace.web.metrics.metric import Metric

METRICS: Final[tuple[Metric, ...]] = (*STORE_METRICS, *CONTAINER_METRICS)

_A_MAXIMUM: Final = "a maximum since the start, which never falls again; the histogram or the gauge tells"
_A_LAST: Final = "the value of one moment; the histogram tells"
_IN_HISTOGRAM: Final = "part of the histogram"
_A_TEXT: Final = "a text; the REST interface shows it"
_A_NUMBER: Final = "a number in a sequence, neither an amount nor a rate"
_ELSEWHERE: Final = "the same as another metric"

LEFT_OUT: Final[Mapping[str, str]] = {
    "frames.frames_lent_max": _A_MAXIMUM,
    "loop_writes.write_seconds_mean": "the mean is the rate of the seconds by the rate of the writes",
    "loop_writes.write_seconds_max": _A_MAXIMUM,
    "loop_writes.pause_seconds_last": _A_LAST,
    "chunks.calls.{call}.calls": _IN_HISTOGRAM,
    "chunks.calls.{call}.seconds_total": _IN_HISTOGRAM,
    "chunks.calls.{call}.seconds_max": _A_MAXIMUM,
    "chunks.calls.{call}.in_flight_max": _A_MAXIMUM,
    "chunks.calls.{call}.refused": _A_TEXT,
    "chunks.calls.{call}.refused_at": "a moment of the loop's clock; the health of long-term storage tells",
    "containers.{container}.health.container_id": "the label",
    "containers.{container}.health.last_failure": _A_TEXT,
    "containers.{container}.tasks.spawned": "how many tasks began says nothing of health",
    "containers.{container}.tasks.stopped": _ELSEWHERE,
    "containers.{container}.durable_log.memory_log_operations": _ELSEWHERE,
    "containers.{container}.durable_log.processor.frames_in_flight": _ELSEWHERE,
    "containers.{container}.durable_log.processor.throttle.source": _A_TEXT,
    "containers.{container}.durable_log.wal.frames_written": _IN_HISTOGRAM,
    "containers.{container}.durable_log.wal.write_seconds_total": _IN_HISTOGRAM,
    "containers.{container}.durable_log.wal.write_seconds_last": _A_LAST,
    "containers.{container}.durable_log.wal.write_seconds_max": _A_MAXIMUM,
    "containers.{container}.durable_log.wal.disk_writes": _IN_HISTOGRAM,
    "containers.{container}.durable_log.wal.disk_seconds_total": _IN_HISTOGRAM,
    "containers.{container}.storage_writer.taken_sequence": _A_NUMBER,
    "containers.{container}.storage_writer.acknowledged_sequence": _A_NUMBER,
    "containers.{container}.optimiser.state": _A_TEXT,
    "containers.{container}.storage_checkpoints.held_from": _A_NUMBER,
}
"""By the path of the field."""

"""The table of metrics that a controller brings. Pure."""

from __future__ import annotations

from typing import Final

from headrace.web.metrics.metric import Kind, Metric, counters, gauges

CONTROLLER_METRICS: Final[tuple[Metric, ...]] = (
    *gauges(
        "controller.buckets",
        "headrace_controller",
        ("controllers", "members", "Live controllers of the cluster."),
        ("buckets", "buckets", "Buckets in all."),
        ("owned", "buckets_owned", "Buckets that this controller owns."),
    ),
    *gauges(
        "controller.workflows",
        "headrace_controller_workflows",
        ("streams_busy", "streams_busy", "Streams with work now."),
        ("requests_waiting", "calls_waiting", "Calls that wait for such work."),
    ),
    *counters(
        "controller.workflows",
        "headrace_controller_workflows",
        ("runs", "steps", "Steps of workflows that ran."),
        ("retries", "retries", "Steps that were repeated."),
        ("failures", "failures", "Steps that failed for good."),
    ),
    Metric(
        "controller.transactions.{state}",
        "headrace_controller_transactions",
        Kind.GAUGE,
        "Transactions by state; armed: with a lease that is watched, aborts: aborts that are not finished.",
    ),
    *gauges(
        "controller.streams",
        "headrace_controller_streams",
        ("streams", "cached", "Rows of streams in memory."),
        ("streams_max", "cached_limit", "Rows of streams that may be in memory."),
    ),
    *counters(
        "controller.streams",
        "headrace_controller_streams",
        ("hits", "hits", "Look-ups of a stream that was in memory."),
        ("misses", "misses", "Look-ups of a stream that was read from its table."),
    ),
    *gauges(
        "controller.histories",
        "headrace_controller_histories",
        ("rows_cached", "cached", "Rows of stream epochs and sealed segments in memory."),
        ("bytes_cached", "cached_bytes", "Bytes of these rows."),
    ),
    *counters(
        "controller.histories",
        "headrace_controller_histories",
        ("hits", "hits", "Look-ups of such a row that was in memory."),
        ("rows_read", "rows_read", "Such rows that were read from their table."),
    ),
    *gauges(
        "controller.cut_sampling",
        "headrace_controller_cut_sampling",
        ("streams_waiting", "streams_waiting", "Streams that wait for their sample."),
    ),
    *counters(
        "controller.cut_sampling",
        "headrace_controller_cut_sampling",
        ("rounds", "rounds", "Rounds of cut sampling."),
        ("samples", "samples", "Samples that were taken."),
        ("failures", "failures", "Samples that failed."),
        ("too_large", "too_large", "Cuts that were too large to be remembered."),
    ),
    *counters(
        "controller.retention",
        "headrace_controller_retention",
        ("streams", "streams", "Streams that retention looked at."),
        ("tail_cuts", "tail_cuts", "Tail cuts that were taken."),
        ("truncations", "truncations", "Truncations by retention."),
        ("failures", "failures", "Failures of retention; the next period repeats it."),
    ),
    *gauges(
        "controller.events",
        "headrace_controller_events",
        ("posting", "posting", "Request events to be posted."),
    ),
    *counters(
        "controller.events",
        "headrace_controller_events",
        ("posted", "posted", "Request events that were posted."),
        ("dropped", "dropped", "Request events that were dropped: a sweep does their work later."),
    ),
    *gauges(
        "controller.event_processor",
        "headrace_controller_events",
        ("unfinished", "unfinished", "Request events that are not done."),
    ),
    *counters(
        "controller.event_processor",
        "headrace_controller_events",
        ("handled", "handled", "Request events that were done."),
        ("postponed", "postponed", "Request events that were postponed since their stream was busy."),
        ("retried", "retried", "Request events that were repeated after an error."),
        ("set_aside", "set_aside", "Request events that were set aside."),
    ),
)

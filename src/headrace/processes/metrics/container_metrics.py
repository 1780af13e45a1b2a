"""The metrics of each container. Pure."""

from __future__ import annotations

from typing import Final

from headrace.web.metrics.metric import Kind, Metric, counters, gauges, histogram

_EACH: Final = "containers.{container}"
_LOG: Final = f"{_EACH}.durable_log"

_HEALTH: Final = [
    *gauges(
        f"{_EACH}.health",
        "headrace_container",
        ("online", "online", "Whether the container serves: 1 or 0."),
        (
            "waits_for",
            "waiting",
            "Whether its appends or its start wait for something, as for space: 1 or 0.",
        ),
    ),
    *counters(
        f"{_EACH}.health",
        "headrace_container",
        ("restarts", "restarts", "Starts of the container after the first."),
    ),
    *gauges(
        f"{_EACH}.tasks", "headrace_container", ("running", "tasks", "Tasks in the background that run.")
    ),
    *counters(
        f"{_EACH}.tasks", "headrace_container", ("failed", "task_failures", "Tasks that ended with an error.")
    ),
]

_DURABLE_LOG: Final = [
    *gauges(
        _LOG,
        "headrace_log",
        ("recovered_operations", "recovered_operations", "Operations that the last start recovered."),
        ("recovered_frames", "recovered_frames", "Data frames that the last start recovered."),
    ),
    *counters(
        _LOG,
        "headrace_log",
        ("checkpoints", "checkpoints", "Metadata checkpoints that were written."),
        ("truncations", "truncations", "Truncations of the log."),
    ),
    *counters(
        f"{_LOG}.processor",
        "headrace_log",
        ("blocks", "append_blocks", "Append blocks that were accepted."),
        ("runs", "append_batches", "Append batches that were accepted."),
        ("operations", "operations", "Operations that were accepted."),
        ("bytes_appended", "appended_bytes", "Bytes of accepted appends."),
        ("frames", "frames", "Data frames given to the log."),
        ("frames_durable", "frames_durable", "Data frames that became durable."),
        ("capacity_waits", "capacity_waits", "How often an operation waited for the log to take it."),
        ("throttle.delayed_total_s", "throttled_seconds", "How long appends were delayed on purpose."),
        ("throttle.delays", "throttle_delays", "How often appends were delayed on purpose."),
    ),
    *gauges(
        f"{_LOG}.processor",
        "headrace_log",
        ("requests_queued", "queued_operations", "Operations that wait for the log."),
        ("urgent_queued", "queued_urgent_operations", "Urgent operations among these."),
        ("connections_waiting", "waiting_connections", "Connections with such operations."),
        ("throttle.delay_s", "throttle_delay_seconds", "The delay of appends now; 0 for none."),
    ),
    *counters(
        f"{_LOG}.wal",
        "headrace_log",
        ("bytes_written", "written_bytes", "Bytes of data frames that became durable."),
        ("loop_writes", "loop_writes", "Durable writes that the event loop made itself."),
        ("space_waits", "space_waits", "How often the log waited for space on its disk."),
    ),
    *gauges(
        f"{_LOG}.wal",
        "headrace_log",
        ("frames_in_flight", "frames_in_flight", "Data frames that are not durable yet."),
        ("frames_queued", "frames_queued", "Data frames among these that no write has taken."),
        ("bytes_in_flight", "in_flight_bytes", "Bytes of data frames that are not durable yet."),
        ("frames_free", "frames_free", "Log frames that the container may still take."),
        ("log_bytes", "size_bytes", "Bytes of the log on its disk."),
        ("space_waiting", "waits_for_space", "Whether the log waits for space on its disk: 1 or 0."),
        ("degraded", "degraded", "Whether the log has fewer copies than wanted: 1 or 0."),
    ),
    histogram(
        f"{_LOG}.wal.write_by_bucket",
        "write_seconds_total",
        "headrace_log_frame_seconds",
        "Data frames by the time until they were durable, queueing included.",
    ),
    histogram(
        f"{_LOG}.wal.disk_by_bucket",
        "disk_seconds_total",
        "headrace_log_disk_seconds",
        "Durable writes of one or more data frames by their time.",
    ),
    *gauges(
        f"{_EACH}.memory_log",
        "headrace_memory_log",
        ("operations", "operations", "Operations in memory that the storage writer has not taken."),
    ),
    *counters(
        f"{_EACH}.memory_log",
        "headrace_memory_log",
        ("added_total", "added_operations", "Operations added to the memory log."),
        ("taken_total", "taken_operations", "Operations that the storage writer took."),
    ),
]

_STORAGE_WRITER: Final = [
    *gauges(
        f"{_EACH}.storage_writer",
        "headrace_storage_writer",
        ("operations_queued", "queued_operations", "Operations that are not stored."),
        ("bytes_queued", "queued_bytes", "Bytes that are not stored."),
        ("oldest_age_s", "oldest_age_seconds", "Age of the oldest operation that is not stored."),
        ("segments_pending", "segments_pending", "Segments with operations that are not stored."),
        ("segments_due", "segments_due", "Segments to be flushed now."),
        ("segments_failing", "segments_failing", "Segments whose last flush failed; it is repeated."),
        ("segments_suspect", "segments_suspect", "Segments to be compared with the log before their flush."),
        ("flushes_active", "flushes_active", "Flushes that run."),
    ),
    *counters(
        f"{_EACH}.storage_writer",
        "headrace_storage_writer",
        ("operations_taken", "operations", "Operations that the storage writer took."),
        ("flushes", "flushes", "Flushes that ended well."),
        ("flush_failures", "flush_failures", "Flushes that failed."),
        ("retries", "retries", "Flushes that were repeated."),
        ("reconciliations", "reconciliations", "Comparisons of stored bytes with the log."),
        ("bytes_compared", "compared_bytes", "Bytes that were compared."),
        ("bytes_written", "written_bytes", "Bytes that were stored."),
        ("merges_absorbed", "merges_absorbed", "Merges whose source was stored with its target."),
        ("merges_joined", "merges_joined", "Merges that joined the chunks of two segments."),
    ),
    *counters(
        f"{_EACH}.storage_checkpoints",
        "headrace_storage_checkpoints",
        ("written", "written", "Storage checkpoints that were written."),
        ("failures", "failures", "Storage checkpoints that failed."),
        ("bytes_written", "written_bytes", "Bytes of storage checkpoints."),
    ),
    Metric(
        f"{_EACH}.storage_checkpoints.newest_time_ms",
        "headrace_storage_checkpoints_newest_timestamp_seconds",
        Kind.GAUGE,
        "When the newest storage checkpoint was written, since 1970; 0 for never.",
        scale=0.001,
    ),
]

_STORAGE: Final = [
    *counters(
        f"{_EACH}.storage",
        "headrace_storage",
        ("writes", "writes", "Writes of segments to chunks."),
        ("bytes_written", "written_bytes", "Bytes of these writes."),
        ("reads", "reads", "Reads of segments from chunks."),
        ("bytes_read", "read_bytes", "Bytes of these reads."),
        ("commits", "commits", "Commits of chunk metadata."),
        ("row_commits", "row_commits", "Commit batches: commits made at the same time are one."),
        ("chunks_created", "created_chunks", "Chunks that were created for segments."),
        ("concats_copied", "concats_copied", "Segments that were joined by copying bytes."),
        ("concats_linked", "concats_linked", "Segments that were joined by naming chunks."),
        ("objects_deleted", "deleted_objects", "Chunks that were deleted as garbage."),
        ("leftovers_deleted", "deleted_orphans", "Orphans of former owners that were deleted."),
        ("write_failures", "write_failures", "Writes to chunks that failed."),
        ("checksum_failures", "checksum_failures", "Blocks of chunks that failed their checksum."),
    ),
    *gauges(
        f"{_EACH}.storage",
        "headrace_storage",
        ("garbage_runs", "garbage_batches", "Batches of garbage to be deleted."),
        ("garbage_runs_damaged", "garbage_batches_damaged", "Damaged batches, which are not deleted."),
        ("orphans", "orphans", "Orphans to be deleted."),
        ("layouts", "layouts", "Layouts of segments in memory."),
        ("segments_busy", "segments_busy", "Segments whose chunks are being changed."),
    ),
    *counters(
        f"{_EACH}.optimiser",
        "headrace_optimiser",
        ("rounds", "rounds", "Rounds of the optimiser."),
        ("rounds_failed", "rounds_failed", "Rounds that failed."),
        ("segments_seen", "segments_seen", "Segments that were looked at."),
        ("segments_damaged", "segments_damaged", "Segments whose chunks were found damaged."),
        ("rewrites.rewrites", "rewrites", "Rewrites of small chunks into large ones."),
        ("rewrites.chunks_replaced", "chunks_replaced", "Chunks that were replaced."),
        ("rewrites.chunks_made", "chunks_made", "Chunks that replaced them."),
        ("rewrites.bytes_rewritten", "rewritten_bytes", "Bytes that were copied."),
        ("rewrites.bytes_given_back", "given_back_bytes", "Truncated bytes that were given back."),
        ("rewrites.given_up", "rewrites_given_up", "Rewrites that found their segment changed."),
    ),
    *gauges(
        f"{_EACH}.optimiser",
        "headrace_optimiser",
        ("candidates_left", "candidates", "Segments with small chunks that the last round did not finish."),
    ),
]

_READ_INDEX: Final = [
    *gauges(
        f"{_EACH}.read_index",
        "headrace_read_index",
        ("segments", "segments", "Segments with a read index."),
        ("unstored_bytes", "unstored_bytes", "Bytes of segments that are durable and not stored."),
        ("waiting_reads", "waiting_reads", "Reads that wait at the tail, our own among them."),
        ("fetches.in_flight", "fetches_in_flight", "Fetches from storage that run."),
        ("fetches.queued", "fetches_queued", "Fetches from storage that wait."),
    ),
    *counters(
        f"{_EACH}.read_index",
        "headrace_read_index",
        ("cached_reads", "cached_reads", "Reads that were answered from the cache."),
        ("storage_reads", "storage_reads", "Reads that needed storage."),
        ("fetches.reads", "fetches", "Fetches from storage."),
        ("fetches.bytes_read", "fetched_bytes", "Bytes of these fetches."),
        ("fetches.ahead_reads", "fetches_ahead", "Fetches ahead of a sequential reader."),
        ("fetches.shared", "fetches_shared", "Reads that joined a fetch of another reader."),
        ("fetches.failures", "fetch_failures", "Fetches that failed."),
    ),
]

_TABLES: Final = [
    *gauges(
        f"{_EACH}.tables",
        "headrace_tables",
        ("tables_open", "open", "Tables in memory."),
        ("keys", "keys", "About how many keys these tables have."),
        ("unindexed_keys", "unindexed_keys", "Keys that the indexes do not have yet."),
        ("index_bytes", "unindexed_bytes", "Memory of what the indexes do not have yet."),
        ("in_flight_bytes", "in_flight_bytes", "Bytes of updates that are not durable."),
    ),
    *counters(
        f"{_EACH}.tables",
        "headrace_tables",
        ("rebuilds", "opened", "Tables that were opened."),
        ("index_rounds", "index_rounds", "Moves of unindexed entries into an index."),
        ("compaction_rounds", "compaction_rounds", "Rounds of compaction."),
        ("compaction_copied_bytes", "compaction_copied_bytes", "Bytes that compaction copied."),
    ),
    *counters(
        f"{_EACH}.attributes",
        "headrace_attributes",
        ("index_writes", "index_writes", "Writes of attribute indexes."),
        ("index_bytes_written", "index_written_bytes", "Bytes of these writes."),
        ("index_failures", "index_failures", "Writes of attribute indexes that failed."),
        ("values_written", "values_written", "Attributes that were written to an index."),
        ("values_evicted", "values_evicted", "Attributes that left memory."),
    ),
    *gauges(
        f"{_EACH}.attributes",
        "headrace_attributes",
        ("indexes_open", "indexes_open", "Attribute indexes in memory."),
        ("pages_read", "pages_read", "Pages that these read from storage."),
    ),
]

_SEGMENTS: Final = [
    *gauges(
        f"{_EACH}.segments",
        "headrace_segments",
        ("active", "active", "Active segments."),
        ("active_max", "active_limit", "Segments that may be active."),
        ("departing", "retired", "Retired segments."),
        ("catalogue_rows", "catalogue_rows", "At most how many rows the catalogue has; -1: not known."),
        ("activations_waiting", "activations_waiting", "Segments that are being activated."),
    ),
    *counters(
        f"{_EACH}.segments",
        "headrace_segments",
        ("activations", "activations", "Activations of segments."),
        ("activations_failed", "activations_failed", "Activations that failed."),
        ("eviction_runs", "eviction_rounds", "Rounds of eviction."),
        ("eviction_runs_forced", "eviction_rounds_forced", "Rounds that began because of the limit."),
        ("evicted", "evicted", "Segments that were evicted."),
    ),
]

CONTAINER_METRICS: Final[tuple[Metric, ...]] = (
    *_HEALTH,
    *_DURABLE_LOG,
    *_STORAGE_WRITER,
    *_STORAGE,
    *_READ_INDEX,
    *_TABLES,
    *_SEGMENTS,
)

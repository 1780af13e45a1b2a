"""The metrics of a segment store as a whole: caches, chunk store, threads, connections. Pure."""

from __future__ import annotations

from typing import Final

from headrace.web.metrics.metric import Kind, Metric, counters, gauges, histogram

_CACHE: Final = [
    *gauges(
        "cache",
        "headrace_cache",
        ("bytes_max", "limit_bytes", "Bytes that the block cache may use."),
        ("arena_bytes", "arena_bytes", "Memory that the block cache has taken."),
        ("used_bytes", "used_bytes", "Bytes of blocks in use."),
        ("essential_bytes", "essential_bytes", "Bytes that cannot be evicted because they are unstored."),
        ("tail_bytes", "tail_bytes", "Evictable bytes that were appended."),
        ("history_bytes", "history_bytes", "Evictable bytes that were read from storage."),
        ("pinned_bytes", "pinned_bytes", "Bytes that cannot be evicted now, lent ones among them."),
        ("lent_bytes", "lent_bytes", "Bytes that readers or sockets use now."),
        ("extents", "extents", "Extents in the cache."),
        ("owners", "owners", "Read indexes with extents in the cache."),
        ("tails", "tails", "Segments whose last block is open for appends."),
        ("overdrawn_bytes", "overdrawn_bytes", "Memory beyond the limit: taken so that no append is lost."),
    ),
    *counters(
        "cache",
        "headrace_cache",
        ("evicted_extents", "evicted_extents", "Extents that were evicted."),
        ("evicted_bytes", "evicted_bytes", "Bytes that were evicted."),
    ),
    *gauges(
        "index_pages",
        "headrace_index_pages",
        ("pages", "cached", "Pages of attribute and table indexes in memory."),
        ("bytes", "cached_bytes", "Bytes of these pages."),
        ("bytes_max", "limit_bytes", "Bytes that these pages may use."),
        ("inner_bytes", "inner_bytes", "Bytes of these pages that lead to others."),
    ),
    *counters(
        "index_pages",
        "headrace_index_pages",
        ("found", "found", "Look-ups of a page that was in memory."),
        ("missed", "missed", "Look-ups of a page that was read from storage."),
    ),
]

_LOGS: Final = [
    *gauges(
        "frames",
        "headrace_frame_memory",
        ("frames_lent", "lent_frames", "Log frames in use."),
        ("frames_free", "free_frames", "Log frames that are made and not in use."),
        ("bytes_kept", "bytes", "Memory of all log frames."),
    ),
    *counters(
        "frames",
        "headrace_frame_memory",
        ("frames_trimmed", "trimmed_frames", "Log frames whose memory went back to the system."),
    ),
    *counters(
        "loop_writes",
        "headrace_loop_writes",
        ("writes", "made", "Log writes that the event loop made itself."),
        ("write_seconds_total", "seconds", "Time the event loop spent in log writes."),
        ("pauses", "pauses", "Pauses of log writes by the event loop, after a slow one."),
    ),
]

_CHUNKS: Final = [
    *counters(
        "chunks",
        "headrace_chunk_store",
        ("objects_created", "created_objects", "Chunks that were created."),
        ("objects_deleted", "deleted_objects", "Chunks that were deleted."),
        ("bytes_written", "written_bytes", "Bytes written to chunks."),
        ("bytes_read", "read_bytes", "Bytes read from chunks."),
        ("reads", "reads", "Reads of chunks."),
        (
            "reads_at_once",
            "reads_at_once",
            "Reads of chunks that needed no thread: the system had the pages.",
        ),
    ),
    *counters(
        "chunks.calls.{call}",
        "headrace_chunk_store_call",
        ("errors.{error}", "errors", "Failed calls to the chunk store, by the class of the error."),
        ("bytes", "bytes", "Bytes of the calls to the chunk store that succeeded."),
    ),
    *gauges(
        "chunks.calls.{call}",
        "headrace_chunk_store_call",
        ("in_flight", "in_flight", "Calls to the chunk store without an answer."),
    ),
    histogram(
        "chunks.calls.{call}.by_bucket",
        "seconds_total",
        "headrace_chunk_store_call_seconds",
        "Calls to the chunk store, failed ones among them, by their time.",
    ),
    *counters(
        "chunk_files",
        "headrace_chunk_files",
        ("bytes_dropped", "dropped_bytes", "Written bytes that were dropped from the page cache."),
    ),
    *gauges(
        "storage_threads.{pool}",
        "headrace_storage_threads",
        ("threads", "running", "Threads for chunk files."),
        ("pending", "pending", "Calls given to these threads and not done."),
        ("pending_max", "pending_limit", "Calls that may be pending."),
        ("waiting", "waiting", "Callers that wait for a place among the pending calls."),
    ),
    *counters(
        "storage_threads.{pool}",
        "headrace_storage_threads",
        ("completed", "completed", "Calls that these threads completed."),
        ("failed", "failed", "Calls of these threads that raised an error, expected ones among them."),
    ),
]

_CONNECTIONS: Final = [
    *gauges(
        "listener",
        "headrace_connections",
        ("connections", "open", "Connections at the data port."),
        ("handshakes", "handshakes", "Connections whose TLS handshake is not finished."),
        ("receive_bytes_lent", "receive_bytes", "Memory of large appends that are being received."),
        ("request_bytes", "request_bytes", "Memory of requests that are received or running."),
        ("table_reply_bytes", "table_reply_bytes", "Memory of large replies about tables."),
        ("unsent_bytes", "unsent_bytes", "Memory of other replies that are not sent."),
        ("waiting_reads", "waiting_reads", "Reads that wait at the tail of their segment."),
        ("waiting_refusals", "waiting_refusals", "Refusals that wait for acknowledgements before them."),
        ("writers", "writers", "Writers that are set up."),
    ),
    *counters(
        "listener",
        "headrace_connections",
        ("connections_accepted", "accepted", "Connections that were accepted."),
        ("connections_refused", "refused", "Connections that were refused: too many, or too little memory."),
        ("connections_stalled", "stalled", "Connections closed because others waited for their memory."),
        ("handshakes_failed", "handshakes_failed", "TLS handshakes that failed."),
        ("bytes_received", "received_bytes", "Bytes received at the data port."),
        ("bytes_sent", "sent_bytes", "Bytes sent at the data port."),
        ("appends", "append_blocks", "Append blocks that were received."),
        ("append_runs", "append_batches", "Append batches that were made of them."),
        ("reads", "reads", "Reads of segments that were received."),
        ("requests", "requests", "Other requests that were received."),
        ("violations", "violations", "Connections closed because they violated the protocol."),
        ("writers_refused", "writers_refused", "Writers beyond the limit of a connection."),
        ("capacity_waits", "capacity_waits", "How often a connection waited for its log to take an append."),
        ("memory_waits", "memory_waits", "How often a connection waited for memory."),
    ),
]

_LOADS: Final = [
    *gauges(
        "loads",
        "headrace_loads",
        ("metered", "segments", "Segments with a target rate."),
        ("inactive", "inactive_segments", "Inactive segments among these."),
    ),
    Metric(
        "loads.sample_ms",
        "headrace_loads_sample_seconds",
        Kind.GAUGE,
        "How long the last sample of all segments took, other work on the loop included.",
        scale=0.001,
    ),
    *gauges("load_reports", "headrace_load_reports", ("waiting", "waiting", "Load reports to be sent.")),
    *counters(
        "load_reports",
        "headrace_load_reports",
        ("sent", "sent", "Load reports that were sent."),
        ("failed", "failed", "Load reports whose sending failed; it is repeated."),
        ("dropped", "dropped", "Load reports that waited too long, or found the queue full."),
    ),
]

STORE_METRICS: Final[tuple[Metric, ...]] = (
    *_CACHE,
    *_LOGS,
    *_CHUNKS,
    *_CONNECTIONS,
    *_LOADS,
)

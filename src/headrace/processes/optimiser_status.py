"""What a server says of its storage optimisers."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.storage.chunks.optimiser import OptimiserStatistics


def optimiser_status(
    mode: str, *, paused: bool, found: Mapping[int, OptimiserStatistics]
) -> dict[str, object]:
    """Return the JSON object of ``GET /v1/storage/optimiser``; ``found`` is by container."""
    return {
        "mode": mode,
        "paused": paused,
        "containers": [
            {
                "container": container_id,
                "state": each.state,
                "rounds": each.rounds,
                "roundsFailed": each.rounds_failed,
                "candidatesLeft": each.candidates_left,
                "rewrites": each.rewrites.rewrites,
                "chunksReplaced": each.rewrites.chunks_replaced,
                "chunksMade": each.rewrites.chunks_made,
                "bytesRewritten": each.rewrites.bytes_rewritten,
                "bytesGivenBack": each.rewrites.bytes_given_back,
            }
            for container_id, each in sorted(found.items())
        ],
    }

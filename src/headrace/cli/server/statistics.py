"""What matters first in the statistics of a server, in ten lines. Pure.

Members of the statistics come and go with the code: one that is missing counts as nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def summary_of(statistics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return ten names with what there is to say; numbers are sums over the containers."""
    online = [_at(each, "health", "online") for each in containers_of(statistics)]
    cache, listener = _sums(statistics, "cache"), _sums(statistics, "listener")
    cached, stored, waiting = (
        total(statistics, "read_index", name) for name in ("cached_reads", "storage_reads", "waiting_reads")
    )
    blocks, appended = (
        total(statistics, "durable_log", "processor", name) for name in ("blocks", "bytes_appended")
    )
    frames = total(statistics, "durable_log", "wal", "frames_written")
    slowest_ms = 1000 * largest(statistics, "durable_log", "wal", "write_seconds_max")
    written = total(statistics, "storage", "bytes_written")
    failures = sum(total(statistics, "storage", name) for name in ("write_failures", "checksum_failures"))
    evicted = size_words(_at(cache, "evicted_bytes"))
    return [
        ("containers", f"{sum(map(bool, online))} of {len(online)} online"),
        ("cache", f"{size_words(_at(cache, 'used_bytes'))} of {size_words(_at(cache, 'bytes_max'))}"),
        ("essential", f"{size_words(_at(cache, 'essential_bytes'))}, evicted so far {evicted}"),
        (
            "unstored",
            f"{size_words(unstored_bytes(statistics))}, the oldest for {oldest_s(statistics):.0f} s",
        ),
        (
            "reads",
            f"{cached:,.0f} from the cache, {stored:,.0f} from storage, {waiting:,.0f} wait at the tail",
        ),
        ("appends", f"{blocks:,.0f} with {size_words(appended)}"),
        ("connections", f"{_at(listener, 'connections'):,.0f}, writers {_at(listener, 'writers'):,.0f}"),
        ("log", f"{frames:,.0f} frames, the slowest took {slowest_ms:,.1f} ms"),
        ("throttled", ", ".join(throttled(statistics)) or "nothing"),
        ("storage", f"{size_words(written)} written, failures {failures:,.0f}"),
    ]


def _sums(statistics: Mapping[str, Any], part: str) -> dict[str, float]:
    """Return the numbers of a part, of all processes of the answer together."""
    stores = statistics.get("stores", {}).values()
    everywhere = [statistics.get(part, {}), *(each.get("statistics", {}).get(part, {}) for each in stores)]
    names = {name for each in everywhere if isinstance(each, Mapping) for name in each}
    return {name: sum(_at(each, name) for each in everywhere) for name in names}


def containers_of(statistics: Mapping[str, Any]) -> list[Any]:
    """Return what is said of each container."""
    return list(statistics.get("containers", {}).values())


def unstored_bytes(statistics: Mapping[str, Any]) -> int:
    """Return the bytes that only the logs and the cache have."""
    return int(total(statistics, "read_index", "unstored_bytes"))


def oldest_s(statistics: Mapping[str, Any]) -> float:
    """Return for how long the oldest of them have waited."""
    return largest(statistics, "storage_writer", "oldest_age_s")


def throttled(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield the containers that delay appends, with the cause and the delay."""
    for name, container in statistics.get("containers", {}).items():
        delay_s = _at(container, "durable_log", "processor", "throttle", "delay_s")
        if delay_s > 0:
            throttle = container["durable_log"]["processor"]["throttle"]
            yield f"container {name} by {1000 * delay_s:,.0f} ms: {throttle.get('source', '')}"


def total(statistics: Mapping[str, Any], *path: str) -> float:
    """Return the sum of a number over the containers."""
    return sum(_at(container, *path) for container in containers_of(statistics))


def largest(statistics: Mapping[str, Any], *path: str) -> float:
    """Return the largest of a number over the containers; 0 if there is none."""
    return max((_at(container, *path) for container in containers_of(statistics)), default=0)


def _at(found: Any, *path: str) -> float:
    """Return a number of a tree; 0 if it is not there."""
    for name in path:
        found = found.get(name, 0) if isinstance(found, Mapping) else 0
    return found if isinstance(found, int | float) else 0


def size_words(size_bytes: float) -> str:
    """Return a size that people can compare, rounded."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:,.1f} {unit}"
    return f"{size_bytes:,.0f} B"

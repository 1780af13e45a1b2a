"""Whether a server is ready and what waits in it, out of its answers about health and statistics. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.cli.server.statistics import throttled


def not_ready(health: Mapping[str, Any]) -> list[str]:
    """Return the parts of a server that are not ready, each with what is known of the reason."""
    parts = [part for part in health.get("children", {}).values() if not part.get("readiness")]
    if not parts and not health.get("readiness"):
        return [f"the server is {health.get('status', 'DOWN')}"]
    return [_words_of(part) for part in parts]


def _words_of(part: Mapping[str, Any]) -> str:
    details = part.get("details") or {}
    reasons = [
        f"waits for {details['waitsFor']}" if details.get("waitsFor") else "",
        f"last failure: {details['lastFailure']}" if details.get("lastFailure") else "",
        details.get("why", ""),
    ]
    known = ", ".join(filter(None, reasons))
    return f"{part.get('name')} is {part.get('status')}{known and f' ({known})'}"


def waiting(statistics: Mapping[str, Any]) -> list[str]:
    """Return what waits in a server, whether it is ready or not."""
    return list(_waiting(statistics))


def _waiting(statistics: Mapping[str, Any]) -> Iterator[str]:
    for missing in statistics.get("unanswered", ()):
        yield f"segment store {missing['address']} does not answer: {missing['why']}"
    for each in throttled(statistics):
        yield f"appends are delayed: {each}"
    for name, container in statistics.get("containers", {}).items():
        log = container.get("durable_log", {}).get("wal", {})
        if log.get("space_waiting"):
            yield f"container {name} waits for space on the disk of its log"
        if log.get("degraded"):
            yield f"container {name} has its log on fewer bookies than wanted: start those that are missing"
        failing = container.get("storage_writer", {}).get("segments_failing", 0)
        if failing:
            yield f"container {name} cannot store {failing} segments: look at long-term storage"
    controller = statistics.get("controller", {})
    requests = controller.get("workflows", {}).get("requests_waiting", 0)
    if requests:
        yield f"{requests} calls wait for changes of streams"
    failed = controller.get("event_processor", {}).get("set_aside", 0)
    if failed:
        yield f"{failed} requests were set aside since the start: headrace controller failed-events"

"""``headrace controller``: what controllers know of their own work."""

from __future__ import annotations

from headrace.cli.shared_options import REST_SERVER
from headrace.cli.verbs import Noun


def declare(name: str, summary: str) -> Noun:
    controller = Noun(name, summary)
    controller.verb(
        "failed-events",
        *("headrace.cli.controller.failed_events", "failed_events"),
        "Requests between controllers that failed for good and were set aside, the oldest first.",
        """
        headrace controller failed-events
        headrace controller failed-events --rest 127.0.0.1:10080 --json
        """,
        *REST_SERVER,
    )
    return controller

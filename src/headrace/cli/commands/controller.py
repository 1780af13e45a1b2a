"""``headrace controller``: what controllers know of their own work."""

from __future__ import annotations

import argparse

from headrace.cli.commands.inspect import later
from headrace.cli.verbs import Subparsers, add_noun, add_rest, add_verb


def register(nouns: Subparsers[argparse.ArgumentParser]) -> None:
    verbs = add_noun(nouns, "controller", "See what controllers do in the background.")
    verb = add_verb(
        verbs,
        "failed-events",
        later("headrace.cli.failed_events", "failed_events"),
        "Requests between controllers that failed for good and were set aside, the oldest first.",
        """
        headrace controller failed-events
        headrace controller failed-events --rest 127.0.0.1:10080 --json
        """,
        connects=False,
    )
    add_rest(verb)

"""What ``headrace stream purge`` does: asks the server of the stream, which answers when it is done."""

from __future__ import annotations

import argparse
from typing import Final
from urllib.parse import quote

from headrace.cli.output import print_json
from headrace.cli.rest_questions import ask_rest
from headrace.cli.verbs import confirm, scoped
from headrace.errors import ConnectionLostError

_TIMEOUT_S: Final = 3600.0


def purge_stream(chosen: argparse.Namespace) -> None:
    """Purge, and print where the stream begins."""
    scope, stream = scoped(chosen.stream)
    confirm(chosen, f"Make what lies before the head of {chosen.stream} unreadable")
    path = f"/v1/scopes/{quote(scope, safe='')}/streams/{quote(stream, safe='')}/purge"
    found = ask_rest(chosen, path, f"stream {chosen.stream}", method="POST", timeout_s=_TIMEOUT_S)
    if not isinstance(found, dict) or "segments" not in found:
        raise ConnectionLostError(f"{chosen.rest} does not answer like a server of ours")
    if chosen.json:
        print_json(found)

"""What a server tells whoever runs it: nothing is left to serve, and why."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import FencedOutError, PreconditionError

OnTakenOver = Callable[[FencedOutError | PreconditionError], None]
"""Other owners have all containers; or the cluster is at a format at which this version cannot take part."""

"""What a server tells whoever runs it: other owners have all containers, and nothing is left to serve."""

from __future__ import annotations

from collections.abc import Callable

from headrace.errors import FencedOutError

OnTakenOver = Callable[[FencedOutError], None]

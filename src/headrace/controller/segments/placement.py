"""Where the segment store is that owns a segment."""

from __future__ import annotations

from typing import Protocol

from headrace.model.endpoint import Endpoint


class Placement(Protocol):
    """Answers from what is known now; a client that is sent to a former owner retries."""

    def locate(self, segment: str) -> Endpoint:
        """Return where clients find the container of ``segment``, whether or not the segment exists."""

"""Where the segment store is that owns a segment."""

from __future__ import annotations

from typing import Protocol

from headrace.model.endpoint import Endpoint


class Placement(Protocol):
    """Answers from what is known now; a client that is sent to a former owner retries."""

    def locate(self, segment: str) -> Endpoint:
        """Return where clients find the container of ``segment``, whether or not the segment exists."""


class SingleHost:
    """One segment store owns every container."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def locate(self, segment: str) -> Endpoint:  # noqa: ARG002 - all segments are there
        return self._endpoint

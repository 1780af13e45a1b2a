"""Where the segment store is that owns a segment."""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    """Answers from what is known now; a client that is sent to a former owner retries."""

    def locate(self, segment: str) -> tuple[str, int]:
        """Return host name and port for the container of ``segment``, whether or not the segment exists."""


class SingleHost:
    """One segment store owns every container."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address

    def locate(self, segment: str) -> tuple[str, int]:  # noqa: ARG002 - all segments are there
        return self._address

"""What stands in front of everything that a container answers: whether it is this process that may."""

from __future__ import annotations

from typing import Final, Protocol


class Gate(Protocol):
    """Asked at the moment of an answer, so cheap. Used on one event loop."""

    def serves(self, container_id: int) -> bool:
        """Whether a container may answer here now, as far as this process can know."""

    def owner_of(self, container_id: int) -> str:
        """Return ``host:port`` of the store that serves a container, if that is another one; "": unknown."""


class OpenGate:
    """Of a process that is alone: whatever runs here is served here."""

    def serves(self, container_id: int) -> bool:  # noqa: ARG002 - all are
        return True

    def owner_of(self, container_id: int) -> str:  # noqa: ARG002 - there is no other store
        return ""


OPEN: Final = OpenGate()

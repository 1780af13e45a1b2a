"""Where the segment stores are, as the calls over connections need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.controller.segments.placement import Placement
from headrace.model.endpoint import Endpoint


class StoreLocator(Placement, Protocol):
    """Answers from what is known now; it learns from stores that do not own what they were asked about."""

    def moved(self, segment: str, owner: Endpoint | None) -> None:
        """The store that was located does not own ``segment``, or is not there; ``owner`` does, it says."""

    def stores(self) -> Sequence[Endpoint]:
        """Return all stores that are there: together they have every container."""


class OneStore:
    """One segment store owns every container."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def locate(self, segment: str) -> Endpoint:  # noqa: ARG002 - all segments are there
        return self._endpoint

    def moved(self, segment: str, owner: Endpoint | None) -> None:
        """It has nowhere to go."""

    def stores(self) -> Sequence[Endpoint]:
        return (self._endpoint,)

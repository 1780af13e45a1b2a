"""What operators' drains mean for the stores that live, and which drains are over. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from headrace.cluster.drain_node import Drain
from headrace.cluster.store_node import StoreNode

FORGET_S: Final = 120.0
"""How long a store that is to drain may be away: longer than a session, after which it comes back."""


def asked_to_drain(stores: Mapping[str, StoreNode], drains: Mapping[str, Drain]) -> set[str]:
    """Return the ids of the live stores that operators drain."""
    asked = set(drains.values())
    return {store for store, node in stores.items() if Drain.of(node) in asked}


def with_drains(stores: Mapping[str, StoreNode], drains: Mapping[str, Drain]) -> Mapping[str, StoreNode]:
    """Return the stores as the planner is to see them.

    If nobody else is left that could serve, the drains wait until there is.
    """
    asked = asked_to_drain(stores, drains)
    if all(node.draining or store in asked for store, node in stores.items()):
        return stores
    return {store: replace(node, draining=True) if store in asked else node for store, node in stores.items()}


class LastingDrains:
    """Remembers since when the store of a drain is away: a process that has ended never comes back."""

    def __init__(self) -> None:
        self._away_s: dict[str, float] = {}

    def over(self, drains: Mapping[str, Drain], stores: Mapping[str, StoreNode], now_s: float) -> list[str]:
        """Return the drains that are to be deleted."""
        live = {Drain.of(node) for node in stores.values()}
        away = [name for name, drain in drains.items() if drain not in live]
        self._away_s = {name: self._away_s.get(name, now_s) for name in away}
        return [name for name, since_s in self._away_s.items() if now_s - since_s >= FORGET_S]

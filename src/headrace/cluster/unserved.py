"""Why a container is not served, as the nodes of a cluster tell it. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.cluster.map_node import NOBODY
from headrace.cluster.store_node import StoreNode


def why_unserved(stores: Mapping[str, StoreNode], wanted: str, container_id: int) -> str:
    """Return why no live store claims a container; ``wanted``: the store to which the map gives it."""
    if not stores:
        return "there is no segment store"
    if wanted == NOBODY:
        return "the leader has not placed it yet"
    store = stores.get(wanted)
    if store is None:
        return f"its store {wanted} is gone, and the leader has not placed it anew yet"
    failures = store.failures.get(container_id, 0)
    if failures:
        return f"it failed {failures} times at {store.endpoint}: the log of that store says why"
    return f"{store.endpoint} recovers it"

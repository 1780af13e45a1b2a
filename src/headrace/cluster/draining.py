"""Drains a store on behalf of an operator: writes the wish, and waits until nothing is left at the store.

The leader does the rest; see ``drains.py`` for what it makes of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from headrace.cluster.drain_node import DRAIN_NODE_VERSION, Drain, drain_path, encode_drain
from headrace.cluster.drains import asked_to_drain
from headrace.cluster.leader_node import LEADER
from headrace.cluster.node_reads import read_claims, read_drains, read_map, read_stores
from headrace.cluster.store_node import StoreNode
from headrace.coordination.contract import Session
from headrace.errors import (
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    PreconditionError,
    UnknownOutcomeError,
    WaitTimeoutError,
)

_ATTEMPTS_MAX: Final = 5
_LOOK_S: Final = 0.2
"""Between two looks at what is left."""


@dataclass(frozen=True, slots=True)
class DrainedStore:
    """The store that was meant."""

    store: str
    node: StoreNode


async def ask_to_drain(session: Session, name: str) -> DrainedStore:
    """Ask that a store hands over everything; ``name`` is its id or its address. Idempotent.

    Raises:
        PreconditionError: there is no such store, nobody else could serve, or nobody leads; nothing changed.
        UnknownOutcomeError: the coordinator does not answer; ask again.
    """
    stores, drains = await read_stores(session), await read_drains(session)
    found = _find(stores, name)
    asked = asked_to_drain(stores, drains)
    others = [
        store
        for store, node in stores.items()
        if store != found.store and store not in asked and not node.draining
    ]
    if found.store not in asked:
        if not others:
            raise PreconditionError(
                f"no other store could take what {found.node.endpoint} has: start one first; nothing changed"
            )
        if not await session.children(LEADER):
            raise PreconditionError(
                "nobody leads, so nothing would be moved: start a controller first; nothing changed"
            )
        await _create(session, found)
    return found


async def take_back(session: Session, name: str) -> DrainedStore:
    """Let a store be given containers again. Idempotent.

    Raises:
        PreconditionError: there is no such store.
        UnknownOutcomeError: the coordinator does not answer; ask again.
    """
    found = _find(await read_stores(session), name)
    for drained, drain in (await read_drains(session)).items():
        if drain == Drain.of(found.node):
            await delete_drain(session, drained)
    return found


async def wait_drained(session: Session, drained: DrainedStore, timeout_s: float) -> None:
    """Wait until a store that was asked to drain has nothing any more, or is gone.

    Raises:
        WaitTimeoutError: it has, after this time; it goes on.
    """
    left: list[int] = []
    try:
        async with asyncio.timeout(timeout_s):
            while left := await _left(session, drained):  # noqa: ASYNC110 - the nodes are few
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        numbers = ", ".join(map(str, left)) or "not known yet"
        raise WaitTimeoutError(
            f"store {drained.node.endpoint} still has containers after {timeout_s:g} s: {numbers}. The drain "
            "goes on; the same command waits again, and --cancel takes it back"
        ) from None


async def delete_drain(session: Session, name: str) -> None:
    """Delete a drain, by the id that its store had. Idempotent. Raises UnknownOutcomeError."""
    for attempt in range(_ATTEMPTS_MAX):
        try:
            await session.delete(drain_path(name), DRAIN_NODE_VERSION)
            return
        except (NoSuchNodeError, MetadataConflictError):
            return
        except UnknownOutcomeError:
            if attempt == _ATTEMPTS_MAX - 1:
                raise


async def _create(session: Session, found: DrainedStore) -> None:
    data = encode_drain(Drain.of(found.node))
    for attempt in range(_ATTEMPTS_MAX):
        try:
            await session.create(drain_path(found.store), data)
            return
        except NodeExistsError:
            return
        except UnknownOutcomeError:
            if attempt == _ATTEMPTS_MAX - 1:
                raise


def _find(stores: dict[str, StoreNode], name: str) -> DrainedStore:
    for store, node in stores.items():
        if name in {store, str(node.endpoint)}:
            return DrainedStore(store, node)
    there = ", ".join(f"{store} ({node.endpoint})" for store, node in sorted(stores.items()))
    raise PreconditionError(f"there is no live store {name!r}; those that live: {there or 'none'}")


async def _left(session: Session, drained: DrainedStore) -> list[int]:
    """Return the containers that the process has or is to have, under whatever id it has now."""
    stores = await read_stores(session)
    ids = {store for store, node in stores.items() if Drain.of(node) == Drain.of(drained.node)}
    found, claims = await read_map(session), await read_claims(session)
    placements = () if found is None else found[0].placements
    intended = {number for number, each in enumerate(placements) if each.store in ids}
    return sorted(intended | {number for number, claim in claims.items() if claim.store in ids})

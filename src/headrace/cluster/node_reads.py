"""The map, claims, members and drains as one read of the coordinator shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from headrace.cluster.claim_node import CLAIMS, Claim, claim_path, decode_container_claim
from headrace.cluster.drain_node import DRAINS, Drain, decode_drain, drain_path
from headrace.cluster.map_node import MAP, ContainerMap, decode_map
from headrace.cluster.store_node import STORES, StoreNode, decode_store, store_path
from headrace.coordination.contract import Session
from headrace.coordination.member_node import CONTROLLERS, MemberNode, decode_member, member_path

T = TypeVar("T")


async def read_map(session: Session) -> tuple[ContainerMap, int] | None:
    """Return the map and the version of its node; None before there is a first one."""
    node = await session.read(MAP)
    return None if node is None else (decode_map(node.data), node.version)


async def read_claims(session: Session) -> dict[int, Claim]:
    """Return the claim on each container that has one. What comes or goes meanwhile may be missing."""
    numbers = [int(name) for name in await session.children(CLAIMS)]
    paths = [claim_path(number) for number in numbers]
    claims = await _read_all(session, paths, decode_container_claim)
    return {number: claim for number, claim in zip(numbers, claims, strict=True) if claim is not None}


async def read_stores(session: Session) -> dict[str, StoreNode]:
    """Return the live stores by id. What comes or goes meanwhile may be missing."""
    ids = await session.children(STORES)
    nodes = await _read_all(session, [store_path(store) for store in ids], decode_store)
    return {store: node for store, node in zip(ids, nodes, strict=True) if node is not None}


async def read_controllers(session: Session) -> dict[str, MemberNode]:
    """Return the live controllers by id. What comes or goes meanwhile may be missing."""
    ids = await session.children(CONTROLLERS)
    nodes = await _read_all(session, [member_path(each) for each in ids], decode_member)
    return {each: node for each, node in zip(ids, nodes, strict=True) if node is not None}


async def read_drains(session: Session) -> dict[str, Drain]:
    """Return the drains that operators have asked for, by the ids that the stores had then."""
    ids = await session.children(DRAINS)
    drains = await _read_all(session, [drain_path(store) for store in ids], decode_drain)
    return {store: drain for store, drain in zip(ids, drains, strict=True) if drain is not None}


async def _read_all(session: Session, paths: list[str], decode: Callable[[bytes], T]) -> list[T | None]:
    nodes = await asyncio.gather(*(session.read(path) for path in paths))
    return [None if node is None else decode(node.data) for node in nodes]

"""One look at all nodes of a cluster: containers and buckets, and who is there for them."""

from __future__ import annotations

import asyncio

from headrace.cluster.drains import asked_to_drain
from headrace.cluster.facts_store import read_facts
from headrace.cluster.leader_node import LEADER, Candidate, candidate_path, decode_candidate
from headrace.cluster.node_reads import read_claims, read_drains, read_map, read_stores
from headrace.cluster.status import Seen
from headrace.controller.buckets.members import read_members
from headrace.coordination.contract import Session


async def look(session: Session) -> Seen:
    """Read everything once. What comes or goes meanwhile may be missing.

    Raises:
        PreconditionError: there is no cluster.
    """
    facts = await read_facts(session)
    found, claims, stores, drains, candidates, members = await asyncio.gather(
        read_map(session),
        read_claims(session),
        read_stores(session),
        read_drains(session),
        _read_candidates(session),
        read_members(session),
    )
    return Seen(
        facts,
        None if found is None else found[0],
        claims,
        stores,
        candidates,
        members.live,
        {bucket: claim.controller for bucket, (claim, _) in members.claims.items()},
        asked_to_drain(stores, drains),
    )


async def _read_candidates(session: Session) -> list[Candidate]:
    names = await session.children(LEADER)
    nodes = await asyncio.gather(*(session.read(candidate_path(name)) for name in names))
    return [decode_candidate(node.data) for node in nodes if node is not None]

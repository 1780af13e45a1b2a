"""Who is alive and whose each bucket is, as one look at the coordinator shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.controller.buckets.claim_node import BUCKETS, ClaimNode, bucket_path, decode_claim
from headrace.coordination.contract import Session
from headrace.coordination.member_node import CONTROLLERS, MemberNode, decode_member, member_path
from headrace.coordination.node import Node
from headrace.model.endpoint import Endpoint


@dataclass(frozen=True, slots=True)
class Members:
    """Live controllers by id, and the claim of each claimed bucket with the version of its node."""

    live: dict[str, MemberNode]
    claims: dict[int, tuple[ClaimNode, int]]

    def endpoints(self, me: str, mine: Endpoint) -> list[Endpoint]:
        """Return where clients find the live controllers: this one, at ``mine``, first."""
        others = (node.endpoint for member, node in self.live.items() if member != me)
        return list(dict.fromkeys([mine, *sorted(others)]))

    def mapping(self, me: str, mine: Endpoint, owned: Iterable[int]) -> dict[Endpoint, list[int]]:
        """Return the buckets of each live controller; of this one what it says itself."""
        found: dict[Endpoint, list[int]] = {endpoint: [] for endpoint in self.endpoints(me, mine)}
        found[mine] = list(owned)
        for bucket, (claim, _) in self.claims.items():
            owner = self.live.get(claim.controller)
            if owner is not None and claim.controller != me and bucket not in found[mine]:
                found[owner.endpoint].append(bucket)
        return {endpoint: sorted(buckets) for endpoint, buckets in found.items()}

    def owner_of(self, bucket: int, me: str) -> Endpoint | None:
        """Return where the live controller is that claims ``bucket``; None: nobody, or this one."""
        claim, _ = self.claims.get(bucket, (None, 0))
        owner = None if claim is None or claim.controller == me else self.live.get(claim.controller)
        return None if owner is None else owner.endpoint


async def read_members(session: Session) -> Members:
    """Look once. Nodes that come or go meanwhile may be missing: a watch says so."""
    ids, names = await asyncio.gather(session.children(CONTROLLERS), session.children(BUCKETS))
    buckets = [int(name) for name in names]
    nodes = await _read(session, [*map(member_path, ids), *map(bucket_path, buckets)])
    members, claims = nodes[: len(ids)], nodes[len(ids) :]
    return Members(
        {name: decode_member(node.data) for name, node in zip(ids, members, strict=True) if node is not None},
        {
            bucket: (decode_claim(node.data), node.version)
            for bucket, node in zip(buckets, claims, strict=True)
            if node is not None
        },
    )


async def _read(session: Session, paths: list[str]) -> list[Node | None]:
    return await asyncio.gather(*(session.read(path) for path in paths))

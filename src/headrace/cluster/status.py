"""What a look at the nodes of a cluster says: who is there, who serves what, what nobody serves. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from headrace.cluster.claim_node import Claim
from headrace.cluster.facts_node import Facts
from headrace.cluster.leader_node import Candidate
from headrace.cluster.map_node import ContainerMap, Placement
from headrace.cluster.store_node import StoreNode
from headrace.cluster.unserved import why_unserved
from headrace.coordination.member_node import MemberNode


@dataclass(slots=True)
class Seen:
    """What was read, at about the same time."""

    facts: Facts
    map: ContainerMap | None = None
    claims: Mapping[int, Claim] = field(default_factory=dict)
    stores: Mapping[str, StoreNode] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
    """The one that leads is the first."""
    controllers: Mapping[str, MemberNode] = field(default_factory=dict)
    """Those that answer calls."""
    buckets: Mapping[int, str] = field(default_factory=dict)
    """The controller of each bucket that has one."""
    drained: Collection[str] = ()
    """The stores that operators drain."""


@dataclass(slots=True)
class ContainerState:
    """Where one container is, or why it is nowhere."""

    container: int
    served: bool
    store: str
    """The one that serves it; else the one that is to; empty if there is none."""
    address: str
    epoch: int | None
    why: str
    """What is unusual about it; empty if nothing is."""


def containers_of(seen: Seen) -> list[ContainerState]:
    """Return the state of every container, in order."""
    return [_container(seen, number) for number in range(seen.facts.containers)]


def _container(seen: Seen, number: int) -> ContainerState:
    placements = () if seen.map is None else seen.map.placements
    wanted = (placements[number] if number < len(placements) else Placement()).store
    claim = seen.claims.get(number)
    if claim is not None and claim.store in seen.stores:
        address = str(seen.stores[claim.store].endpoint)
        why = "" if wanted == claim.store else f"it is to move to {wanted or 'another store'}"
        return ContainerState(number, True, claim.store, address, claim.container_epoch, why)
    address = str(seen.stores[wanted].endpoint) if wanted in seen.stores else ""
    return ContainerState(number, False, wanted, address, None, _why_unserved(seen, number, wanted))


def _why_unserved(seen: Seen, number: int, wanted: str) -> str:
    if seen.stores and not seen.candidates:
        return "there is no controller that places it"
    return why_unserved(seen.stores, wanted, number)


def problems_of(seen: Seen) -> list[str]:
    """Return what keeps the cluster from serving everything; none if all is well."""
    return list(_problems(seen))


def _problems(seen: Seen) -> Iterator[str]:
    if not seen.candidates:
        yield "nobody leads: no controller is there"
    for each in containers_of(seen):
        if not each.served:
            yield f"container {each.container} is not served: {each.why}"


def facts_document(facts: Facts) -> dict[str, Any]:
    """Return what a cluster was born with as a JSON object."""
    return {
        "system": facts.system,
        "containers": facts.containers,
        "buckets": facts.buckets or None,
        "log": facts.log,
        "storage": facts.storage,
        "format": facts.format,
        "host": facts.host,
    }


def document_of(seen: Seen) -> dict[str, Any]:
    """Return all of it as one JSON object."""
    facts, containers = seen.facts, containers_of(seen)
    return {
        "served": not problems_of(seen),
        "problems": problems_of(seen),
        "facts": {**facts_document(facts), "opened": len(facts.opened)},
        "leader": seen.candidates[0].address if seen.candidates else None,
        "candidates": [each.address for each in seen.candidates],
        "controllers": [
            {
                "id": controller,
                "address": str(node.endpoint),
                "version": node.software,
                "startedMs": node.started_ms,
                "formats": list(node.formats),
                "buckets": sorted(bucket for bucket, owner in seen.buckets.items() if owner == controller),
            }
            for controller, node in sorted(seen.controllers.items())
        ],
        "stores": [_store(seen, store, node) for store, node in sorted(seen.stores.items())],
        "map": None if seen.map is None else {"generation": seen.map.generation},
        "containers": [asdict(each) for each in containers],
        "freeBuckets": [bucket for bucket in range(facts.buckets) if bucket not in seen.buckets],
    }


def _store(seen: Seen, store: str, node: StoreNode) -> dict[str, Any]:
    return {
        "id": store,
        "address": str(node.endpoint),
        "rest": None if node.rest is None else str(node.rest),
        "version": node.software,
        "startedMs": node.started_ms,
        "zone": node.zone,
        "host": node.host,
        "capacity": node.capacity,
        "formats": list(node.formats),
        "draining": node.draining or store in seen.drained,
        "drainedByOperator": store in seen.drained,
        "failures": {str(number): count for number, count in sorted(node.failures.items())},
        "containers": sorted(number for number, claim in seen.claims.items() if claim.store == store),
    }

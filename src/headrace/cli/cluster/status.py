"""What ``headrace cluster status`` does: looks at the nodes of a cluster once, and says what they mean."""

from __future__ import annotations

import asyncio
from typing import Any

from click.exceptions import Exit

from headrace.cli.cluster.cluster_session import in_session
from headrace.cli.cluster.state import Seen, document_of
from headrace.cli.output import counted, print_columns, print_fields, print_json, print_line, progress
from headrace.cluster.drains import asked_to_drain
from headrace.cluster.facts_store import read_facts
from headrace.cluster.leader_node import LEADER, Candidate, candidate_path, decode_candidate
from headrace.cluster.levels import spoken
from headrace.cluster.node_reads import read_claims, read_drains, read_map, read_stores
from headrace.controller.buckets.members import read_members
from headrace.coordination.contract import Session
from headrace.errors import EXIT_CODES, OverloadError


def show_status(*, coordinator: str | None, as_json: bool) -> None:
    """Print it, and exit with 4 unless somebody leads and every container is served.

    Raises PreconditionError: there is no cluster.
    """
    document = document_of(in_session(coordinator, look))
    if as_json:
        print_json(document)
    else:
        _print(document)
    if not document["served"]:
        raise Exit(EXIT_CODES[OverloadError])


async def look(session: Session) -> Seen:
    """Read everything once. What comes or goes meanwhile may be missing."""
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


def _print(document: dict[str, Any]) -> None:
    facts = document["facts"]
    print_fields(
        [
            ("system", facts["system"]),
            ("log", facts["log"]),
            ("storage", facts["storage"]),
            ("format", facts["format"]),
            ("leader", document["leader"]),
            ("map", None if document["map"] is None else f"generation {document['map']['generation']}"),
        ]
    )
    if document["controllers"]:
        print_line("")
        print_columns(
            ("controller", "version", "formats", "buckets"),
            [
                [each["address"], each["version"], spoken(each["formats"]), len(each["buckets"])]
                for each in document["controllers"]
            ],
        )
    if document["stores"]:
        print_line("")
        print_columns(
            ("store", "address", "version", "formats", "containers", "state"),
            [
                [
                    each["id"],
                    each["address"],
                    each["version"] or None,
                    spoken(each["formats"]),
                    len(each["containers"]),
                    "drains" if each["draining"] else "serves",
                ]
                for each in document["stores"]
            ],
        )
    print_line("")
    print_columns(
        ("container", "served by", "epoch", "what"),
        [
            [each["container"], each["address"] if each["served"] else None, each["epoch"], each["why"]]
            for each in document["containers"]
        ],
    )
    waiting = len(document["candidates"]) - len(document["controllers"])
    if waiting > 0:
        progress(f"{counted(waiting, 'controller')} started and not ready")
    if document["freeBuckets"]:
        progress(f"{counted(len(document['freeBuckets']), 'bucket')} without a controller: its work waits")
    for problem in document["problems"]:
        progress(problem)

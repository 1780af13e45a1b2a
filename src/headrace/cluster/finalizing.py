"""Ends a rolling upgrade on behalf of an operator, and has processes that it left behind notice.

The format of the facts is raised by one compare-and-set. A process that cannot take part at it is not there
then, and does not start later; one that slept, or joined at that very moment, ends when it reads the facts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import replace

from headrace.cluster.facts_node import FACTS
from headrace.cluster.facts_store import find_facts, read_facts, update_facts
from headrace.cluster.leader_node import LEADER
from headrace.cluster.levels import MemberFormats, check_level, plan_level
from headrace.cluster.node_reads import read_controllers, read_stores
from headrace.cluster.watched_members import follow
from headrace.coordination.contract import Session
from headrace.errors import PreconditionError
from headrace.runtime.entropy import Entropy


async def finalize(session: Session) -> tuple[int, int]:
    """Raise the format of the cluster to the newest at which every live member can take part; return the
    format before and after. Idempotent: they are the same if no member can more.

    Raises:
        PreconditionError: some members can more and others cannot, or are not known yet; nothing changed.
        UnknownOutcomeError: the coordinator does not answer: it may have happened, ask again.
    """
    before = (await read_facts(session)).format
    stores, controllers, candidates = await asyncio.gather(
        read_stores(session), read_controllers(session), session.children(LEADER)
    )
    found = (("segment store", stores.values()), ("controller", controllers.values()))
    members = [
        MemberFormats(f"{kind} {node.endpoint}", node.software, node.formats)
        for kind, nodes in found
        for node in nodes
    ]
    wanted = plan_level(before, members)
    unknown = len(candidates) - len(controllers)
    if wanted > before and unknown > 0:
        raise PreconditionError(
            f"{unknown} of {len(candidates)} controllers have started and are not ready, and do not say yet "
            "which formats they know: wait until they are, or end them; nothing was changed"
        )
    facts = await update_facts(session, lambda each: replace(each, format=max(wanted, each.format)))
    return before, facts.format


async def follow_level(
    session: Session,
    formats: Collection[int],
    entropy: Entropy,
    on_left_behind: Callable[[PreconditionError], None],
) -> None:
    """Call ``on_left_behind`` once a process that can take part at ``formats`` no longer can; until the
    session is over.

    Raises:
        SessionExpiredError: it is.
    """

    async def read() -> None:
        facts = await find_facts(session)
        try:
            if facts is not None:
                check_level(facts, formats)
        except PreconditionError as error:
            on_left_behind(error)

    await follow(session.watch(FACTS), entropy, read)

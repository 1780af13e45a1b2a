"""The facts of a cluster: made once, read by every process, changed under their version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.cluster.facts_node import FACTS, Facts, decode_facts, encode_facts
from headrace.coordination.contract import Session
from headrace.errors import (
    MetadataConflictError,
    NodeExistsError,
    NoSuchNodeError,
    PreconditionError,
    UnknownOutcomeError,
)

_ATTEMPTS_MAX: Final = 10
_UNBORN: Final = "the coordinator has no cluster under this root: make it first, with headrace cluster init"


async def create_facts(session: Session, facts: Facts) -> None:
    """Let the cluster be born. ``facts.system`` is an id that was drawn for it.

    Raises:
        PreconditionError: it was born before; nothing changed.
        UnknownOutcomeError: the coordinator does not answer: it may be born, ask again.
    """
    data = encode_facts(facts)
    for attempt in range(_ATTEMPTS_MAX):
        try:
            await session.create(FACTS, data)
            return
        except UnknownOutcomeError:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
        except NodeExistsError:
            node = await session.read(FACTS)
            if attempt and node is not None and node.data == data:
                return  # by a write whose answer was lost
            raise born_before(None if node is None else decode_facts(node.data)) from None


def born_before(present: Facts | None) -> PreconditionError:
    """Return what is said of a second birth."""
    system = "" if present is None else f" of system {present.system}"
    return PreconditionError(
        f"the coordinator has a cluster already, with the data{system}: nothing was changed. "
        "Take another root for a new cluster"
    )


async def find_facts(session: Session) -> Facts | None:
    """Return the facts; None: the cluster was not born yet."""
    node = await session.read(FACTS)
    return None if node is None else decode_facts(node.data)


async def read_facts(session: Session) -> Facts:
    """Return the facts.

    Raises:
        PreconditionError: the cluster was not born yet.
    """
    facts = await find_facts(session)
    if facts is None:
        raise PreconditionError(_UNBORN)
    return facts


async def update_facts(session: Session, change: Callable[[Facts], Facts]) -> Facts:
    """Change the facts, and return them. ``change`` is called again until what it returns is what there is.

    Raises:
        PreconditionError: the cluster was not born yet.
        UnknownOutcomeError: the coordinator does not answer: it may have happened, ask again.
        MetadataConflictError: others change them all the time; nothing changed.
    """
    last: UnknownOutcomeError | MetadataConflictError | None = None
    for _ in range(_ATTEMPTS_MAX):
        node = await session.read(FACTS)
        if node is None:
            raise PreconditionError(_UNBORN)
        present = decode_facts(node.data)
        wanted = change(present)
        if wanted == present:
            return present
        try:
            await session.write(FACTS, encode_facts(wanted), node.version)
            return wanted
        except (UnknownOutcomeError, MetadataConflictError) as error:
            last = error
        except NoSuchNodeError:
            continue
    raise last or MetadataConflictError("the facts of the cluster come and go")


async def mark_opened(session: Session, container_id: int) -> Facts:
    """Remember that a container was opened: from now on a log of it that is missing is lost. Idempotent."""
    return await update_facts(session, lambda facts: facts.with_opened(container_id))


async def note_buckets(session: Session, count: int) -> Facts:
    """Write how many buckets the rows have. Idempotent: their number never changes."""
    return await update_facts(session, lambda facts: replace(facts, buckets=count))

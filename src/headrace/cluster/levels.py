"""At which format a cluster writes, and to which one it may be raised. Pure.

A format is written once the facts say so: until then a release that knows only the one before reads all that
there is, and members of both are in the cluster side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from headrace.cluster.facts_node import Facts
from headrace.errors import PreconditionError


@dataclass(frozen=True, slots=True)
class MemberFormats:
    """A live member, and what it says of itself."""

    name: str
    """What it is and where, for people."""
    software: str
    formats: Collection[int]
    """At each of them it can take part; empty: it says nothing, as before it could."""


def check_level(facts: Facts, formats: Collection[int]) -> None:
    """Refuse a cluster at a format at which a process cannot take part.

    Raises:
        PreconditionError: it is.
    """
    if facts.format not in formats:
        age = "newer" if facts.format > max(formats) else "older"
        raise PreconditionError(
            f"this cluster is at format {facts.format}, and this version of Headrace takes part at "
            f"{spoken(formats)}: install a{'n' if age == 'older' else ''} {age} one"
        )


def plan_level(present: int, members: Sequence[MemberFormats]) -> int:
    """Return the format to which a cluster is to be raised: the newest at which every live member can take
    part. It is the present one if none can more.

    Raises:
        PreconditionError: some can more and others cannot, or there is no member.
    """
    if not members:
        raise PreconditionError("no member lives that could say which formats it knows: nothing was changed")
    known = [{present, *each.formats} for each in members]
    common = max(set.intersection(*known))
    if common > present or max(set.union(*known)) == present:
        return max(common, present)
    behind = [each for each in members if present + 1 not in each.formats]
    told = "; ".join(f"{each.name} of version {each.software or 'unknown'}" for each in behind)
    raise PreconditionError(
        f"the cluster stays at format {present}, because not every live member knows format {present + 1}. "
        f"Upgrade or end these first: {told}"
    )


def spoken(formats: Collection[int]) -> str:
    """Return formats as people read them."""
    if not formats:
        return "unknown"
    first, last = min(formats), max(formats)
    return str(first) if first == last else f"{first} to {last}"

"""Which buckets a controller claims and which it releases, from what it sees of the others.

Each computes for itself. Counts end up differing by at most one. A bucket is released only by a controller
with more than its quota, and claimed only up to a quota, so none moves twice for one change of the members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """What is to be done next, each in the order given."""

    claim: tuple[int, ...] = ()
    release: tuple[int, ...] = ()


def quotas(live: Collection[str], owners: Mapping[int, str], count: int) -> dict[str, int]:
    """Return how many of ``count`` buckets each live controller is to have.

    What does not divide evenly goes to those that own most, so that as little as possible moves.
    """
    least, more = divmod(count, len(live))
    owned = Counter(owners.values())
    ranked = sorted(live, key=lambda member: (-owned[member], member))
    return {member: least + (rank < more) for rank, member in enumerate(ranked)}


def plan_share(me: str, live: Collection[str], owners: Mapping[int, str], count: int) -> Share:
    """Plan for the live controller ``me``; ``owners`` says whose each claimed bucket is.

    Members that claim at the same time begin at different places of what is free, and rarely meet.
    """
    quota = quotas(live, owners, count)[me]
    mine = sorted(bucket for bucket, owner in owners.items() if owner == me)
    if len(mine) > quota:
        return Share(release=tuple(mine[quota:]))
    free = [bucket for bucket in range(count) if bucket not in owners]
    first = sorted(live).index(me) * len(free) // len(live)
    return Share(claim=tuple((free[first:] + free[:first])[: quota - len(mine)]))

"""At which cut a stream with a retention policy is truncated. Pure.

The *retention set* holds tail cuts of the past, ordered by time, each with the size of the stream up to it. A
stream whose readers report positions has a *lower bound* too: what lies before it no subscriber needs. The
policy's minimum is retained in any case; between minimum and maximum the bound decides; beyond the maximum
data are dropped, also what a subscriber needs.

Cuts may be large, and few of them are needed: a choice asks how single members lie to the bound, by yielding
questions, and its driver answers.

Source: protocol, "Retention".
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.controller.streams.retention_sets import SetMember
from headrace.model.policies import RetentionKind, RetentionPolicy
from headrace.model.stream_cut import Relation


@dataclass(frozen=True, slots=True)
class MemberToBound:
    """How does member ``index`` lie to the lower bound?"""

    index: int


@dataclass(frozen=True, slots=True)
class BoundToMember:
    """How does the lower bound lie to member ``index``?"""

    index: int


Question = MemberToBound | BoundToMember
Choice = int | None
"""The index of a member, or ``LOWER_BOUND``; None: nothing is truncated."""

Asking = Generator[Question, Relation, Choice]

LOWER_BOUND: Final = -1


@dataclass(frozen=True, slots=True)
class Limits:
    """Members by index that the policy alone points to.

    ``minimum`` is the most recent one behind which enough is retained, ``maximum`` the oldest that retains
    enough and not too much (or else ``minimum``), ``expired`` the most recent one that retains too much.
    """

    minimum: int | None
    maximum: int | None
    expired: int | None


def limits(members: Sequence[SetMember], policy: RetentionPolicy, now_ms: int) -> Limits:
    """Measure the set. A maximum that is 0 or below the minimum does not limit."""
    unlimited = policy.maximum <= 0 or policy.maximum < policy.minimum
    minimum = maximum = expired = None
    for index, delta in enumerate(_retained(members, policy.kind, now_ms)):
        if delta < policy.minimum:
            continue
        minimum = index
        if maximum is None and (unlimited or delta <= policy.maximum):
            maximum = index
        if not unlimited and delta >= policy.maximum:
            expired = index
    return Limits(minimum, minimum if maximum is None else maximum, expired)


def choose_unbound(members: Sequence[SetMember], policy: RetentionPolicy, now_ms: int) -> Choice:
    """Choose for a stream of whose subscribers none has reported a position."""
    return limits(members, policy, now_ms).minimum


def choose_bound(
    members: Sequence[SetMember], policy: RetentionPolicy, now_ms: int, bound_retains_bytes: int
) -> Asking:
    """Choose for a stream with a lower bound, behind which ``bound_retains_bytes`` lie up to the last
    member.
    """
    found = limits(members, policy, now_ms)
    if policy.kind is RetentionKind.SIZE:
        return (yield from _choose_by_size(members, policy, found, bound_retains_bytes))
    return (yield from _choose_by_time(found))


def _choose_by_size(
    members: Sequence[SetMember], policy: RetentionPolicy, found: Limits, bound_retains: int
) -> Asking:
    if bound_retains < policy.minimum:
        if found.minimum is None:
            return None
        if (yield MemberToBound(found.minimum)) is Relation.BEFORE:
            return found.minimum
        return (yield from _last_before(found.minimum))
    unlimited = policy.maximum <= 0 or policy.maximum < policy.minimum
    if unlimited or bound_retains < policy.maximum or found.maximum is None:
        return LOWER_BOUND
    retained = members[-1].size_bytes - members[found.maximum].size_bytes
    return found.maximum if retained < bound_retains else LOWER_BOUND


def _choose_by_time(found: Limits) -> Asking:
    if found.minimum is None:
        return None
    relation = yield MemberToBound(found.minimum)
    if relation is Relation.BEFORE:
        return found.minimum
    if relation is Relation.OVERLAPS:
        return (yield from _last_before(found.minimum))
    if found.expired is None:
        return LOWER_BOUND
    match (yield BoundToMember(found.expired)):
        case Relation.EQUAL_OR_AFTER:
            return LOWER_BOUND
        case Relation.BEFORE:
            return found.maximum
        case Relation.OVERLAPS:
            return found.expired


def _last_before(last: int) -> Asking:
    """Find the most recent member, up to ``last``, that drops nothing the bound needs.

    That is one the bound is equal to or after: a member that equals it in some segments, because nothing was
    written to them, is no less safe than one that lies before it everywhere. Later members lie after earlier
    ones, so halves are asked.
    """
    low, high = 0, last + 1  # members in front of low are good, those from high on are not
    while low < high:
        middle = (low + high) // 2
        if (yield BoundToMember(middle)) is Relation.EQUAL_OR_AFTER:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low else None


def thinned(members: Sequence[SetMember], kind: RetentionKind, count_max: int) -> list[int]:
    """Return which members remain, by index, so that they are at most ``count_max``.

    The first and the last stay. Of the others those go first that leave the smallest gaps, so that the rest
    is spread over what is retained.
    """
    remaining = list(range(len(members)))
    places = _places(members, kind)
    while len(remaining) > max(2, count_max):
        gaps = (places[remaining[at + 1]] - places[remaining[at - 1]] for at in range(1, len(remaining) - 1))
        _, at = min((gap, at) for at, gap in enumerate(gaps, start=1))
        del remaining[at]
    return remaining


def _retained(members: Sequence[SetMember], kind: RetentionKind, now_ms: int) -> list[int]:
    """What each member retains: bytes behind it up to the last one, or ms since it was taken."""
    end = now_ms if kind is RetentionKind.TIME else (members[-1].size_bytes if members else 0)
    return [end - place for place in _places(members, kind)]


def _places(members: Sequence[SetMember], kind: RetentionKind) -> list[int]:
    return [each.time_ms if kind is RetentionKind.TIME else each.size_bytes for each in members]

"""What a store does next about a container: from intent, claim and its own state. Pure.

Run again whenever one of them changes. A step that was lost, or whose outcome is unknown, is found again.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from headrace.cluster.claim_node import Claim
from headrace.cluster.observed import Local, ObservedClaim, Phase, Unsure

COURTESY_S: Final = 5.0
"""How long a former owner that lives may take to end in order, before it is fenced."""


class Step(Enum):
    """One step at a time; after it this is asked again."""

    NOTHING = auto()
    LOOK = auto()
    """Read the map and the claims again: what is known is older than what has happened."""
    WAIT_FOR_CLAIM = auto()
    """Until the claim of the other store goes, or its time is over."""
    WAIT_FOR_PAUSE = auto()
    GIVE = auto()
    """Open the log, which fences whoever has it, and recover."""
    CLAIM = auto()
    """Say that it is served here: it is recovered, and nobody else says so."""
    SERVE = auto()
    """Make sure that the log is still this store's, then answer."""
    TAKE = auto()
    """Answer nothing any more, and end it here in order."""
    DROP = auto()
    """Delete the claim: it is not served under it."""
    REPORT_FAILURE = auto()
    """Write into the store's node how often it has failed."""


def next_step(me: str, wanted: bool, claim: ObservedClaim, local: Local, now_s: float) -> Step:
    """Return what the store ``me`` does about one container.

    ``wanted``: whether the map gives it to this store. ``now_s`` is on the clock of ``local``.
    """
    if local.phase is Phase.ENDING:
        return Step.NOTHING
    if not wanted and local.phase in {Phase.STARTING, Phase.RECOVERED, Phase.SERVING}:
        return Step.TAKE
    if local.failures > local.reported:
        return Step.REPORT_FAILURE
    if local.phase is Phase.STARTING:
        return Step.NOTHING
    if claim is Unsure.UNKNOWN:
        return Step.LOOK
    if local.phase in {Phase.RECOVERED, Phase.SERVING}:
        return _step_of_recovered(me, claim, local)
    if claim is not None and claim.store == me:
        return Step.DROP
    return _step_to_begin(claim, local, now_s) if wanted else Step.NOTHING


def _step_of_recovered(me: str, claim: Claim | None, local: Local) -> Step:
    if claim is None:
        return Step.CLAIM
    if claim.store != me:
        # A former owner drops it, or its session ends. One of a higher epoch has fenced this store.
        return Step.TAKE if claim.container_epoch > local.container_epoch else Step.WAIT_FOR_CLAIM
    if claim.container_epoch != local.container_epoch:
        return Step.DROP  # of the time before it recovered again
    return Step.SERVE if local.phase is Phase.RECOVERED else Step.NOTHING


def _step_to_begin(claim: Claim | None, local: Local, now_s: float) -> Step:
    if local.phase is not Phase.NONE and now_s < local.retry_at_s:
        return Step.WAIT_FOR_PAUSE
    if claim is None:
        return Step.GIVE
    since_s = now_s if local.waits_since_s is None else local.waits_since_s
    return Step.WAIT_FOR_CLAIM if now_s < since_s + COURTESY_S else Step.GIVE

"""What is seen of one container: its claim, and how it is in this process. Pure.

Neither is what the leader wants; that is the intent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from headrace.cluster.claim_node import Claim


class Unsure(Enum):
    """In place of a claim."""

    UNKNOWN = auto()
    """Something has happened since the last look, such as a write without an answer: we may have it."""


ObservedClaim = Claim | Unsure | None
"""None: nobody has it."""


class Phase(Enum):
    """How a container is in this process."""

    NONE = auto()
    STARTING = auto()
    """It was given, and recovers; it may have failed before."""
    RECOVERED = auto()
    """It has the log, and answers nothing yet."""
    SERVING = auto()
    ENDING = auto()
    FENCED = auto()
    """Another process has opened its log; it has ended here."""
    FAILED = auto()
    """It has ended here; it may be given again when its pause is over."""


@dataclass(frozen=True, slots=True)
class Local:
    """One container as this process has it."""

    phase: Phase = Phase.NONE
    container_epoch: int = 0
    """Of the log, once it was recovered."""
    failures: int = 0
    """Since the store is a member."""
    reported: int = 0
    """How many of them other members can know of."""
    retry_at_s: float = 0.0
    """When one that was fenced or has failed may be given again."""
    waits_since_s: float | None = None
    """Since when it is wanted here while another store has the claim."""

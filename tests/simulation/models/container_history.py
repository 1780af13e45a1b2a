"""Judges the answers of one container between two moments at which everything was looked at.

Each such period begins with a known state, ends with an observation, and must have an order that leads from
one to the other. What is unknown (the owner died before it answered) happened in the period or never.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from headrace.errors import HeadraceError
from headrace.testing.history import NEVER, History, Operation, Outcome
from headrace.testing.linearizability import Answer, NotLinearizableError, linearize
from headrace.testing.trace import Trace
from tests.simulation.models import container_model, table_model
from tests.simulation.models.container_calls import (
    ContainerAnswer,
    ContainerCall,
    CreateSegmentCall,
    DeleteSegmentCall,
    EnsureSealedCall,
    GetAttributeCall,
    MergeIfThereCall,
    MergeSegmentsCall,
    ObserveAnswer,
    ReadSegmentCall,
    SealSegmentCall,
    SegmentInfoCall,
    TruncateSegmentCall,
    UpdateAttributesCall,
)
from tests.simulation.models.container_model import ModelContainer
from tests.simulation.models.table_model import CreateTableCall, GetEntriesCall, TableAnswers, TableCall

STEPS_MAX: Final = 300_000

STALE_TARGET: Final = "StaleTarget"
"""An append target outlives its segment; a new segment of that name may be there already."""

CONFLICT: Final = "Conflict"
"""A writer's block does not continue what the store knows of that writer."""

#: Reasons that say nothing about segments: always possible.
_ANY_TIME: Final = frozenset(
    {
        STALE_TARGET,
        CONFLICT,
        "ContainerOffline",
        "Closed",
        "Throttled",
        "FencedOut",
        "StorageFull",
        "CacheFull",
        "TooManyActiveSegments",
    }
)

_MERGES: Final = (MergeSegmentsCall, MergeIfThereCall)

_LOOKS: Final = (ReadSegmentCall, SegmentInfoCall, GetAttributeCall, GetEntriesCall)

#: Refused by a container only for what is durable; its other refusals may be about what is in flight.
PATIENT_CALLS: Final[tuple[type, ...]] = (CreateSegmentCall, SealSegmentCall, CreateTableCall)

#: What a whole store refuses only for what is durable: every change of a segment but an append.
STORE_PATIENT_CALLS: Final[tuple[type, ...]] = (
    *PATIENT_CALLS,
    DeleteSegmentCall,
    MergeSegmentsCall,
    TruncateSegmentCall,
    UpdateAttributesCall,
)


@dataclass(frozen=True, slots=True)
class Rules:
    """A model: where it begins, where an operation leads, and which state an observation is."""

    initial: Any
    step: Callable[[Any, Operation], Any]
    state_of: Callable[[Any], Any]


SEGMENTS: Final = Rules(ModelContainer(), container_model.step, container_model.state_of)
TABLE: Final = Rules(table_model.INITIAL, table_model.step, table_model.state_of)


class ContainerHistory:
    """What happened since the last observation."""

    def __init__(
        self,
        now: Callable[[], float],
        trace: Trace,
        rules: Rules = SEGMENTS,
        patient: tuple[type, ...] = PATIENT_CALLS,
    ) -> None:
        self._history = History(now)
        self._trace = trace
        self._rules = rules
        self._patient = patient
        self.state = rules.initial
        self.contested = False
        """Whether two owners were at work in this period: looks may then be old, refusals wrong."""
        self.judged = 0
        """Operations in periods that had a verdict."""
        self.happened: Counter[str] = Counter()
        """How many calls of each kind happened for sure."""
        self.undecided = 0
        """Periods with so much of unknown outcome that the search was given up: neither right nor wrong."""

    def start(self, client: str, call: ContainerCall | TableCall) -> Operation:
        """Note that ``client`` is about to ask."""
        operation = self._history.start(client, cast("Any", call))
        self._trace.add(client, "asks", number=operation.started, call=call)
        return operation

    def succeed(self, operation: Operation, answer: ContainerAnswer | TableAnswers | None = None) -> None:
        """Note that it happened."""
        self._history.succeed(operation, cast("Any", answer))
        self._trace.add(operation.client, "told", number=operation.started, answer=answer)

    def fail(self, operation: Operation, error: HeadraceError) -> None:
        """Note a failure as what its family says it is."""
        self._history.fail(operation, error)
        self._trace.add(operation.client, "refused", number=operation.started, why=operation.reason)

    def refuse(self, operation: Operation, reason: str) -> None:
        """Note that it did not happen, for a reason that is no error's name."""
        self._history.refuse(operation, reason)

    def lose(self, operation: Operation, reason: str) -> None:
        """Note that its outcome stays unknown."""
        self._history.lose(operation, reason)

    @property
    def operations(self) -> list[Operation]:
        """Of this period, in the order of their starts."""
        return self._history.operations

    def go_back(self, state: Any) -> None:
        """What was asked for since then is lost: the next observation has to be of that state."""
        self._history.operations.clear()
        self.state = state

    def end_period(self) -> None:
        """Judge; what was observed last is where the next period begins.

        Raises:
            NotLinearizableError: no order explains the answers.
        """
        operations = [*judgeable(self.operations, contested=self.contested, patient=self._patient)]
        verdict = linearize(operations, self.state, self._rules.step, steps_max=STEPS_MAX)
        if verdict.answer is Answer.ILLEGAL:
            raise NotLinearizableError(verdict.describe())
        if verdict.answer is Answer.UNDECIDED:
            self.undecided += 1
            self.state = self._rules.state_of(self.operations[-1].result)
        else:
            assert verdict.state is not None
            self.judged += len(self.operations)
            self.state = verdict.state
        done = [operation for operation in self.operations if operation.outcome is Outcome.OK]
        self.happened.update(type(operation.call).__name__ for operation in done)
        self._history.operations.clear()
        self.contested = False


def judgeable(
    operations: list[Operation], *, contested: bool, patient: tuple[type, ...] = PATIENT_CALLS
) -> list[Operation]:
    """Return what the model can judge, in the words of the model.

    * A merge seals its source first: if it came to nothing, or a client saw the source meanwhile, that is
      one more operation, perhaps.
    * A refusal may be about operations that are accepted and not yet durable: it is judged as if it
      had been answered when they were, and not at all if that never happened. Not so for the calls that are
      ``patient``.
    """
    judged = []
    for operation in operations:
        call: Any = operation.call
        if isinstance(call, _MERGES):
            if operation.outcome is not Outcome.OK:
                judged.extend(_seal_of_source(operation, operations[-1]))
            elif _was_seen_sealed(operation, operations):
                judged.append(_sealing_by(operation))
        if operation.outcome is Outcome.UNKNOWN and isinstance(call, _LOOKS):
            continue
        if contested and isinstance(call, _LOOKS):
            continue
        if operation.outcome is Outcome.REFUSED:
            if operation.reason in _ANY_TIME or contested:
                continue
            if not isinstance(call, patient):
                end = max([operation.ended, *(other.ended for other in _in_flight(operation, operations))])
                if end == NEVER:
                    continue
                operation = replace(operation, ended=end)
        judged.append(operation)
    return judged


def _seal_of_source(merge: Operation, observation: Operation) -> list[Operation]:
    """Return the sealing of the source of a merge that came to nothing: certain, possible, or not at all.

    What is observed in the end says which, unless the source is gone.
    """
    operation = _sealing_by(merge)
    call: Any = merge.call
    answer: Any = observation.result
    seen = answer.segments.get(call.source) if isinstance(answer, ObserveAnswer) else None
    if seen is not None:
        if not seen.facts.sealed:
            return []
        operation.outcome, operation.ended = Outcome.OK, observation.started
    return [operation]


def _was_seen_sealed(merge: Operation, operations: list[Operation]) -> bool:
    """Say whether an answer during the merge said that its source is sealed."""
    call: Any = merge.call
    for other in operations:
        if other.started < merge.ended and merge.started < other.ended:
            other_call: Any = other.call
            if other_call.segment == call.source and (
                other.reason == "SegmentSealed" or getattr(other.result, "sealed", False)
            ):
                return True
    return False


def _sealing_by(merge: Operation) -> Operation:
    """Return the sealing of the source as an operation that may have happened."""
    call: Any = merge.call
    seal: Any = EnsureSealedCall(call.source)
    return Operation(merge.client, seal, merge.started, merge.started_at)


def _in_flight(refused: Operation, operations: list[Operation]) -> list[Operation]:
    """Return the operations about the same segments that were not answered when this was refused."""
    about = _segments_of(refused.call)
    overlapping = [other for other in operations if other.started < refused.ended < other.ended]
    return [
        other for other in overlapping if not _only_looks(other.call) and about & _segments_of(other.call)
    ]


def _only_looks(call: Any) -> bool:
    return isinstance(call, _LOOKS)


def _segments_of(call: Any) -> set[str]:
    return {call.segment, call.source} if isinstance(call, _MERGES) else {call.segment}

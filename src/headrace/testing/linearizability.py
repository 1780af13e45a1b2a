"""Is there one order of all operations, each between its start and its end, in which a correct
object could have executed them?

The search is the one of Wing and Gong with the memory of Lowe: walk through histories that agree with real
time, step the model, remember every pair (operations done, state) that was reached, and step back where no
operation fits. Those of unknown outcome are tried last, need not be placed at all, and are only placed
where they change something.

Fast where answers carry positions, as those of a segment do: then hardly any step has an alternative. The
worst case is exponential, hence the bound on steps; reaching it is the verdict ``UNDECIDED``, never
``LEGAL``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from headrace.testing.failures import SimulationError
from headrace.testing.history import NEVER, History, Operation, Outcome
from headrace.testing.known_content import ContradictionError, KnownContent
from headrace.testing.segment_model import INITIAL, SegmentModel, shows_in_state

STEPS_MAX_DEFAULT: Final = 2_000_000

_SHOWN_MAX: Final = 12


class ModelState(Protocol):
    """What the search needs of a state."""

    @property
    def key(self) -> object:
        """Hashable; equal for states that no operation can distinguish."""


S = TypeVar("S", bound=ModelState)


class Answer(Enum):
    LEGAL = "legal"
    ILLEGAL = "illegal"
    UNDECIDED = "undecided"


@dataclass(slots=True)
class Verdict(Generic[S]):
    """What the search found."""

    answer: Answer
    order: list[Operation] = field(default_factory=list)
    """An order that explains all, or the longest that was found."""

    state: S | None = None
    """The state behind ``order``."""

    unplaced: list[Operation] = field(default_factory=list)
    """Operations with a known outcome that are not in ``order``, by their starts."""

    steps: int = 0

    def describe(self) -> str:
        """Return the verdict as text: what was explained last, and what could not be."""
        lines = [f"{self.answer.value} after {self.steps} steps; {len(self.order)} operations explained"]
        lines += ["the last of them:"] + [f"  {operation}" for operation in self.order[-_SHOWN_MAX:]]
        if self.unplaced:
            lines += [f"state: {self.state}"[:400], "none of these fits next:"]
            lines += [f"  {operation}" for operation in self.unplaced[:_SHOWN_MAX]]
        return "\n".join(lines)


class NotLinearizableError(SimulationError):
    """No order explains the answers of the clients."""


def check_segments(history: History) -> None:
    """Check every segment of a history.

    Raises:
        NotLinearizableError: naming the segment, with the longest explanation and what does not fit.
    """
    for segment, operations in history.by_segment().items():
        try:
            model = SegmentModel(KnownContent.of(operations))
        except ContradictionError as error:
            raise NotLinearizableError(f"segment {segment!r}: {error}") from None
        verdict = linearize(operations, INITIAL, model.step, shows_in_state=shows_in_state)
        if verdict.answer is not Answer.LEGAL:
            raise NotLinearizableError(f"segment {segment!r}: {verdict.describe()}")


def linearize(
    operations: Sequence[Operation],
    initial: S,
    advance: Callable[[S, Operation], S | None],
    *,
    shows_in_state: Callable[[Operation], bool] | None = None,
    steps_max: int = STEPS_MAX_DEFAULT,
) -> Verdict[S]:
    """Search for an order of ``operations`` that ``advance`` accepts from ``initial`` on.

    Args:
        operations: of one object.
        initial: the state before all of them.
        advance: the model.
        shows_in_state: says of an operation of unknown outcome that, once it or an equal one has taken
            effect, the state shows so and it has no further effect. Which of several equal ones it was is
            then never asked.
        steps_max: bound of the search.
    """
    return _Search(operations, advance, shows_in_state, steps_max).run(initial)


class _Search(Generic[S]):
    """One search. Operations are bits; those not placed yet form a list in the order of their starts."""

    def __init__(
        self,
        operations: Sequence[Operation],
        advance: Callable[[S, Operation], S | None],
        shows_in_state: Callable[[Operation], bool] | None,
        steps_max: int,
    ) -> None:
        self._operations = sorted(operations, key=lambda operation: operation.started)
        self._advance = advance
        self._steps_max = steps_max
        self._steps = 0
        self._wanted = sum(
            1 << bit for bit, found in enumerate(self._operations) if found.outcome is not Outcome.UNKNOWN
        )
        self._remembered = self._wanted
        for bit, operation in enumerate(self._operations):
            if operation.outcome is Outcome.UNKNOWN and not (shows_in_state and shows_in_state(operation)):
                self._remembered |= 1 << bit
        count = len(self._operations)
        # A doubly linked list through an extra place at the end: taking out and putting back are exact
        # inverses.
        self._next = [*range(1, count + 1), 0]
        self._previous = [count, *range(count)]
        self._rim = count

    def run(self, state: S) -> Verdict[S]:
        done = 0
        seen = {(0, state.key)}
        path: list[tuple[int, S]] = []
        branches = [self._candidates()]
        best: tuple[list[tuple[int, S]], S] = ([], state)
        while done & self._wanted != self._wanted:
            found = self._find_step(branches[-1], state, done, seen)
            if found is not None:
                if found[1] is state:
                    # It fits here and changes nothing: were there an order with it later, there is one with
                    # it now. So nothing else needs to be tried in this place.
                    branches[-1] = iter(())
                path.append((found[0], state))
                done |= 1 << found[0]
                state = found[1]
                self._take_out(found[0])
                branches.append(self._candidates())
                continue
            if len(path) > len(best[0]):
                best = (list(path), state)
            if self._steps >= self._steps_max:
                return self._verdict(Answer.UNDECIDED, *best)
            branches.pop()
            if not path:
                return self._verdict(Answer.ILLEGAL, *best)
            bit, state = path.pop()
            done &= ~(1 << bit)
            self._put_back(bit)
        return self._verdict(Answer.LEGAL, path, state)

    def _find_step(
        self, branch: Iterator[int], state: S, done: int, seen: set[tuple[int, object]]
    ) -> tuple[int, S] | None:
        for bit in branch:
            self._steps += 1
            if self._steps >= self._steps_max:
                return None
            after = self._advance(state, self._operations[bit])
            if after is None or (after is state and not self._wanted >> bit & 1):
                continue
            reached = ((done | 1 << bit) & self._remembered, after.key)
            if reached not in seen:
                seen.add(reached)
                return bit, after
        return None

    def _candidates(self) -> Iterator[int]:
        """Yield those that could be next: started before any other that is not placed has ended; unknown
        last.

        Between two of them the list has to be as it was: a caller puts back what it took out before it
        continues.
        """
        operations, following = self._operations, self._next
        earliest_end = NEVER + 1
        place = following[self._rim]
        while place != self._rim and operations[place].started < earliest_end:
            earliest_end = min(earliest_end, operations[place].ended)
            if self._wanted >> place & 1:
                yield place
            place = following[place]
        place = following[self._rim]
        while place != self._rim and operations[place].started < earliest_end:
            if not self._wanted >> place & 1:
                yield place
            place = following[place]

    def _take_out(self, place: int) -> None:
        before, after = self._previous[place], self._next[place]
        self._next[before] = after
        self._previous[after] = before

    def _put_back(self, place: int) -> None:
        self._next[self._previous[place]] = place
        self._previous[self._next[place]] = place

    def _verdict(self, answer: Answer, path: list[tuple[int, S]], state: S) -> Verdict[S]:
        placed = {bit for bit, _ in path}
        unplaced = [
            operation
            for bit, operation in enumerate(self._operations)
            if bit not in placed and operation.outcome is not Outcome.UNKNOWN
        ]
        order = [self._operations[bit] for bit, _ in path]
        return Verdict(answer, order, state, unplaced, self._steps)

"""What clients of a whole store were told: one history per stream segment, transactions and all.

Histories of objects that share nothing can be judged one by one, and small ones are judged fast. A merge
stays within a stream segment and those beside it, so these are the objects.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.model.hashing import container_of
from headrace.model.names import primary_name
from headrace.testing.container_calls import (
    ContainerCall,
    DeleteSegmentCall,
    NextOwnerCall,
    ObserveAnswer,
    ObserveCall,
)
from headrace.testing.container_history import ContainerHistory
from headrace.testing.container_model import ModelSegment
from headrace.testing.history import Operation
from headrace.testing.trace import Trace


class Family:
    """One stream segment and what lies beside it."""

    def __init__(self, history: ContainerHistory, container_id: int) -> None:
        self.history = history
        self.container_id = container_id
        self.known: dict[str, bool] = {}
        """Names that clients have asked for, and whether they are transient."""


class StoreHistory:
    """All families of one store."""

    def __init__(self, now: Callable[[], float], trace: Trace, containers: int) -> None:
        self.families: dict[str, Family] = {}
        self.containers = containers
        self.contested = False
        """Whether two owners are at work in this period."""
        self._now = now
        self._trace = trace

    @property
    def judged(self) -> int:
        """Operations in periods that had a verdict."""
        return sum(family.history.judged for family in self.families.values())

    @property
    def undecided(self) -> int:
        """Periods in which the search was given up."""
        return sum(family.history.undecided for family in self.families.values())

    def family_of(self, segment: str) -> Family:
        """Return the family of a segment, which may be new."""
        name = primary_name(segment)
        found = self.families.get(name)
        if found is None:
            history = ContainerHistory(self._now, self._trace)
            found = self.families[name] = Family(history, container_of(name, self.containers))
        return found

    def start(self, client: str, call: ContainerCall) -> Operation:
        """Note that ``client`` is about to ask."""
        return self.family_of(call.segment).history.start(client, call)

    def of(self, operation: Operation) -> ContainerHistory:
        """Return the history in which an operation was started."""
        return self.family_of(operation.call.segment).history

    def names(self, container_id: int) -> list[str]:
        """Return every name that clients have asked for in one container."""
        families = [family for family in self.families.values() if family.container_id == container_id]
        return [name for family in families for name in family.known]

    def segments(self, container_id: int) -> dict[str, ModelSegment]:
        """Return what must be in a container, as last observed."""
        families = [family for family in self.families.values() if family.container_id == container_id]
        return {
            name: segment for family in families for name, segment in family.history.state.segments.items()
        }

    def on_owner(self, container_id: int) -> None:
        """A container is about to start: it lets go of transient segments and forgets merges."""
        for family in self.families.values():
            if family.container_id == container_id:
                family.history.start("store", NextOwnerCall())

    def on_transient_left(self, name: str) -> None:
        """The connection of a transient segment is lost: the store removes the segment when it likes."""
        self.start("store", DeleteSegmentCall(name))

    def end_period(self, family: Family, seen: ObserveAnswer) -> None:
        """Judge a family up to what is seen of it, now that nobody else is at work.

        Raises:
            NotLinearizableError: no order explains what clients were told.
        """
        operation = family.history.start("observer", ObserveCall())
        family.history.succeed(operation, seen)
        family.history.contested = self.contested
        family.history.end_period()
        family.known = {name: family.known[name] for name in seen.segments}

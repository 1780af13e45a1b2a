"""The answers of a whole store: one history per stream segment, with its transactions.

Histories of objects that share nothing can be judged one by one, and small ones are judged fast. A merge
stays within a stream segment and those beside it, so these are the objects.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from headrace.model.hashing import container_of
from headrace.model.names import primary_name
from headrace.testing.history import Operation
from headrace.testing.trace import Trace
from tests.simulation.models.container_calls import (
    ContainerCall,
    DeleteSegmentCall,
    NextOwnerCall,
    ObserveAnswer,
    ObserveCall,
)
from tests.simulation.models.container_history import SEGMENTS, STORE_PATIENT_CALLS, TABLE, ContainerHistory
from tests.simulation.models.container_model import ModelSegment
from tests.simulation.models.table_model import ObserveTableCall, TableAnswer, TableCall

TABLES: Final = "scope/tables/"
"""Segments below this are tables."""


class Family:
    """One stream segment and what lies beside it, or one table."""

    def __init__(self, history: ContainerHistory, container_id: int, *, is_table: bool) -> None:
        self.history = history
        self.is_table = is_table
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

    @property
    def happened(self) -> Counter[str]:
        """How many calls of each kind happened for sure."""
        return sum((family.history.happened for family in self.families.values()), Counter())

    def family_of(self, segment: str) -> Family:
        """Return the family of a segment, which may be new."""
        name = primary_name(segment)
        found = self.families.get(name)
        if found is None:
            is_table = name.startswith(TABLES)
            rules = TABLE if is_table else SEGMENTS
            history = ContainerHistory(self._now, self._trace, rules, STORE_PATIENT_CALLS)
            found = Family(history, container_of(name, self.containers), is_table=is_table)
            self.families[name] = found
        return found

    def start(self, client: str, call: ContainerCall | TableCall) -> Operation:
        """Note that ``client`` is about to ask."""
        return self.family_of(call.segment).history.start(client, call)

    def of(self, operation: Operation) -> ContainerHistory:
        """Return the history in which an operation was started."""
        return self.family_of(operation.call.segment).history

    def names(self, container_id: int) -> list[str]:
        """Return every name that clients have asked for in one container."""
        return [name for family in self._families(container_id) for name in family.known]

    def segments(self, container_id: int) -> dict[str, ModelSegment]:
        """Return what must be in a container, as last observed."""
        families = [family for family in self._families(container_id) if not family.is_table]
        return {
            name: segment for family in families for name, segment in family.history.state.segments.items()
        }

    def tables(self, container_id: int) -> list[str]:
        """Return the tables that must be in a container, as last observed."""
        families = [family for family in self._families(container_id) if family.is_table]
        return [name for family in families if family.history.state.exists for name in family.known]

    def _families(self, container_id: int) -> list[Family]:
        return [family for family in self.families.values() if family.container_id == container_id]

    def on_owner(self, container_id: int) -> None:
        """A container is about to start: it removes transient segments and forgets merges."""
        for family in self._families(container_id):
            family.history.start("store", NextOwnerCall())

    def on_transient_left(self, name: str) -> None:
        """The connection of a transient segment is lost: the store removes the segment when it likes."""
        self.start("store", DeleteSegmentCall(name))

    def end_period(self, family: Family, seen: ObserveAnswer | TableAnswer) -> None:
        """Judge a family up to what is seen of it, now that no client is at work.

        Raises:
            NotLinearizableError: no order explains the answers.
        """
        call: Any = ObserveCall()
        if isinstance(seen, TableAnswer):
            call = ObserveTableCall(next(iter(family.known)))
        operation = family.history.start("observer", call)
        family.history.succeed(operation, seen)
        family.history.contested = self.contested
        family.history.end_period()
        if isinstance(seen, ObserveAnswer):
            family.known = {name: family.known[name] for name in seen.segments}

"""What a table segment is, to its clients: keys with values and versions, and what each request does to them.

A version is whatever the table says it is; what matters is that it changes with the value and with nothing
else. The version that an update of unknown outcome has given is learned from the first answer with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.model.tables import NO_VERSION, NOT_EXISTS
from headrace.testing.history import Operation, Outcome
from tests.simulation.models.container_calls import NextOwnerCall

Entries = Mapping[bytes, tuple[bytes, int | None]]
"""Value and version by key; None where no answer contained the version."""


@dataclass(frozen=True, slots=True)
class CreateTableCall:
    segment: str

    def __str__(self) -> str:
        return f"create table {self.segment}"


@dataclass(frozen=True, slots=True)
class DeleteTableCall:
    """Delete a table that is empty."""

    segment: str

    def __str__(self) -> str:
        return f"delete table {self.segment}"


@dataclass(frozen=True, slots=True)
class UpdateEntriesCall:
    """Put values under keys, each under the condition that its version is."""

    segment: str
    entries: tuple[tuple[bytes, bytes, int], ...]
    """Key, value, version."""

    def __str__(self) -> str:
        return f"put {', '.join(_condition(key, version) for key, _, version in self.entries)}"


@dataclass(frozen=True, slots=True)
class RemoveKeysCall:
    segment: str
    keys: tuple[tuple[bytes, int], ...]

    def __str__(self) -> str:
        return f"remove {', '.join(_condition(*key) for key in self.keys)}"


@dataclass(frozen=True, slots=True)
class GetEntriesCall:
    segment: str
    keys: tuple[bytes, ...]

    def __str__(self) -> str:
        return f"get {', '.join(key.hex() for key in self.keys)}"


@dataclass(frozen=True, slots=True)
class ObserveTableCall:
    """Look at all of it, when nothing else happens."""

    segment: str

    def __str__(self) -> str:
        return f"observe {self.segment}"


TableCall = (
    CreateTableCall | DeleteTableCall | UpdateEntriesCall | RemoveKeysCall | GetEntriesCall | ObserveTableCall
)


@dataclass(frozen=True, slots=True)
class VersionsAnswer:
    """The versions that an update has given, in the order of its entries."""

    versions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EntriesAnswer:
    """Value and version of each key, in the order of the question; None for a missing one."""

    entries: tuple[tuple[bytes, int] | None, ...]

    def __str__(self) -> str:
        return ", ".join("none" if found is None else f"@{found[1]}" for found in self.entries)


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """Everything in a table; None if there is no table."""

    entries: Mapping[bytes, tuple[bytes, int]] | None

    def __str__(self) -> str:
        return "no table" if self.entries is None else f"{len(self.entries)} keys"


TableAnswers = VersionsAnswer | EntriesAnswer | TableAnswer


@dataclass(frozen=True, slots=True, eq=False)
class ModelTable:
    """A table between two operations."""

    exists: bool = False
    entries: Entries = field(default_factory=dict)

    @property
    def key(self) -> object:
        """Equal for states that no operation can distinguish."""
        known = sorted((key, value, -2 if v is None else v) for key, (value, v) in self.entries.items())
        return self.exists, tuple(known)

    def __str__(self) -> str:
        if not self.exists:
            return "no table"
        return ", ".join(f"{key.hex()}@{version}" for key, (_, version) in sorted(self.entries.items()))


INITIAL: Final = ModelTable()


def state_of(seen: TableAnswer) -> ModelTable:
    """Return the state that was observed."""
    return INITIAL if seen.entries is None else ModelTable(True, dict(seen.entries))


def step(state: ModelTable, operation: Operation) -> ModelTable | None:
    """Return the state after ``operation`` took effect here, or None if it cannot have, given its answer."""
    call: Any = operation.call
    if operation.outcome is Outcome.REFUSED:
        return state if operation.reason in _refusals(state, call) else None
    if not isinstance(call, NextOwnerCall | ObserveTableCall) and _must_refuse(state, call):
        return None
    return _STEPS[type(call)](state, call, operation.result)


def _conditions(call: Any) -> list[tuple[bytes, int]]:
    if isinstance(call, UpdateEntriesCall):
        return [(key, version) for key, _, version in call.entries]
    return list(call.keys) if isinstance(call, RemoveKeysCall) else []


def _refusals(state: ModelTable, call: Any) -> set[str]:
    """Return every reason that a correct table may give, the version of some entries being unknown."""
    if isinstance(call, CreateTableCall):
        return {"SegmentExists"} if state.exists else set()
    if not state.exists:
        return {"NoSuchSegment"}
    reasons = set()
    if isinstance(call, DeleteTableCall) and state.entries:
        reasons.add("TableNotEmpty")
    for key, version in _conditions(call):
        found = state.entries.get(key)
        if version == NO_VERSION or (found is None and version == NOT_EXISTS):
            continue
        if found is None:
            reasons.add("TableKeyMissing")
        elif found[1] is None or found[1] != version:
            reasons.add("TableKeyVersion")
    return reasons


def _must_refuse(state: ModelTable, call: Any) -> bool:
    """Say whether a correct table cannot have done this: some condition fails, whatever is unknown."""
    if isinstance(call, CreateTableCall):
        return state.exists
    if not state.exists or (isinstance(call, DeleteTableCall) and state.entries):
        return True
    for key, version in _conditions(call):
        found = state.entries.get(key)
        if version == NO_VERSION or (found is None and version == NOT_EXISTS):
            continue
        if found is None or version == NOT_EXISTS or found[1] not in {None, version}:
            return True
    return False


def _create(_: ModelTable, __: CreateTableCall, ___: Any) -> ModelTable:
    return ModelTable(True)


def _delete(_: ModelTable, __: DeleteTableCall, ___: Any) -> ModelTable:
    return INITIAL


def _update(state: ModelTable, call: UpdateEntriesCall, answer: VersionsAnswer | None) -> ModelTable | None:
    entries = dict(state.entries)
    versions = (None,) * len(call.entries) if answer is None else answer.versions
    for (key, value, _), version in zip(call.entries, versions, strict=True):
        before = entries.get(key)
        if version is not None and (version < 0 or (before is not None and before[1] == version)):
            return None  # a version stands for one value
        entries[key] = value, version
    return ModelTable(True, entries)


def _remove(state: ModelTable, call: RemoveKeysCall, _: Any) -> ModelTable:
    gone = {key for key, _ in call.keys}
    # A new state even if nothing is gone: later, behind an update of unknown outcome, something might be.
    return ModelTable(True, {key: found for key, found in state.entries.items() if key not in gone})


def _get(state: ModelTable, call: GetEntriesCall, answer: EntriesAnswer | None) -> ModelTable | None:
    if answer is None:
        return state
    return _learn(state, dict(zip(call.keys, answer.entries, strict=True)))


def _observe(state: ModelTable, _: ObserveTableCall, answer: TableAnswer) -> ModelTable | None:
    if answer.entries is None:
        return None if state.exists else state
    if not state.exists or answer.entries.keys() != state.entries.keys():
        return None
    return _learn(state, answer.entries)


def _learn(state: ModelTable, answer: Mapping[bytes, tuple[bytes, int] | None]) -> ModelTable | None:
    """Return the state with the versions of the answer, or None if the answer is wrong."""
    learned = {}
    for key, seen in answer.items():
        known = state.entries.get(key)
        if seen is None or known is None:
            if seen is not known:
                return None
            continue
        if seen[0] != known[0] or known[1] not in {None, seen[1]}:
            return None
        if known[1] is None:
            learned[key] = seen
    return ModelTable(True, {**state.entries, **learned}) if learned else state


def _next_owner(state: ModelTable, _: NextOwnerCall, __: Any) -> ModelTable:
    return state


def _condition(key: bytes, version: int) -> str:
    return key.hex() if version == NO_VERSION else f"{key.hex()} if @{version}"


_STEPS: Final[dict[type[Any], Callable[[ModelTable, Any, Any], ModelTable | None]]] = {
    CreateTableCall: _create,
    DeleteTableCall: _delete,
    UpdateEntriesCall: _update,
    RemoveKeysCall: _remove,
    GetEntriesCall: _get,
    ObserveTableCall: _observe,
    NextOwnerCall: _next_owner,
}

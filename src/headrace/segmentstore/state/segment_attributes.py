"""The attributes of one segment: small numbers that are tested, and changed together with an append.

*Core* attributes are few, with fixed ids; *extended* ones are mostly writers, one for each that the segment
ever had. They behave alike. As all state of a segment they have two sides: validation reads the *accepted*
one, callers the *durable* one.

Core attributes are in memory, where one that is not set has no value. Extended ones need not be: those that
are *newer* than the segment's attribute index are, which checkpoints have as well; of the others the ones in
use and some more, also ATTRIBUTE_NULL for those known not to be set. What an operation needs is filled in
before it is proposed. Proposing, accepting and applying never wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from headrace.errors import AttributeMismatchError, InvalidArgumentError, TooManyAttributesError
from headrace.limits import INT64_MAX, INT64_MIN
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind

TRANSIENT_ATTRIBUTES_MAX: Final = 16
"""Extended attributes of a scratch segment."""

_UNMODIFIABLE: Final = frozenset({attr.SEGMENT_TYPE, attr.ATTRIBUTE_ID_LENGTH})
_NONE: Final[Mapping[bytes, int]] = MappingProxyType({})


class SegmentAttributes:
    """Both sides of the attributes of one segment that are in memory.

    Only :class:`.SegmentState` and the methods here change them. An extended attribute in ``accepted`` and
    not in ``durable`` was not set before what is in flight.
    """

    __slots__ = ("_held", "accepted", "durable", "has_index", "newer")

    def __init__(self, values: Mapping[bytes, int] = _NONE) -> None:
        """``values`` are durable, and newer than the index: those of a checkpoint or of a row of the
        catalogue.
        """
        self.accepted = dict(values)
        """Durable values and those in flight; proposals are checked against these."""
        self.durable = dict(values)
        self.newer = {key for key in values if not attr.is_core_attribute(key)}
        """Extended attributes whose accepted value the index may not have."""
        self.has_index = False
        """Whether an index may have values of attributes that are not in memory."""
        self._held: dict[bytes, int] = {}
        """How often an extended attribute is held; it stays in memory."""

    # -------------------------------------------------------------------------------------- look-up

    def get(self, attribute_id: bytes) -> int | None:
        """Return the durable value, ATTRIBUTE_NULL if it is not set; None if only the index can tell."""
        value = self.durable.get(attribute_id)
        if value is not None:
            return value
        return ATTRIBUTE_NULL if self._is_known(attribute_id) else None

    def missing(self, attribute_ids: Iterable[bytes]) -> Sequence[bytes]:
        """Return those that have to be filled in before a proposal or answer uses them."""
        return [key for key in attribute_ids if not self._is_known(key)]

    def _is_known(self, attribute_id: bytes) -> bool:
        return not self.has_index or attribute_id in self.accepted or attr.is_core_attribute(attribute_id)

    def fill(self, attribute_ids: Iterable[bytes], values: Iterable[int]) -> None:
        """Fill in what the index has. Values accepted meanwhile are not replaced."""
        for key, value in zip(attribute_ids, values, strict=True):
            if key not in self.accepted:
                self.accepted[key] = value
                self.durable.setdefault(key, value)  # it may have left memory with a change in flight

    def hold(self, attribute_ids: Iterable[bytes]) -> None:
        """Retain these in memory, or once they are filled in, until each is released."""
        for key in attribute_ids:
            self._held[key] = self._held.get(key, 0) + 1

    def release(self, attribute_ids: Iterable[bytes]) -> None:
        for key in attribute_ids:
            count = self._held[key] - 1
            if count:
                self._held[key] = count
            else:
                del self._held[key]

    def checkpoint_values(self) -> dict[bytes, int]:
        """Return the accepted values for a checkpoint and a row of the catalogue: those that are not in the
        index.
        """
        newer, is_core = self.newer, attr.is_core_attribute
        return {key: value for key, value in self.accepted.items() if key in newer or is_core(key)}

    # -------------------------------------------------------------------------------------- index

    def note_index(self) -> None:
        """An index has values of attributes, or is about to."""
        self.has_index = True

    def unwritten(self) -> dict[bytes, int]:
        """Return the durable values to write to the index, in the order of their ids."""
        durable = self.durable
        return {key: durable[key] for key in sorted(self.newer) if key in durable}

    def note_written(self, values: Mapping[bytes, int]) -> None:
        """The index has these values. Those accepted since they were taken stay newer."""
        accepted, durable, newer = self.accepted, self.durable, self.newer
        for key, value in values.items():
            if accepted.get(key) == value and durable.get(key) == value:
                newer.discard(key)

    def evict(self, count_max: int) -> int:
        """Evict extended attributes that the index has and nobody holds, the oldest first, until at most
        ``count_max`` attributes are left besides the newer ones; return how many went.
        """
        newer, held, durable, is_core = self.newer, self._held, self.durable, attr.is_core_attribute
        excess = len(self.accepted) - len(newer) - count_max
        if excess <= 0:
            return 0
        gone = [
            key
            for key, value in self.accepted.items()
            if not (key in newer or key in held or is_core(key)) and durable[key] == value
        ]
        del gone[excess:]
        for key in gone:
            del self.accepted[key], durable[key]
        return len(gone)

    # -------------------------------------------------------------------------------------- propose

    def propose(self, segment: str, updates: Sequence[AttributeUpdate]) -> dict[bytes, int]:
        """Return the values the updates lead to, evaluated in order, each against the previous result.

        Nothing changes. What the updates need is in memory. ``segment`` is for errors.

        Raises:
            AttributeMismatchError: a condition does not hold.
            InvalidArgumentError: the attribute may not be changed, or the result leaves the 64-bit range.
            TooManyAttributesError: a scratch segment has the maximum number of attributes.
        """
        values: dict[bytes, int] = {}
        for update in updates:
            key = update.attribute_id
            if key in _UNMODIFIABLE:
                raise InvalidArgumentError(f"attribute {key.hex()} is written once, at creation")
            existing = values.get(key)
            if existing is None:
                existing = self.accepted.get(key, ATTRIBUTE_NULL)
            new = update.value
            match update.kind:
                case UpdateKind.SET_IF_ABSENT:
                    holds = existing == ATTRIBUTE_NULL
                case UpdateKind.REPLACE:
                    holds = True
                case UpdateKind.REPLACE_IF_GREATER:
                    holds = existing == ATTRIBUTE_NULL or new > existing
                case UpdateKind.ACCUMULATE:
                    holds = True
                    new += 0 if existing == ATTRIBUTE_NULL else existing
                case _:
                    holds = existing == update.expected
            if not holds:
                expected = update.expected if update.kind is UpdateKind.REPLACE_IF_EQUALS else new
                raise AttributeMismatchError(segment, key, expected, existing)
            if not INT64_MIN <= new <= INT64_MAX:
                raise InvalidArgumentError(f"attribute {key.hex()} would become {new}")
            values[key] = new
        self.check_capacity(segment, values)
        return values

    def check_capacity(self, segment: str, attribute_ids: Iterable[bytes]) -> None:
        """Raise TooManyAttributesError if those of them that are not set would exceed the bound of a scratch
        segment.
        """
        present = self.accepted
        if not present.get(attr.SEGMENT_TYPE, 0) & attr.TYPE_TRANSIENT:
            return
        present_ids = {key for key, value in present.items() if value != ATTRIBUTE_NULL}
        added = set(attribute_ids) - present_ids
        if (
            added
            and sum(not attr.is_core_attribute(key) for key in present_ids | added) > TRANSIENT_ATTRIBUTES_MAX
        ):
            raise TooManyAttributesError(segment, TRANSIENT_ATTRIBUTES_MAX)

    # -------------------------------------------------------------------------------------- change

    def accept(self, values: Mapping[bytes, int]) -> None:
        """Later proposals use these values."""
        newer = self.newer
        for key in _set(self.accepted, values):
            newer.add(key)

    def apply(self, values: Mapping[bytes, int]) -> None:
        """The values are durable. They were accepted before, in the same order."""
        _set(self.durable, values)


def _set(present: dict[bytes, int], values: Mapping[bytes, int]) -> list[bytes]:
    """Set values; return the ids of the extended ones. These stay if they are ATTRIBUTE_NULL: the index may
    have another value.
    """
    extended: list[bytes] = []
    for key, value in values.items():
        if not attr.is_core_attribute(key):
            extended.append(key)
            present[key] = value
        elif value == ATTRIBUTE_NULL:
            present.pop(key, None)
        else:
            present[key] = value
    return extended

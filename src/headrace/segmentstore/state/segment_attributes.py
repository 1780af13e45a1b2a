"""The attributes of one segment: small numbers that are tested, and changed together with an append.

*Core* attributes are few, with fixed ids; *extended* ones are mostly writers, one for each that the segment
ever had. They behave alike. As all state of a segment they have two sides: validation reads the *accepted*
one, callers the *durable* one.

Core attributes are in memory. Extended ones need not be: :meth:`SegmentAttributes.get` may return None, and
what an operation needs is loaded before it is proposed. Proposing, accepting and applying never wait. This
implementation has all of them in memory, and bounds their number. The contract of an implementation is
:mod:`headrace.testing.conformance.segment_attributes`.
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
SEGMENT_ATTRIBUTES_MAX: Final = 250_000
"""Each writer that a segment ever had is one; they are in memory, and in every checkpoint, with 26 bytes."""

_UNMODIFIABLE: Final = frozenset({attr.SEGMENT_TYPE, attr.ATTRIBUTE_ID_LENGTH})
_NONE: Final[Mapping[bytes, int]] = MappingProxyType({})


class SegmentAttributes:
    """Both sides of the attributes of one segment; those not set are not in ``accepted`` or ``durable``.

    Only :class:`.SegmentState` and the methods here change these two.
    """

    __slots__ = ("accepted", "durable")

    def __init__(self, values: Mapping[bytes, int] = _NONE) -> None:
        """``values`` are durable: those of a checkpoint or of a row of the catalogue."""
        self.accepted = dict(values)
        """Durable values and those in flight; proposals are checked against these."""
        self.durable = dict(values)

    def __len__(self) -> int:
        """Number of values in a checkpoint."""
        return len(self.accepted)

    # -------------------------------------------------------------------------------------- look-up

    def get(self, attribute_id: bytes) -> int | None:
        """Return the durable value, ATTRIBUTE_NULL if it is not set; None if only :meth:`load` can tell."""
        return self.durable.get(attribute_id, ATTRIBUTE_NULL)

    def missing(self, attribute_ids: Iterable[bytes]) -> Sequence[bytes]:
        """Return those that have to be loaded before a proposal or answer uses them."""
        del attribute_ids
        return ()

    async def load(self, attribute_ids: Iterable[bytes]) -> None:
        """Load those that are missing; returns at once if none is. Nothing else here waits.

        Values accepted meanwhile are not replaced.
        """
        assert not self.missing(attribute_ids)

    def checkpoint_values(self) -> Mapping[bytes, int]:
        """Return the accepted values for a checkpoint and a row of the catalogue."""
        return self.accepted

    # -------------------------------------------------------------------------------------- propose

    def propose(self, segment: str, updates: Sequence[AttributeUpdate]) -> dict[bytes, int]:
        """Return the values the updates lead to, evaluated in order, each against the previous result.

        Nothing changes. What the updates need is in memory. ``segment`` is for errors.

        Raises:
            AttributeMismatchError: a condition does not hold.
            InvalidArgumentError: the attribute may not be changed, or the result leaves the 64-bit range.
            TooManyAttributesError: the segment has the maximum number of attributes.
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
        """Raise TooManyAttributesError if those of them that are not set would exceed the bound."""
        present = self.accepted
        added = [key for key in attribute_ids if key not in present]
        if not added:
            return
        if present.get(attr.SEGMENT_TYPE, 0) & attr.TYPE_TRANSIENT:
            count = sum(not attr.is_core_attribute(key) for key in [*present, *added])
            count_max = TRANSIENT_ATTRIBUTES_MAX
        else:
            count = len(present) + len(added)
            count_max = SEGMENT_ATTRIBUTES_MAX
        if count > count_max:
            raise TooManyAttributesError(segment, count_max)

    # -------------------------------------------------------------------------------------- change

    def accept(self, values: Mapping[bytes, int]) -> None:
        """Later proposals use these values."""
        _set(self.accepted, values)

    def apply(self, values: Mapping[bytes, int]) -> None:
        """The values are durable. They were accepted before, in the same order."""
        _set(self.durable, values)


def _set(present: dict[bytes, int], values: Mapping[bytes, int]) -> None:
    for key, value in values.items():
        if value == ATTRIBUTE_NULL:
            present.pop(key, None)
        else:
            present[key] = value

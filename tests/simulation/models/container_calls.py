"""Requests and answers of clients of a container, with every verb it has.

The words of ``segment_calls`` are those of one segment over the wire; these are those of a container called
directly, where a call may be about two segments and a deleted segment may be created again under its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT, AttributeUpdate, is_core_attribute


@dataclass(frozen=True, slots=True)
class CreateSegmentCall:
    """Create ``segment``; a transient one ends with its owner."""

    segment: str
    transient: bool = False

    def __str__(self) -> str:
        return f"create {self.segment}"


@dataclass(frozen=True, slots=True)
class DeleteSegmentCall:
    segment: str

    def __str__(self) -> str:
        return f"delete {self.segment}"


@dataclass(frozen=True, slots=True)
class AppendDataCall:
    """Append ``data`` with attribute updates, perhaps only if the length is ``expected_offset``.

    With a ``writer`` it is a block of that writer: the updates are what the writer's protocol implies.
    """

    segment: str
    data: bytes
    updates: tuple[AttributeUpdate, ...] = ()
    expected_offset: int = -1
    writer: str = ""

    def __str__(self) -> str:
        condition = "" if self.expected_offset < 0 else f" if at {self.expected_offset}"
        by = f" by {self.writer}" if self.writer else ""
        return f"append {len(self.data)} bytes to {self.segment}{by}{condition}{_listed(self.updates)}"


@dataclass(frozen=True, slots=True)
class UpdateAttributesCall:
    segment: str
    updates: tuple[AttributeUpdate, ...]

    def __str__(self) -> str:
        return f"update {self.segment}{_listed(self.updates)}"


@dataclass(frozen=True, slots=True)
class GetAttributeCall:
    segment: str
    attribute_id: bytes

    def __str__(self) -> str:
        return f"attribute {_key(self.attribute_id)} of {self.segment}"


@dataclass(frozen=True, slots=True)
class SealSegmentCall:
    segment: str

    def __str__(self) -> str:
        return f"seal {self.segment}"


@dataclass(frozen=True, slots=True)
class EnsureSealedCall:
    """Seal if it is not sealed; no client's call, but what a merge does to its source."""

    segment: str

    def __str__(self) -> str:
        return f"seal {self.segment} if need be"


@dataclass(frozen=True, slots=True)
class TruncateSegmentCall:
    segment: str
    offset: int

    def __str__(self) -> str:
        return f"truncate {self.segment} at {self.offset}"


@dataclass(frozen=True, slots=True)
class MergeSegmentsCall:
    """Append all of ``source`` to ``segment`` and remove it."""

    segment: str
    source: str
    updates: tuple[AttributeUpdate, ...] = ()

    def __str__(self) -> str:
        return f"merge {self.source} into {self.segment}{_listed(self.updates)}"


@dataclass(frozen=True, slots=True)
class MergeIfThereCall:
    """Do as ``MergeSegmentsCall`` does, or nothing if there is no such source: one part of a batch."""

    segment: str
    source: str

    def __str__(self) -> str:
        return f"merge {self.source} into {self.segment} if it is there"


@dataclass(frozen=True, slots=True)
class NextOwnerCall:
    """A new owner begins: transient segments go, and the memory of merges. No client's call."""

    segment: str = ""

    def __str__(self) -> str:
        return "next owner"


@dataclass(frozen=True, slots=True)
class SegmentInfoCall:
    segment: str

    def __str__(self) -> str:
        return f"info of {self.segment}"


@dataclass(frozen=True, slots=True)
class ReadSegmentCall:
    """Read at ``offset``, waiting for data at the tail if ``wait``."""

    segment: str
    offset: int
    length_max: int
    wait: bool

    def __str__(self) -> str:
        return f"read {self.segment} at {self.offset}{' or wait' if self.wait else ''}"


@dataclass(frozen=True, slots=True)
class ObserveCall:
    """Look at everything there is, when nothing else happens."""

    segment: str = ""

    def __str__(self) -> str:
        return "observe"


ContainerCall = (
    CreateSegmentCall
    | DeleteSegmentCall
    | AppendDataCall
    | UpdateAttributesCall
    | GetAttributeCall
    | SealSegmentCall
    | EnsureSealedCall
    | TruncateSegmentCall
    | MergeSegmentsCall
    | MergeIfThereCall
    | NextOwnerCall
    | SegmentInfoCall
    | ReadSegmentCall
    | ObserveCall
)


@dataclass(frozen=True, slots=True)
class LengthAnswer:
    """The length right behind the operation; None if the answer says only that it is durable."""

    length: int | None = None

    def __str__(self) -> str:
        return "durable" if self.length is None else f"length {self.length}"


@dataclass(frozen=True, slots=True)
class ValueAnswer:
    """The value of an attribute."""

    value: int

    def __str__(self) -> str:
        return "none" if self.value == ATTRIBUTE_NULL else str(self.value)


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """Bytes, and whether the segment's end is right behind them."""

    data: bytes
    at_tail: bool
    end_of_segment: bool

    def __str__(self) -> str:
        return f"{len(self.data)} bytes{' tail' * self.at_tail}{' end' * self.end_of_segment}"


@dataclass(frozen=True, slots=True)
class SegmentAnswer:
    """Durable facts about one segment."""

    start_offset: int
    length: int
    sealed: bool
    attributes: Mapping[bytes, int] | None = None
    """None if the answer contains only the rest."""
    is_whole: bool = False
    """Whether an extended attribute that is not among them is not set; otherwise it may just not be in
    memory.
    """

    def __str__(self) -> str:
        return describe_segment(self.start_offset, self.length, self.sealed, self.attributes or {})


@dataclass(frozen=True, slots=True)
class ObservedSegment:
    """Facts and every byte from the start offset on."""

    facts: SegmentAnswer
    data: bytes


@dataclass(frozen=True, slots=True)
class ObserveAnswer:
    """Every segment that exists."""

    segments: Mapping[str, ObservedSegment]

    def __str__(self) -> str:
        return ", ".join(f"{name} {seen.facts}" for name, seen in self.segments.items())


ContainerAnswer = LengthAnswer | ValueAnswer | ReadAnswer | SegmentAnswer | ObserveAnswer


def describe_segment(start: int, length: int, sealed: bool, attributes: Mapping[bytes, int]) -> str:
    """Return a segment as text, without what a container sets by itself."""
    shown = [
        f" {_key(key)}={value}"
        for key, value in sorted(attributes.items())
        if key == EVENT_COUNT or not is_core_attribute(key)
    ]
    return f"[{start}, {length}){' sealed' * sealed}{''.join(shown)}"


def _listed(updates: Sequence[AttributeUpdate]) -> str:
    if not updates:
        return ""
    words = [f"{_key(update.attribute_id)} {update.kind.name.lower()} {update.value}" for update in updates]
    return f" with {', '.join(words)}"


def _key(attribute_id: bytes) -> str:
    """Return a short name of an attribute, of those that simulations use."""
    if attribute_id.startswith(b"writer"):
        return attribute_id.decode()
    return f"core-{attribute_id[-1]}" if is_core_attribute(attribute_id) else f"key-{attribute_id[-1]}"

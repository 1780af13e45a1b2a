"""What clients ask of a store: the call for the history, the request, and how a reply answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.runtime.entropy import SeededEntropy
from headrace.testing.failures import SimulationError
from headrace.wire import commands as c
from headrace.wire.commands.kinds import Command
from tests.simulation.models.container_calls import (
    ContainerAnswer,
    ContainerCall,
    CreateSegmentCall,
    DeleteSegmentCall,
    GetAttributeCall,
    LengthAnswer,
    MergeIfThereCall,
    MergeSegmentsCall,
    SealSegmentCall,
    SegmentAnswer,
    SegmentInfoCall,
    TruncateSegmentCall,
    UpdateAttributesCall,
    ValueAnswer,
)
from tests.simulation.models.table_model import TableAnswers, TableCall
from tests.simulation.workloads.draws import KEYS

Answer = Callable[[Any], ContainerAnswer | TableAnswers | None]


@dataclass(frozen=True, slots=True)
class Question:
    """One request, which any reply but ``good`` refuses."""

    call: ContainerCall | TableCall
    request: Callable[[int], Command]
    """Makes it, with a request id."""
    good: type[Command]
    answer: Answer | None = None
    """What the good reply contains, if it says more than that it happened."""


@dataclass(frozen=True, slots=True)
class MergeBatch:
    """Merge several sources in one request; each merge is an operation of its own."""

    target: str
    sources: tuple[str, ...]
    full: frozenset[str] = frozenset()
    """Those that exist and have bytes for sure: without other clients' merges the reply has them in order."""

    @property
    def calls(self) -> list[MergeIfThereCall]:
        """What is asked, in order."""
        return [MergeIfThereCall(self.target, source) for source in self.sources]

    def request(self, request_id: int) -> Command:
        """Make the request."""
        return c.MergeSegmentsBatch(request_id, self.target, list(self.sources), "")

    def lengths(self, reply: c.SegmentsBatchMerged) -> list[int]:
        """Return how long the target was behind each merge.

        Raises:
            SimulationError: the reply is about something else.
        """
        if [merged.source for merged in reply.merged] != list(self.sources):
            raise SimulationError(f"{reply} has other sources than {self.sources}")
        lengths = [merged.new_target_write_offset for merged in reply.merged]
        full = [length for length, source in zip(lengths, self.sources, strict=True) if source in self.full]
        if full != sorted(set(full)):
            raise SimulationError(f"a batch was merged in another order: {reply}")
        return lengths


def create(name: str) -> Question:
    """Create a segment."""
    return Question(CreateSegmentCall(name), lambda i: c.CreateSegment(i, name, 0, 0, ""), c.SegmentCreated)


def info(name: str) -> Question:
    """Ask for the facts."""
    return Question(
        SegmentInfoCall(name),
        lambda i: c.GetStreamSegmentInfo(i, name, ""),
        c.StreamSegmentInfo,
        lambda reply: SegmentAnswer(reply.start_offset, reply.write_offset, reply.is_sealed),
    )


def seal(name: str) -> Question:
    """Seal."""
    return Question(SealSegmentCall(name), lambda i: c.SealSegment(i, name, ""), c.SegmentSealed)


def truncate(name: str, offset: int) -> Question:
    """Drop the head, or try to."""
    return Question(
        TruncateSegmentCall(name, offset),
        lambda i: c.TruncateSegment(i, name, offset, ""),
        c.SegmentTruncated,
    )


def delete(name: str) -> Question:
    """Delete."""
    return Question(DeleteSegmentCall(name), lambda i: c.DeleteSegment(i, name, ""), c.SegmentDeleted)


def get_attribute(name: str, key: bytes) -> Question:
    """Ask for the value of an attribute."""
    return Question(
        GetAttributeCall(name, key),
        lambda i: c.GetSegmentAttribute(i, name, key, ""),
        c.SegmentAttribute,
        lambda reply: ValueAnswer(reply.value),
    )


def set_up(name: str, writer_id: bytes) -> Question:
    """Open a writer, and get its last event number."""
    return Question(
        GetAttributeCall(name, writer_id),
        lambda i: c.SetupAppend(i, writer_id, name, ""),
        c.AppendSetup,
        lambda reply: ValueAnswer(reply.last_event_number),
    )


def update_attribute(name: str, key: bytes, value: int, expected: int) -> Question:
    """Change an attribute if it has an expected value."""
    update = AttributeUpdate(key, UpdateKind.REPLACE_IF_EQUALS, value, expected)
    return Question(
        UpdateAttributesCall(name, (update,)),
        lambda i: c.UpdateSegmentAttribute(i, name, key, value, expected, ""),
        c.SegmentAttributeUpdated,
    )


def draw_attribute_update(entropy: SeededEntropy, name: str) -> Question:
    """Return such a change of one attribute."""
    draw = entropy.randbelow
    key, value = KEYS[draw(len(KEYS))], ATTRIBUTE_NULL if draw(6) == 0 else draw(4)
    expected = ATTRIBUTE_NULL if draw(2) else draw(4)
    return update_attribute(name, key, value, expected)


def merge(target: str, source: str, updates: tuple[AttributeUpdate, ...] = ()) -> Question:
    """Merge a source into a target."""
    return Question(
        MergeSegmentsCall(target, source, updates),
        lambda i: c.MergeSegments(i, target, source, "", list(updates)),
        c.SegmentsMerged,
        lambda reply: LengthAnswer(reply.new_target_write_offset),
    )

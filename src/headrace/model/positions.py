"""Numbers that must not be mixed up. They cost nothing at run time; the type checker keeps them apart."""

from __future__ import annotations

from typing import NewType

SegmentOffset = NewType("SegmentOffset", int)
"""A byte offset within a segment."""

SequenceNumber = NewType("SequenceNumber", int)
"""The place of an operation in its container's durable log. Strictly increasing; gaps are legal."""

EventNumber = NewType("EventNumber", int)
"""The place of an event in the history of one writer."""

WalAddress = NewType("WalAddress", int)
"""The place of a record in a write-ahead log. Totally ordered, opaque otherwise."""

ContainerEpoch = NewType("ContainerEpoch", int)
"""A generation of ownership of a container and its log: the fence."""

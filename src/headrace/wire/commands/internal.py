"""Commands of our own, between processes of Headrace: what no client asks. Page: internal-commands.md."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError, OwnershipError
from headrace.limits import LIST_COUNT_MAX, MIB
from headrace.model.segment_access import SegmentFacts
from headrace.wire.commands.kinds import InternalRequest, Reply
from headrace.wire.fields import (
    Bool,
    Bytes,
    FactsOfSegments,
    Int32,
    Int64,
    ListedSegment,
    SizedNames,
    Text,
    Texts,
    Versions,
)

CHANGED_BYTES_MAX: Final = 4 * MIB
"""Of the names and lengths in one answer."""

PARTS_MAX: Final = 4096
"""Of the changed segments of one store."""

ANSWER_BYTES_MAX: Final = 8 * MIB
"""Of what a store says of itself."""

_PROBLEM_CHARS_MAX: Final = 1000


@dataclass(slots=True)
class GetSegmentInfos(InternalRequest):
    """Ask for facts of many segments of one store."""

    request_id: Int64
    delegation_token: Text
    segments: Texts


@dataclass(slots=True)
class SegmentInfos(Reply):
    """Facts of the segments that were asked for, in their order."""

    request_id: Int64
    infos: FactsOfSegments

    @classmethod
    def of(cls, request: GetSegmentInfos, found: Sequence[SegmentFacts | None]) -> SegmentInfos:
        listed = [
            ListedSegment()
            if each is None
            else ListedSegment(True, each.sealed, each.start_offset, each.length)
            for each in found
        ]
        return cls(request.request_id, listed)


@dataclass(slots=True)
class DeleteSegments(InternalRequest):
    """Delete many segments of one store; those that are absent are done already."""

    request_id: Int64
    delegation_token: Text
    segments: Texts


@dataclass(slots=True)
class SegmentsDeleted(Reply):
    """None of the segments exists any more."""

    request_id: Int64


@dataclass(slots=True)
class GetChangedSegments(InternalRequest):
    """Ask which segments of one store changed since ``marker``; of ``parts`` parts of their names, one."""

    request_id: Int64
    delegation_token: Text
    marker: Bytes
    part: Int32
    parts: Int32


@dataclass(slots=True)
class ChangedSegments(Reply):
    """Names and lengths of changed segments; if not ``complete``, none of them: ask in smaller parts."""

    request_id: Int64
    marker: Bytes
    complete: Bool
    changed: SizedNames

    @classmethod
    def of(
        cls, request: GetChangedSegments, marker: bytes, changed: Sequence[tuple[str, int]]
    ) -> ChangedSegments:
        """Return the part that was asked for of what has ``changed``, unless it exceeds the bounds.

        Raises:
            InvalidArgumentError: there is no such part.
        """
        if not (1 <= request.parts <= PARTS_MAX and 0 <= request.part < request.parts):
            raise InvalidArgumentError(f"there is no part {request.part} of {request.parts}")
        chosen: list[tuple[str, int]] = []
        size = 0
        for name, length in changed:
            encoded = name.encode()
            if zlib.crc32(encoded) % request.parts == request.part:
                chosen.append((name, length))
                size += 10 + len(encoded)
                if size > CHANGED_BYTES_MAX or len(chosen) > LIST_COUNT_MAX:
                    return cls(request.request_id, marker, complete=False, changed=[])
        return cls(request.request_id, marker, complete=True, changed=chosen)


@dataclass(slots=True)
class PurgeSegments(InternalRequest):
    """Make unreadable what these segments have lost by truncation, and what was deleted of any."""

    request_id: Int64
    delegation_token: Text
    segments: Texts


@dataclass(slots=True)
class SegmentsPurged(Reply):
    """Nothing of that can be read any more in these ``containers`` of the store; of others that it has,
    ``problem`` says why not, unless they are leaving it.
    """

    request_id: Int64
    containers: Versions = field(default_factory=list)
    problem: Text = ""

    @classmethod
    def of(cls, request: PurgeSegments, found: Mapping[int, BaseException | None]) -> SegmentsPurged:
        """Return the answer for the failures, if there are any, by container."""
        why = [error for error in found.values() if error and not isinstance(error, OwnershipError)]
        done = sorted(number for number, error in found.items() if error is None)
        return cls(request.request_id, done, str(why[0])[:_PROBLEM_CHARS_MAX] if why else "")


@dataclass(slots=True)
class AskStore(InternalRequest):
    """Ask a store about itself, by a JSON object."""

    request_id: Int64
    delegation_token: Text
    question: Bytes


@dataclass(slots=True)
class StoreAnswer(Reply):
    """What the store says, as a JSON value."""

    request_id: Int64
    answer: Bytes

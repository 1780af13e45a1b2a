"""Decides from the name of an object alone what it is to the containers whose rows were read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from headrace.segmentstore.inspection.findings import CheckReport
from headrace.storage.chunks.chunk_names import ChunkName, parse_chunk_name

BESIDE_PREFIX: Final = "_system/"
"""Objects of a system that are no chunks: they are never orphans."""


class Verdict(Enum):
    """What an object is."""

    NAMED = "named"
    """A row names it."""

    BESIDE = "beside"
    """It is no chunk: the identity of the store, a part of a storage checkpoint."""

    ORPHAN = "orphan"
    """Left by an interrupted write of an owner of this metadata."""

    LATER = "later"
    """Of an owner that the log has never had: it is an older log than that of these objects."""

    STRANGER = "stranger"
    """Of another incarnation: of another system, or of metadata that were lost."""

    UNJUDGED = "unjudged"
    """Its row may be one that was not read, or is yet to be written."""


@dataclass(slots=True)
class ObjectCounts:
    """The objects of a store by what they are."""

    objects: int = 0
    checkpoints: int = 0
    """Storage checkpoints that were completed: their manifests."""

    by_verdict: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    bytes_by_verdict: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    """Only of objects that no row names."""


class ObjectJudge:
    """Knows the rows of several containers.

    Args:
        reports: what was found in them, with ``chunk_names``.
        all_checked: whether these are all containers of the system.
        running: whether a server may write objects, and rows of them, meanwhile.
    """

    def __init__(self, reports: Sequence[CheckReport], *, all_checked: bool, running: bool) -> None:
        self._names = [report.chunk_names for report in reports]
        self._owners = {report.incarnation: report for report in reports if report.incarnation}
        self._is_complete = all_checked and all(report.complete and report.rows_known for report in reports)
        self._running = running

    def judge(self, name: str) -> Verdict:
        if any(name in names for names in self._names):
            return Verdict.NAMED  # also of an earlier incarnation
        parsed = parse_chunk_name(name)
        if parsed is None and name.startswith(BESIDE_PREFIX):
            return Verdict.BESIDE
        owner = self._owners.get(parsed.incarnation) if parsed is not None else None
        if parsed is None or owner is None:
            return Verdict.STRANGER if self._is_complete else Verdict.UNJUDGED
        if parsed.epoch > owner.epoch and not self._running:
            return Verdict.LATER
        if owner.rows_known and not (self._running and parsed.epoch >= owner.epoch):
            return Verdict.ORPHAN
        return Verdict.UNJUDGED

    def owner_of(self, name: str) -> tuple[ChunkName, CheckReport]:
        """Return the parts of a name that was judged to be an orphan, or later, and what its container is."""
        parsed = parse_chunk_name(name)
        assert parsed is not None
        return parsed, self._owners[parsed.incarnation]

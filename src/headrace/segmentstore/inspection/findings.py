"""The result of a check: each finding says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

FINDINGS_MAX: Final = 10_000
"""Findings retained for one container; the rest is only counted."""


class Severity(Enum):
    """How much a finding matters."""

    DAMAGE = "damage"
    """An invariant is broken: some data cannot be served, or will not be."""

    GARBAGE = "garbage"
    """Bytes that are not needed; they do no harm."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about what is wrong, a place, and one sentence about what to do.

    ``kind`` and ``place`` (a file, a segment, a row) identify a finding: ``what`` and ``detail`` may contain
    lengths, which grow while a running server is checked.
    """

    severity: Severity
    kind: str
    what: str
    place: str
    advice: str
    detail: str = ""

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for the same finding of another check."""
        return self.kind, self.place

    @property
    def where(self) -> str:
        """The place, as exactly as it is known."""
        return f"{self.place}{self.detail}"


@dataclass(frozen=True, slots=True)
class SegmentLoss:
    """Stored bytes of a segment whose objects do not exist."""

    storage_name: str
    length: int
    """Stored bytes, those truncated and lost included."""

    head_end: int
    """The objects that hold the first of its bytes are missing up to here; 0 if the first is there."""

    gaps: int
    """Objects that are missing behind others that are there."""

    is_table: bool


@dataclass(slots=True)
class CheckReport:
    """The result of checking one container, and how much was checked."""

    container_id: int
    findings: list[Finding] = field(default_factory=list)
    findings_left_out: int = 0
    complete: bool = False
    """False: the log cannot be replayed, so nothing behind it was checked."""

    begun: bool = True
    """False: the log never had an owner, so there is nothing to check."""

    frames: int = 0
    operations: int = 0
    segments: int = 0
    inactive_segments: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    longer_chunks: int = 0
    """Objects that hold more than was committed: what is behind that does not exist."""

    longer_bytes: int = 0
    verified_bytes: int = 0
    table_entries: int = 0
    tables_left_out: bool = False
    """Whether the check of tables was skipped: it would only report the same damage again."""

    epoch: int = 0
    incarnation: str = ""
    losses: list[SegmentLoss] = field(default_factory=list)
    """The first of the segments that have lost objects, as many as there may be findings."""

    chunk_names: set[str] = field(default_factory=set)
    """Every chunk the container's rows name."""

    rows_known: bool = True
    """False: rows of inactive segments cannot be read, so there may be chunks beyond ``chunk_names``."""

    def damage(self, kind: str, what: str, place: str, advice: str, detail: str = "") -> None:
        self._add(Finding(Severity.DAMAGE, kind, what, place, advice, detail))

    def keep_seen(self, seen: Collection[tuple[str, str]]) -> None:
        """Drop the findings that no earlier check had; ``seen``: the identities of its findings."""
        self.findings = [finding for finding in self.findings if finding.identity in seen]

    def _add(self, finding: Finding) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)
        else:
            self.findings_left_out += 1

    @property
    def damaged(self) -> int:
        """How many findings are damage."""
        return sum(1 for finding in self.findings if finding.severity is Severity.DAMAGE)

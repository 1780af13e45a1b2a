"""What a check says: each finding tells what is wrong, where, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

FINDINGS_MAX: Final = 10_000
"""Findings kept for one container; the rest is only counted."""


class Severity(Enum):
    """How much a finding matters."""

    DAMAGE = "damage"
    """An invariant is broken: some data cannot be served, or will not be."""

    GARBAGE = "garbage"
    """Bytes nobody needs; they do no harm."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about what is wrong, a place, and one sentence about what to do."""

    severity: Severity
    what: str
    where: str
    advice: str


@dataclass(slots=True)
class CheckReport:
    """The result of checking one container, and how much was looked at."""

    container_id: int
    findings: list[Finding] = field(default_factory=list)
    findings_left_out: int = 0
    complete: bool = False
    """False: the log cannot be replayed, so nothing behind it was checked."""

    frames: int = 0
    operations: int = 0
    segments: int = 0
    inactive_segments: int = 0
    chunks: int = 0
    chunk_bytes: int = 0
    verified_bytes: int = 0
    table_entries: int = 0
    epoch: int = 0
    incarnation: str = ""
    chunk_names: set[str] = field(default_factory=set)
    """Every chunk the container's rows name."""

    def damage(self, what: str, where: str, advice: str) -> None:
        self._add(Finding(Severity.DAMAGE, what, where, advice))

    def garbage(self, what: str, where: str, advice: str) -> None:
        self._add(Finding(Severity.GARBAGE, what, where, advice))

    def _add(self, finding: Finding) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)
        else:
            self.findings_left_out += 1

    @property
    def damaged(self) -> int:
        """How many findings are damage."""
        return sum(1 for finding in self.findings if finding.severity is Severity.DAMAGE)

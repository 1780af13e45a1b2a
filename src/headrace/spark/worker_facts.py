"""What workers need to have in common with the driver, and the sentence that says what they lack. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_HOW: Final = (
    "Set PYSPARK_PYTHON, before the session is made, to an interpreter that every host has at that path and "
    "into which headrace[spark] is installed"
)


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """One Python of a cluster. Versions are empty where the package is missing."""

    host: str
    executable: str
    python: str
    """Major and minor version."""
    headrace: str
    missing: tuple[str, ...]
    """Packages that are not installed."""

    def __str__(self) -> str:
        return f"Python {self.python} ({self.executable} on {self.host})"


def find_difference(driver: WorkerFacts, workers: Iterable[WorkerFacts]) -> str | None:
    """Return what keeps workers from doing what the driver plans; None if nothing does."""
    for each in sorted(workers, key=lambda each: (each.host, each.executable)):
        if each.python != driver.python:
            return f"the driver runs {driver}, a worker {each}. {_HOW}"
        if each.missing:
            return (
                f"a worker, {each}, has no {' and no '.join(each.missing)}; the driver runs {driver}. "
                f"{_HOW}. --py-files brings pure Python only, such as headrace itself"
            )
        if each.headrace != driver.headrace:
            return f"the driver has headrace {driver.headrace}, a worker, {each}, has {each.headrace}. {_HOW}"
    return None


def explain_failure(driver: WorkerFacts, program: str, text: str) -> str | None:
    """Return what an error of Spark says about the Python of workers; None if it is about something else.

    Args:
        driver: where the job was started.
        program: what workers run, as far as the driver knows.
        text: the error.
    """
    for sign, meaning in _SIGNS.items():
        if sign in text:
            line = next(each for each in text.splitlines() if sign in each).strip()
            return f"{meaning} (they run {program}; the driver {driver}): {line} {_HOW}"
    return None


_SIGNS: Final = {
    "PYTHON_VERSION_MISMATCH": "the workers run another version of Python",
    "Cannot run program": "a host has no such interpreter",
    "Error from python worker": "the interpreter of a worker does not start",
    "No module named": "a worker lacks a package",
    "PACKAGE_NOT_INSTALLED": "a worker lacks a package",
}
"""What is in an error of Spark, and what it means."""

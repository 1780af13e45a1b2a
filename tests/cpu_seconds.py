"""CPU seconds of each test folder, with the processes that its tests started and waited for.

They say which folder makes ``make test`` long, also on a busy machine. They are printed beside a budget;
nothing fails by them, because a slower machine takes more of them for the same work.
"""

import os
from collections import Counter
from contextlib import contextmanager
from typing import Final

from tests import programs

COLLECTION: Final = "(collection)"
"""Stands for a folder: what each process spends on finding all tests."""

BUDGETS: Final = {
    COLLECTION: 40,
    "benchmarks": 15,
    "conformance": 25,
    "docs": 65,
    "golden": 25,
    "integration": 170,
    "interop": 10,
    "properties": 15,
    "simulation": 115,
    "spark": 10,
    "stores": 45,
    "tidy": 20,
    "types": 5,
    "unit": 160,
}
"""By folder; of ``make test``, all together 720 at most."""

QUICK_BUDGET: Final = 50
"""Of each of the two processes of ``make quick``."""

SHOWN_S: Final = 10
"""A run that used less is one of single tests: nobody asks what it cost."""


class CpuSeconds:
    """What the tests of this process used, and of the processes of xdist whose sums were added."""

    def __init__(self):
        self.by_folder = Counter()
        self.by_test = Counter()
        """Without the parameters of tests."""

    @contextmanager
    def collection(self):
        """Count what the block uses to no folder: to finding the tests."""
        before = _used()
        try:
            yield
        finally:
            self.by_folder[COLLECTION] += _used() - before

    @contextmanager
    def counted(self, test):
        """Count what the block uses to a test and its folder."""
        before = _used()
        try:
            yield
        finally:
            used = _used() - before
            self.by_folder[_folder_of(test)] += used
            self.by_test[test.partition("[")[0]] += used

    def sums(self):
        """Return what :meth:`add` takes in another process."""
        return {"by_folder": dict(self.by_folder), "by_test": dict(self.by_test)}

    def add(self, sums):
        self.by_folder.update(sums["by_folder"])
        self.by_test.update(sums["by_test"])

    def dearest(self, count):
        """Return a line for each of the dearest tests, with all their parameters together."""
        return [f"{used:7.1f} {test}" for test, used in self.by_test.most_common(count)]

    def lines(self, *, is_quick):
        """Return the report: a line for each folder, the dearest first, and the sum."""
        for folder, used in self.by_folder.most_common():
            budget = None if is_quick else BUDGETS.get(folder)
            yield _line(folder, used, budget)
        yield _line("all", self.by_folder.total(), QUICK_BUDGET if is_quick else sum(BUDGETS.values()))


def _line(name, used, budget):
    if budget is None:
        return f"{name:12} {used:7.1f}"
    return f"{name:12} {used:7.1f} of {budget:4}{'  over its budget' if used > budget else ''}"


def _used():
    """Return the CPU seconds of this process, of those that it has waited for, and of what starts them."""
    return sum(os.times()[:4]) + programs.used_s()


def _folder_of(path):
    """Return ``unit`` for ``tests/unit/model/test_names.py``."""
    _, _, below = path.partition("tests/")
    return below.partition("/")[0]

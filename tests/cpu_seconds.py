"""CPU seconds of each test folder, with the processes that its tests started and waited for.

They say which folder makes ``make test`` long, also on a busy machine. They are printed beside a budget;
nothing fails by them, because a slower machine takes more of them for the same work.
"""

import os
from collections import Counter
from contextlib import contextmanager
from typing import Final

BUDGETS: Final = {
    "benchmarks": 5,
    "conformance": 20,
    "docs": 60,
    "golden": 10,
    "integration": 150,
    "interop": 20,
    "properties": 60,
    "simulation": 120,
    "spark": 120,
    "stores": 30,
    "tidy": 15,
    "types": 10,
    "unit": 100,
}
"""By folder; of ``make test``, all together 720 at most."""

QUICK_BUDGET: Final = 100
"""Of all tests of ``make quick``."""


SHOWN_S: Final = 10
"""A run that used less is one of single tests: nobody asks what it cost."""


class CpuSeconds:
    """What the tests of this process used, and of the processes of xdist whose sums were added."""

    def __init__(self):
        self.by_folder = Counter()

    @contextmanager
    def counted(self, path):
        """Count what the block uses to the folder of ``path``."""
        before = _used()
        try:
            yield
        finally:
            self.by_folder[_folder_of(path)] += _used() - before

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
    """Return the CPU seconds of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _folder_of(path):
    """Return ``unit`` for ``tests/unit/model/test_names.py``."""
    _, _, below = path.partition("tests/")
    return below.partition("/")[0]

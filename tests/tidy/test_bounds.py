"""How large a few things may be. A bound that is met tells to take something away, not to raise it."""

import pytest

from headrace.processes.config import StandaloneConfig
from headrace.runtime.settings import walk
from tests.tidy.source_tree import SRC

STORE = SRC / "headrace" / "segmentstore"


def lines_of(*paths):
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


BOUNDS = {
    "lines of operation_processor.py": (310, lambda: lines_of(STORE / "durablelog/operation_processor.py")),
    "lines of ingress/connection.py": (350, lambda: lines_of(STORE / "ingress/connection.py")),
    "lines of segmentstore": (24_200, lambda: lines_of(*STORE.rglob("*.py"))),
    "settings": (70, lambda: len(list(walk(StandaloneConfig)))),
}
"""Each is below its bound."""


@pytest.mark.parametrize("subject", BOUNDS)
def test_a_part_stays_below_its_bound(subject):
    bound, measure = BOUNDS[subject]
    assert measure() < bound

"""The bytes of every version are pinned for ever: the newest is written, all are read."""

from pathlib import Path

import pytest

from tests.unit.controller.store.row_samples import SAMPLES

GOLDEN = Path(__file__).parents[3] / "golden" / "controller_rows"
PINNED = sorted(GOLDEN.glob("v*/*.bin"))


def newest(name):
    return max((path for path in PINNED if path.stem == name), key=lambda path: int(path.parent.name[1:]))


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_are_written_as_in_their_newest_version(name):
    row, encode, _ = SAMPLES[name]
    assert encode(row) == newest(name).read_bytes()


@pytest.mark.parametrize("path", PINNED, ids=lambda path: f"{path.stem}-{path.parent.name}")
def test_rows_of_every_version_are_read(path):
    row, _, decode = SAMPLES[path.stem]
    assert decode(path.read_bytes()) == row

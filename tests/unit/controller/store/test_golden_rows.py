"""The bytes of version 1 are pinned for ever."""

from pathlib import Path

import pytest

from tests.unit.controller.store.row_samples import SAMPLES

GOLDEN = Path(__file__).parents[3] / "golden" / "controller_rows" / "v1"


@pytest.mark.parametrize("name", SAMPLES)
def test_rows_are_written_and_read_as_ever(name):
    row, encode, decode = SAMPLES[name]
    pinned = (GOLDEN / f"{name}.bin").read_bytes()
    assert decode(pinned) == row
    assert encode(row) == pinned


def test_every_pinned_row_has_its_sample():
    assert {path.stem for path in GOLDEN.glob("*.bin")} == set(SAMPLES)

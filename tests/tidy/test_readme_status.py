"""The rows of the README's table of what works: their words are the three it explains, and what they name is
there.
"""

import re

import pytest

from tests.tidy.source_tree import ROOT

README = (ROOT / "README.md").read_text()
STATUS = README.partition("## Status")[2].partition("\n## ")[0]
COMMANDS = (ROOT / "docs" / "reference" / "cli.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in STATUS.splitlines()
    if line.startswith("| ") and not line.startswith("| Capability")
]


def test_there_are_rows():
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_has_a_known_status_and_names_what_exists(row):
    capability, status, remark = row
    assert status in {"working", "partial", "not yet"}
    assert capability
    assert remark or status != "partial", "what is missing is said"
    text = f"{capability} {remark}"
    for word in re.findall(r"`((?:headrace |--)[^`]+)`", text):
        assert word in COMMANDS, word
    for link in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / link).exists(), link

"""The page about REST names every path, and none that does not exist."""

import re
from itertools import product
from pathlib import Path

from headrace.controller.rest.rules import RULES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "rest.md").read_text()
TABLE = PAGE.partition("| Path | Verbs | What |")[2].partition("\n\n")[0]


def expanded(path):
    """Return the paths that ``a/{b,c}`` stands for; ``{b}`` stands for itself."""
    parts = re.split(r"\{(\w+(?:,\w+)+)\}", path)
    choices = [part.split(",") if index % 2 else [part] for index, part in enumerate(parts)]
    return {"".join(each) for each in product(*choices)}


def test_the_table_has_every_path_with_its_verbs():
    found = set()
    for line in TABLE.splitlines()[2:]:
        paths, verbs, what = [cell.strip() for cell in line.strip("|").split(" | ", 2)]
        named = {path for span in re.findall(r"`(/[^`?]+)`", paths) for path in expanded(span)}
        if "/{part}" in named:  # "each also"
            named = {path + tail for path in named - {"/{part}"} for tail in ("", "/{part}")}
        if "/live" in named:
            named |= set(re.findall(r"`(/\w+)`", what))
        found |= {(verb, path) for path in named for verb in verbs.split(", ")}
    assert found == set(RULES)

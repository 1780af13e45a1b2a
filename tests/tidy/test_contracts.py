"""The linter knows the layers inside large packages; the READMEs of the store's parts say who decides."""

import tomllib

import pytest

from tests.tidy.source_tree import ROOT

CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]


@pytest.mark.parametrize("package", ["headrace.segmentstore", "headrace.controller", "headrace.web"])
def test_the_layers_inside_a_package_are_told_in_full(package):
    inside = [each for each in CONTRACTS if each.get("containers") == [package]]
    assert [(each["type"], each["exhaustive"]) for each in inside] == [("layers", True)]


@pytest.mark.parametrize(
    "package",
    [
        ".",
        "admission",
        "attributes",
        "container",
        "durablelog",
        "ingress",
        "readindex",
        "storagewriter",
        "tables",
    ],
)
def test_a_part_of_the_segment_store_says_what_it_owns_what_to_read_first_and_what_decides(package):
    text = (ROOT / "src" / "headrace" / "segmentstore" / package / "README.md").read_text().lower()
    assert "own" in text
    assert "reading order" in text
    assert "| decides | does |" in text

"""The pages about flows name functions, classes, modules and settings that exist."""

import re
from pathlib import Path

import pytest

from tests.docs.source_names import source_names

PAGES = sorted((Path(__file__).parents[2] / "docs" / "flows").glob("*.md"))
NO_NAMES = {"RWF_NOWAIT", "LOCK", "headrace.json", "REBUILDING"}
"""A flag of the system, and files."""


def words(page):
    """Every word in code type; what a function is called with does not matter."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return sorted({word.split("(")[0] for word in re.findall(r"`([^`\n]+)`", text)} - NO_NAMES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_everything_that_a_page_names_exists(page):
    missing = [why for word in words(page) if (why := source_names().find_missing(word))]
    assert missing == []


@pytest.mark.parametrize(
    "word",
    [
        "Wal.opening",
        "NoClass.open",
        "codec.decoded",
        "ingress/nothing.py",
        "nothing/",
        "durablelog/nothing",
        "do_nothing",
        "NoClass",
    ],
)
def test_a_name_that_is_gone_would_be_noticed(word):
    assert source_names().find_missing(word)


@pytest.mark.parametrize(
    "word",
    [
        "Wal.open",
        "codec.decode",
        "ingress/connection.py",
        "storagewriter/",
        "admission/throttle",
        "chunk_files.written_cache_bytes",
        "plan_step",
        "some prose",
        "sendfile",
    ],
)
def test_a_name_that_is_there_is_found(word):
    assert source_names().find_missing(word) is None

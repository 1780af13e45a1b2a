"""What pages quote of the program, its log lines and errors, it says; the settings that they name exist.

A quote is a block of the language ``log``, a line for each; or code within a sentence that is prose: three
words or more, or anything that follows "the log says" or "the log:". What is filled in is written ``<what>``,
what is left out ``...``.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.docs.source_names import source_names
from tests.docs.source_texts import is_said

DOCS = Path(__file__).parents[2] / "docs"
QUOTING = [
    DOCS.parent / "README.md",
    DOCS / "architecture.md",
    *sorted((DOCS / "flows").glob("*.md")),
    *sorted((DOCS / "guides").glob("*.md")),
    *sorted((DOCS / "operating").glob("*.md")),
    *sorted((DOCS / "reference").glob("*.md")),
]
PAGES = sorted({*QUOTING, *DOCS.rglob("*.md")} - {DOCS / "reference" / "settings.md"})

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(
    r"(?:until )?(headrace|bookkeeper|hdfs|kill|pip|python[\d.]*|curl|du|taskset|INSERT|Authorization:) "
)
_NO_PROSE = re.compile(r"[{}=|*]|\[|::| --|^\.|^-|\w\(")
_AFTER_SAYS = re.compile(r"\blog(?: of \w+)?(?: says|:) `([^`\n]+)`")
_SETTING = re.compile(r"((?:[a-z_]+\.)*[a-z]+(?:_[a-z0-9]+)+) = ")

OF_OTHERS = {
    "DATA_SOURCE_NOT_FOUND ... headrace": "Spark",
    "requires a different Python": "pip",
    "Connection refused; is a server running there?": "the system, in front of what we say",
    "cannot listen on 127.0.0.1:9090: address already in use": "a line that is composed",
    "headrace-data is in use by pid ...": "the same",
    "PRESENT is gone": "the same",
    "there are chunks, but neither a log nor headrace.json": "the same",
    "the driver runs Python 3.11 ..., a worker Python 3.12 ...": "the same",
    "needs pyarrow, not installed for this Python": "the same",
    "spark, controller, segmentstore": "names of packages",
    "client, storage, wal, web": "the same",
}
"""What is quoted of others, or is no quote."""


@cache
def split(page):
    """Return the lines of its blocks of the language ``log``, and its text without any blocks."""
    text = page.read_text()
    logs = "\n".join(block for language, block in _BLOCK.findall(text) if language == "log")
    return [line.strip() for line in logs.splitlines() if line.strip()], _BLOCK.sub("", text)


def quotes(page):
    """Return everything on a page that the program has to say."""
    logs, text = split(page)
    prose = [
        code
        for code in re.findall(r"`([^`\n]+)`", text)
        if len(code.split()) >= 3 and not _COMMAND.match(code) and not _NO_PROSE.search(code)
    ]
    return {*logs, *prose, *_AFTER_SAYS.findall(text)} - set(OF_OTHERS)


@pytest.mark.parametrize("page", QUOTING, ids=lambda page: page.name)
def test_what_a_page_quotes_is_said(page):
    assert sorted(quote for quote in quotes(page) if not is_said(quote)) == []


def test_pages_quote_a_lot():
    assert sum(len(quotes(page)) for page in QUOTING) > 50
    assert "container <n> ended: <why>" in quotes(DOCS / "operating" / "runbook.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS.parent)))
def test_settings_that_a_page_gives_values_exist(page):
    _, text = split(page)
    given = [found[1] for code in re.findall(r"`([^`\n]+)`", text) if (found := _SETTING.match(code))]
    given += [
        key
        for language, block in _BLOCK.findall(page.read_text())
        if language == "toml" and "entry-points" not in block
        for key in keys_of(tomllib.loads(block))
    ]
    assert [key for key in given if not source_names().has_setting(key) and key not in NO_SETTINGS] == []


NO_SETTINGS = {"host.disk.slowness", "host.clock.skew_ms"}
"""Fields of a simulation."""


def keys_of(table, prefix=""):
    for name, value in table.items():
        if isinstance(value, dict):
            yield from keys_of(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_a_quote_that_is_not_said_is_noticed():
    assert is_said("container <n> stays offline: <why>")
    assert is_said("damaged data: garbage is retained, ...")
    assert is_said("segment ... cannot be read from long-term storage")
    assert not is_said("unfinished workflows are found")
    assert not is_said("segment ... cannot be found in long-term storage")
    assert not is_said("cannot be read from ... segment <name>")
    assert not is_said("Raises: StorageReadError"), "in docstrings nothing is said"

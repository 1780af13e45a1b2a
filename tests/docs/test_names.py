"""Pages for users name only commands, options, variables, calls and classes that exist."""

import re
from functools import cache
from pathlib import Path

import pytest

import headrace
from headrace.runtime import client_variables
from tests.docs.source_names import source_names

DOCS = Path(__file__).parents[2] / "docs"
ROOT = DOCS.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    DOCS / "index.md",
    *sorted((DOCS / "guides").glob("*.md")),
    *sorted((DOCS / "operating").glob("*.md")),
]
COMMANDS = (DOCS / "reference" / "cli.md").read_text()
SETTINGS = (DOCS / "reference" / "settings.md").read_text()
OBJECTS = {
    "client": headrace.Client,
    "headrace": headrace,
    "headrace.aio": headrace.aio,
    "reader": headrace.EventReader,
    "writer": headrace.EventWriter,
    "transaction": headrace.Transaction,
    "batch": headrace.EventBatch,
    "position": headrace.StreamCut,
}
"""What pages call the things that they talk about."""
OF_OTHERS = {
    *(
        "--from-beginning",
        "--conf",
        "--py-files",
        "--archives",
        "--packages",
        "--master",
        "--jars",
        "--no-deps",
    ),
    *("--profile", "--remote", "--cacert"),
}
"""Options of Kafka's, Spark's and other commands."""
CLASSES_OF_OTHERS = {"EventWriterConfig", "CancelledError"}
"""Of the Java client and of Python."""


@cache
def words(page):
    """What a page has in code type, outside of blocks."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", text)


def wrong_commands(texts):
    verbs = set(re.findall(r"^#+ headrace ([a-z -]+)$", COMMANDS, re.MULTILINE))
    nouns = {verb.partition(" ")[0] for verb in verbs}
    for text in texts:
        if found := re.match(r"headrace ([a-z-]+)(?: ([a-z-]+))?", text):
            noun, verb = found.groups()
            if noun not in nouns or (verb and noun not in verbs and f"{noun} {verb}" not in verbs):
                yield text


def wrong_options(texts):
    known = set(re.findall(r"--[a-z][a-z-]*", COMMANDS)) | OF_OTHERS | {"--help", "--version"}
    for text in texts:
        for option in re.findall(r"(?:^|(?<=\s))--[a-z][a-z-]*", text):
            if option not in known:
                yield option


def wrong_variables(texts):
    known = set(re.findall(r"HEADRACE_[A-Z_]+", SETTINGS)) | set(re.findall(r"HEADRACE_[A-Z_]+", COMMANDS))
    known |= {value for value in vars(client_variables).values() if isinstance(value, str)}
    for text in texts:
        for variable in re.findall(r"\bHEADRACE_[A-Z_]+", text):
            if variable not in known:
                yield variable


def wrong_calls(texts):
    for text in texts:
        if found := re.match(r"((?:headrace\.aio|\w+))\.([a-z]\w*)\(", text):
            owner, name = found.groups()
            if owner in OBJECTS and not hasattr(OBJECTS[owner], name):
                yield text


def wrong_classes(texts):
    """Errors and classes of ours; other classes of Python and Java do not end so."""
    for text in texts:
        for name in re.findall(r"\b[A-Z]\w+(?:Error|Config|Configuration|Policy|Writer|Reader)\b", text):
            if name not in source_names().defined | CLASSES_OF_OTHERS:
                yield name


CHECKS = (wrong_commands, wrong_options, wrong_variables, wrong_calls, wrong_classes)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page):
    assert [(check.__name__, found) for check in CHECKS for found in check(words(page))] == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (wrong_commands, "headrace serve"),
        (wrong_commands, "headrace stream grow demo/orders"),
        (wrong_options, "headrace stream list --colour"),
        (wrong_variables, "HEADRACE_COLOUR"),
        (wrong_calls, "client.make_coffee()"),
        (wrong_calls, "headrace.aio.disconnect()"),
        (wrong_classes, "NoCoffeeError"),
    ],
)
def test_what_does_not_exist_is_noticed(check, text):
    assert list(check([text]))

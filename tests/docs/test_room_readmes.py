"""The README of a room names modules that are there, by their place, and names that the source has; so do the
rows about packages in the page about the architecture.
"""

import re

import pytest

from tests.docs.source_names import source_names
from tests.docs.source_texts import SOURCE

ROOT = SOURCE.parents[1]
READMES = sorted(SOURCE.rglob("README.md"))
NO_NAMES = {'"scope/stream"'}
"""What is in code type and no name of ours."""


def words(text):
    """Yield the words in code type of each paragraph and each row, without what functions are called with."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    for part in re.split(r"\n\n+|\n(?=\|)", prose):
        yield [word.split("(")[0] for word in re.findall(r"`([^`\n]+)`", part) if word not in NO_NAMES]


def is_path(word):
    return " " not in word and ("/" in word or word.endswith((".py", ".md")))


def places_of(folder):
    """Return where a path of a room may begin: in it, in a package around it, or in the repository."""
    return [folder, *(each for each in folder.parents if each.is_relative_to(SOURCE)), ROOT]


def alternatives(path):
    """Return the paths that one with ``{this,that}`` in it stands for."""
    head, brace, rest = path.partition("{")
    if not brace:
        return [path]
    names, _, tail = rest.partition("}")
    return [f"{head}{name}{tail}" for name in names.split(",")]


def missing(folder, part):
    """Yield what is not there. A bare name may also be of a folder that the part names before it."""
    before = []
    for word in part:
        if word.startswith(("/", "~")):
            continue  # of a server, or of a machine
        if is_path(word):
            places = [*places_of(folder), *([] if "/" in word else before)]
            for pattern in alternatives(word.rstrip("/")):
                found = next((path for place in places for path in place.glob(pattern)), None)
                if found is None:
                    yield f"there is no {pattern}"
                else:
                    before.append(found if found.is_dir() else found.parent)
        elif word.startswith("headrace."):
            path = SOURCE.parent.joinpath(*word.split("."))
            if not path.is_dir() and not path.with_suffix(".py").is_file():
                yield f"there is no {word}"
        elif why := source_names().find_missing(word):
            yield why


@pytest.mark.parametrize("page", READMES, ids=lambda page: str(page.parent.relative_to(SOURCE)))
def test_everything_that_a_room_names_exists(page):
    found = [why for part in words(page.read_text()) for why in missing(page.parent, part)]
    assert found == []


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = re.findall(r"^\| (`[a-z_/]+`(?:, `[a-z_/]+`)*) \| (.*)$", ARCHITECTURE, re.MULTILINE)


@pytest.mark.parametrize("row", PACKAGES, ids=lambda row: row[0])
def test_everything_that_a_row_about_packages_names_exists(row):
    packages, text = row
    folders = [SOURCE / name for name in re.findall(r"`([^`]+)`", packages)]
    assert [folder.name for folder in folders if not folder.is_dir()] == []
    assert [why for part in words(text) for why in missing(folders[0], part)] == []


def test_there_are_rows_about_packages():
    assert len(PACKAGES) > 20


WAL = SOURCE / "wal"


@pytest.mark.parametrize(
    "line",
    [
        "`nothing.py`",
        "`group_commit.py`",
        "`file/contract.py`",
        "`contract.py`, `group_commit.py`",
        "`file/`, `nothing/`",
        "`docs/nothing.md`",
        "`{contract,nothing}.py`",
        "`headrace.testing.nothing`",
        "`do_nothing()`",
    ],
)
def test_a_name_that_is_gone_would_be_noticed(line):
    (found,) = words(line)
    assert len(list(missing(WAL, found))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "`contract.py`",
        "`file/group_commit.py`, `opening.py` and `contract.py`",
        "`file/*.py`, `file/`, `{contract,logs}.py`",
        "`runtime/`",
        "`docs/formats/wal-record.md`",
        "`headrace.testing.conformance.wal`",
        "`group_commit`: which frames",
        "`/metrics`, `~/.cache/headrace`",
    ],
)
def test_a_name_that_is_there_is_found(line):
    (found,) = words(line)
    assert list(missing(WAL, found)) == []

"""The first sentence of each package says what it owns, in more than the words of its own name."""

import ast
import re

import pytest

from tests.tidy.source_tree import modules, tree_of

WORDS_MIN = 4


def words_of(docstring, package):
    """Return the words of the first paragraph, but those that the name of the package has anyhow."""
    first = re.sub(r"``[^`]*``", " ", docstring.partition("\n\n")[0])
    named = {name.rstrip("s") for name in re.split(r"[._]", package)}
    return [word for word in re.findall(r"[A-Za-z][\w-]*", first) if word.lower().rstrip("s") not in named]


def says_too_little(docstring, package):
    return len(words_of(docstring, package)) < WORDS_MIN


def test_every_package_says_what_it_owns():
    packages = {name: path for name, path in modules().items() if path.name == "__init__.py"}
    found = [
        name
        for name, path in packages.items()
        if says_too_little(ast.get_docstring(tree_of(path)) or "", name)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("docstring", "is_too_little"),
    [
        ("", True),
        ("providers.", True),
        ("The providers of a storage.", True),
        ("``headrace provider``: verbs of providers.", True),
        ("Kinds of long-term storage: the contract of chunks.", False),
        ("Providers.\n\nWhat stands below is not the first sentence of it.", True),
    ],
)
def test_a_name_alone_says_too_little(docstring, is_too_little):
    assert says_too_little(docstring, "headrace.storage.providers") == is_too_little

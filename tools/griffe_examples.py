"""Lets the site show the examples of docstrings, ``>>>`` and what follows, as code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(
    r"^(?P<indent> *)>>> .*(?:\n|\Z)(?:(?P=indent)(?! ).*\S.*\n?|(?P=indent)\.\.\. .*\n?)*", re.MULTILINE
)

_RAISES = re.compile(r"^( *)Raises \([^)\n]*\):$", re.MULTILINE)


class Examples(griffe.Extension):
    """Fences examples once everything is loaded, those of :class:`griffe_waits.WaitingMethods` too."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name == "headrace":
            _fence_all(pkg)


def fenced(text: str) -> str:
    """Return a docstring with its examples in fences, and what a call raises later as what it raises."""
    return _EXAMPLE.sub(_fence, _RAISES.sub(r"\1Raises:", text))


def _fence(found: re.Match[str]) -> str:
    indent = found["indent"]
    return f"{indent}```pycon\n{found[0].rstrip()}\n{indent}```\n"


def _fence_all(item: Any) -> None:
    if item.docstring is not None:
        item.docstring.value = fenced(item.docstring.value)
    for member in getattr(item, "members", {}).values():
        if not member.is_alias:
            _fence_all(member)

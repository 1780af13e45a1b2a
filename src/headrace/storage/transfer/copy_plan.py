"""Decides what is done with an object of a store that is copied to another, and when."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Final

from headrace.storage.chunks.chunk_names import parse_chunk_name

IDENTITY: Final = "_system/identity"
"""The object that says whose a store is."""

_BESIDE: Final = "_system/"
_MANIFEST: Final = ".manifest"


class Step(Enum):
    """What is done with one object."""

    COPY = "copy"
    SKIP = "skip"
    """The target has it. An object of a name never changes, it only grows."""

    REPLACE = "replace"
    """The target has the beginning of it: a copy that broke off, or the object has grown since."""

    CONFLICT = "conflict"
    """The target has more than there is to copy: it stays as it is."""


class Rank(IntEnum):
    """The order of copying: what names other objects comes behind them, the name of the system last."""

    CHUNK = 0
    CHECKPOINT = 1
    MANIFEST = 2
    IDENTITY = 3


def rank_of(name: str) -> Rank:
    if name == IDENTITY:
        return Rank.IDENTITY
    if not name.startswith(_BESIDE) or parse_chunk_name(name) is not None:
        return Rank.CHUNK
    return Rank.MANIFEST if name.endswith(_MANIFEST) else Rank.CHECKPOINT


def decide(length: int, in_target: int | None) -> Step:
    """Decide for an object of ``length`` bytes, of which the target has so many, or None without it."""
    if in_target is None:
        return Step.COPY
    if in_target == length:
        return Step.SKIP
    return Step.REPLACE if in_target < length else Step.CONFLICT

"""What clients of segments leave to chance, alike over the wire and in the process of the container.

A seed stands for the order of these draws: to change it makes another simulation of every recorded seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.runtime.entropy import SeededEntropy

T = TypeVar("T")

KEYS: Final = tuple(bytes(15) + bytes([number]) for number in range(1, 4))
"""The attributes that clients change."""


def draw_size(entropy: SeededEntropy) -> int:
    """Return the bytes of one append: tiny, small or a little more."""
    draw = entropy.randbelow
    return (1 + draw(60), 1 + draw(900), 1 + draw(3000))[draw(3)]


class Emptiness:
    """Makes some blocks empty, in every other simulation, with draws of its own."""

    def __init__(self, entropy: SeededEntropy) -> None:
        self._draw = entropy.fork("empty blocks").randbelow
        self._odds = (0, 12)[self._draw(2)]

    def apply(self, data: bytes) -> bytes:
        """Return ``data``, or nothing."""
        return b"" if self._odds and self._draw(self._odds) == 0 else data


def draw_key(entropy: SeededEntropy) -> bytes:
    """Return an attribute to ask for."""
    return (*KEYS, attr.EVENT_COUNT)[entropy.randbelow(4)]


def draw_updates(entropy: SeededEntropy) -> tuple[AttributeUpdate, ...]:
    """Return one or two updates of any kind, which may fail."""
    draw = entropy.randbelow
    updates = []
    for _ in range(1 + draw(2)):
        kind = list(UpdateKind)[draw(len(UpdateKind))]
        value = ATTRIBUTE_NULL if kind is UpdateKind.REPLACE and draw(6) == 0 else draw(5)
        expected = ATTRIBUTE_NULL if draw(2) else draw(5)
        updates.append(AttributeUpdate(KEYS[draw(len(KEYS))], kind, value, expected))
    return tuple(updates)


def choose(entropy: SeededEntropy, options: Sequence[T]) -> T:
    """Return one of the options, each as likely as any other."""
    return options[entropy.randbelow(len(options))]


def weigh(**weights: int) -> tuple[str, ...]:
    """Return each name as often as it says, to choose from."""
    return tuple(name for name, weight in weights.items() for _ in range(weight))

"""Makes a failing simulation smaller: fewer lives, clients, steps and kinds of faults, while it still fails.

A reduction masks parts of what a seed decides; the rest is decided as before, so a smaller one is often the
same failure with less around it. It is text, too, so that a person can repeat it:
``lives=2 clients=1 steps=7 without=slow,reads``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

_UNBOUNDED: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Reduction:
    """What remains of a simulation. By default all of it."""

    lives: int = _UNBOUNDED
    """How many times an owner of the store is ended, at most."""
    clients: int = _UNBOUNDED
    """How many clients of each kind there are, at most."""
    steps: int = _UNBOUNDED
    """How many calls each of them makes in one life, at most."""
    without: frozenset[str] = frozenset()
    """Names of faults that are left out."""

    def __str__(self) -> str:
        numbers = {"lives": self.lives, "clients": self.clients, "steps": self.steps}
        words = [f"{name}={value}" for name, value in numbers.items() if value != _UNBOUNDED]
        if self.without:
            words.append(f"without={','.join(sorted(self.without))}")
        return " ".join(words)

    @classmethod
    def parse(cls, text: str) -> Reduction:
        """Return the reduction that ``str`` has described.

        Raises:
            ValueError: it is none.
        """
        found = cls()
        for word in text.split():
            name, _, value = word.partition("=")
            if name == "without":
                found = replace(found, without=frozenset(value.split(",")))
            elif name == "lives":
                found = replace(found, lives=int(value))
            elif name == "clients":
                found = replace(found, clients=int(value))
            elif name == "steps":
                found = replace(found, steps=int(value))
            else:
                raise ValueError(f"{word!r} is no part of a reduction")
        return found


ALL: Final = Reduction()


def shrink(
    fails: Callable[[Reduction], bool],
    *,
    lives: int,
    clients: int,
    steps: int,
    faults: Iterable[str],
    go_on: Callable[[], bool],
) -> Reduction:
    """Return the smallest reduction found with which the simulation still fails; ``ALL`` may be the answer.

    Args:
        fails: simulates once.
        lives: as many as the whole simulation has, and so for ``clients`` and ``steps``.
        clients: see above.
        steps: see above.
        faults: the names of all that may be left out.
        go_on: asked before each simulation; says no when the time is up.
    """
    best = ALL
    smaller = True
    sizes = {"lives": lives, "clients": clients, "steps": steps}
    while smaller:
        smaller = False
        for candidate in _candidates(best, sizes, sorted(faults)):
            if not go_on():
                return best
            if fails(candidate):
                best = candidate
                smaller = True
                break
    return best


def _candidates(best: Reduction, sizes: dict[str, int], faults: list[str]) -> Iterator[Reduction]:
    """Yield smaller ones, the boldest first."""
    for name, whole in sizes.items():
        size = min(whole, getattr(best, name))
        for value in dict.fromkeys((1, size // 4, size // 2, size * 3 // 4, size - 1)):
            if 0 < value < size:
                yield replace(best, **{name: value})
    left = [fault for fault in faults if fault not in best.without]
    if len(left) > 1:
        yield replace(best, without=best.without | set(left))
    for fault in left:
        yield replace(best, without=best.without | {fault})

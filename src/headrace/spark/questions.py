"""The same question about many segments or streams, asked at once: each waits for an answer of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_AT_ONCE: Final = 8
"""Threads of a round: they wait for a network, and start in 0.1 ms each."""


def ask_all(question: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """Return the answers in order. An error is that of the first item that has one."""
    if len(items) < 2:
        return [question(each) for each in items]
    with ThreadPoolExecutor(min(_AT_ONCE, len(items)), "headrace-planner") as threads:
        return list(threads.map(question, items))

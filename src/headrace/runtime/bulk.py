"""One call about many segments: a bounded number of them at a time, all of them or a refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from headrace.errors import InvalidArgumentError
from headrace.limits import BULK_NAMES_MAX

R = TypeVar("R")

AT_ONCE: Final = 64
"""Enough for operations to share frames of the log; few enough for one iteration of the loop."""


async def each_of(segments: Sequence[str], call: Callable[[str], Awaitable[R]]) -> list[R]:
    """Call for every segment and return the answers in their order. After a failure the rest is not called.

    Raises:
        InvalidArgumentError: they are more than ``BULK_NAMES_MAX``; nothing was called.
    """
    if len(segments) > BULK_NAMES_MAX:
        raise InvalidArgumentError(f"{len(segments)} segments in one call; {BULK_NAMES_MAX} are the most")
    answers: list[R] = []
    for start in range(0, len(segments), AT_ONCE):
        outcomes = await asyncio.gather(
            *(call(segment) for segment in segments[start : start + AT_ONCE]), return_exceptions=True
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            answers.append(outcome)
    return answers

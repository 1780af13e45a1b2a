"""What a process asks a segment store about itself, as the JSON object that internal commands carry. Pure.

Source: ``docs/formats/internal-commands.md``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from headrace.errors import InvalidArgumentError

QUESTION_BYTES_MAX: Final = 4096


class About(Enum):
    """Of what the question is."""

    STATISTICS = "statistics"
    HEALTH = "health"
    OPTIMISERS = "optimisers"
    PAUSE = "pause"
    """No question: pause the storage optimisers, or resume them."""


@dataclass(frozen=True, slots=True)
class StoreQuestion:
    about: About
    container: int | None = None
    """Of statistics: of this container alone."""
    paused: bool = False
    """Of PAUSE."""


def encode_question(question: StoreQuestion) -> bytes:
    document: dict[str, Any] = {"about": question.about.value}
    if question.container is not None:
        document["container"] = question.container
    if question.about is About.PAUSE:
        document["paused"] = question.paused
    return json.dumps(document).encode()


def decode_question(data: bytes) -> StoreQuestion:
    """Raises InvalidArgumentError: it is no question that this version knows."""
    try:
        if len(data) > QUESTION_BYTES_MAX:
            raise ValueError("it is too long")
        document = json.loads(data)
        about, container = About(document["about"]), document.get("container")
        paused = document["paused"] if about is About.PAUSE else False
        if not isinstance(paused, bool) or type(container) not in {int, type(None)}:
            raise ValueError("a member is of another type")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"a store is not asked that: {error}") from None
    return StoreQuestion(about, container, paused)

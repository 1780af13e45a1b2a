"""Which streams a source reads: by name, or those of a scope with a tag or names like a pattern. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.model.names import check_internal_name

STREAMS_MAX: Final = 1000
"""In one source: each is asked for its tail before every batch."""

_PATTERN_CHARS_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class StreamChoice:
    """Streams by their full names ``scope/stream``, or a rule that chooses among those of a scope."""

    scope: str
    names: tuple[str, ...] = ()
    pattern: str = ""
    """A regular expression that matches the whole name within the scope."""
    tag: str = ""

    @property
    def is_rule(self) -> bool:
        """Whether streams that do not exist yet may be chosen later."""
        return not self.names

    @property
    def only(self) -> tuple[str, str] | None:
        """Scope and name, if it is one stream by name."""
        return split_name(self.names[0]) if len(self.names) == 1 else None

    def __str__(self) -> str:
        if self.names:
            return ", ".join(self.names)
        return f"{self.scope}, tag {self.tag}" if self.tag else f"{self.scope}, pattern {self.pattern}"

    def choose(self, present: Iterable[str]) -> list[str]:
        """Return the full names of what a rule chooses among streams of the scope, which have its tag.

        Raises:
            InvalidArgumentError: more than can be read together.
        """
        matches = re.compile(self.pattern or ".*").fullmatch
        chosen = []
        for stream in present:
            if matches(stream):
                chosen.append(f"{self.scope}/{stream}")
                if len(chosen) > STREAMS_MAX:
                    raise InvalidArgumentError(
                        f"{self} chooses more than {STREAMS_MAX} streams: divide them between several reads"
                    )
        return sorted(chosen)


def split_name(name: str) -> tuple[str, str]:
    """Return scope and stream of a full name."""
    scope, _, stream = name.partition("/")
    return scope, stream


def choose_by_name(scope: str, text: str) -> StreamChoice:
    """Return the choice of a list, ``a,b`` or ``scope/a,other/b``.

    Raises:
        InvalidArgumentError: a name is no name, comes twice, or lacks a scope; or there are too many.
    """
    names = []
    for each in text.split(","):
        own_scope, _, stream = each.strip().rpartition("/")
        if not (own_scope or scope):
            raise InvalidArgumentError(
                f'option scope is required for stream {stream}; .load("scope/{stream}") names both'
            )
        # Internal streams may be read as well, so their names are allowed.
        full_scope = check_internal_name(own_scope or scope, "scope")
        names.append(f"{full_scope}/{check_internal_name(stream, 'stream')}")
    if len(set(names)) != len(names):
        raise InvalidArgumentError(f"option stream names a stream twice: {text}")
    if len(names) > STREAMS_MAX:
        raise InvalidArgumentError(f"option stream has {len(names)} names, at most {STREAMS_MAX}")
    return StreamChoice(scope, tuple(names))


def choose_by_rule(scope: str, *, pattern: str = "", tag: str = "") -> StreamChoice:
    """Return the choice of a pattern or a tag.

    Raises:
        InvalidArgumentError: the pattern is no regular expression, or very long.
    """
    if len(pattern) > _PATTERN_CHARS_MAX:
        raise InvalidArgumentError(f"option stream_pattern is longer than {_PATTERN_CHARS_MAX} characters")
    try:
        re.compile(pattern)
    except re.error as error:
        raise InvalidArgumentError(f"option stream_pattern is no regular expression: {error}") from None
    return StreamChoice(check_internal_name(scope, "scope"), pattern=pattern, tag=tag)

"""Which streams have records: events in an envelope with a time, a key and headers. Pure.

A tag of the stream says so, with the version of the envelope; it is given when the stream is created, and
stays. See ``docs/formats/record.md``.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from headrace.errors import InvalidArgumentError, UnsupportedError

RESERVED_PREFIX: Final = "headrace."
"""Tags that begin so say something to the system, and are fixed for the life of a stream."""

_RECORDS_PREFIX: Final = "headrace.records="
RECORDS_TAG: Final = f"{_RECORDS_PREFIX}1"
"""Of streams with records of version 1, the only one there is."""


def reserved_tags(tags: Collection[str]) -> frozenset[str]:
    """Return those of the tags that are the system's."""
    return frozenset(tag for tag in tags if tag.startswith(RESERVED_PREFIX))


def has_records(stream: str, tags: Collection[str]) -> bool:
    """Tell whether the events of a stream with these tags are records.

    Raises:
        UnsupportedError: they are records of another version than ours.
    """
    found = sorted(tag for tag in tags if tag.startswith(_RECORDS_PREFIX))
    if found and found != [RECORDS_TAG]:
        raise UnsupportedError(
            f"stream {stream} has the tag {found[-1]!r}: "
            "its events are records of a version that this client does not know; use a newer one"
        )
    return bool(found)


def check_reserved(stream: str, present: Collection[str], wanted: Collection[str]) -> None:
    """Raise InvalidArgumentError if an update would add or remove a reserved tag of a stream."""
    has, gets = reserved_tags(present), reserved_tags(wanted)
    if has != gets:
        change = "removed from" if has - gets else "added to"
        tag = min(has ^ gets)
        raise InvalidArgumentError(
            f"tag {tag!r} cannot be {change} {stream}: whether a stream has records is decided when it is "
            "created, and nothing was changed"
        )

"""What is known about a key: its version, and the key or the entry with it. Pure.

Source: protocol, "Key-value tables".
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple, Self

from headrace.client.tables.key_layout import Key
from headrace.errors import InvalidArgumentError
from headrace.limits import INT64_MAX, INT64_MIN

NO_SEGMENT: Final = INT64_MIN
"""The segment of a version that fits in any."""

_TEXT: Final = re.compile(r"(-?[0-9]{1,19}):([0-9]{1,19})\Z")


class TableVersion(NamedTuple):
    """What a key has from one change to its next; never the same again. Its text is ``segment:version``, as
    in the Java client.
    """

    segment_id: int
    key_version: int

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Parse what ``str`` has made. Raises InvalidArgumentError."""
        found = _TEXT.match(text)
        if found is not None:
            segment_id, key_version = map(int, found.groups())
            if INT64_MIN <= segment_id <= INT64_MAX and key_version <= INT64_MAX:
                return cls(segment_id, key_version)
        raise InvalidArgumentError(f"{text!r} is no version of a key: it has the form SEGMENT:VERSION")

    def __str__(self) -> str:
        return f"{self.segment_id}:{self.key_version}"


class VersionedKey(NamedTuple):
    """A key with its version."""

    key: Key
    version: TableVersion


class VersionedEntry(NamedTuple):
    """A key with its value and version."""

    key: Key
    value: bytes
    version: TableVersion


def check_version(given: Any) -> TableVersion:
    """Return what a caller gave as a version. Raises InvalidArgumentError if it is something else."""
    if isinstance(given, TableVersion):
        return given
    raise InvalidArgumentError(
        f"a version is what a put returned, not {type(given).__name__}; TableVersion.from_text reads its text"
    )

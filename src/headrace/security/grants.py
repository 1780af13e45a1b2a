"""What a user may do: patterns of resources with a permission, of which the first that matches decides. Pure.

``prn::/scope:sales/stream:orders,READ``; a ``*`` stands for any characters, ``/`` included. Source: the users
file of the protocol's servers (``docs/formats/users-file.md``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from headrace.errors import InvalidArgumentError
from headrace.security.permission import Permission

GRANTS_MAX: Final = 1000
"""Of one user."""

_PATTERN_CHARS_MAX: Final = 1024
_PATTERN: Final = re.compile(r"prn::[!-+\--:<-~]+")
"""Printable ASCII without ``,`` and ``;``, which separate grants."""

_ANYTHING_OLD: Final = "*"
"""How files from before resources had names say ``prn::*``."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission for every resource that ``pattern`` matches."""

    pattern: str
    permission: Permission

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take ``PATTERN,PERMISSION`` apart.

        Raises:
            InvalidArgumentError: it has not this form. What it has instead is not shown: in a damaged users
                file that may be a secret.
        """
        pattern, _, name = (part.strip() for part in text.partition(","))
        if pattern == _ANYTHING_OLD:
            pattern = "prn::*"
        if len(pattern) > _PATTERN_CHARS_MAX or not _PATTERN.fullmatch(pattern):
            raise InvalidArgumentError(
                "a grant is PATTERN,PERMISSION, as in 'prn::/scope:sales/stream:*,READ', in printable ASCII"
            )
        if name not in Permission.__members__:
            raise InvalidArgumentError("the permission of a grant is READ, READ_UPDATE or NONE")
        return cls(pattern, Permission[name])

    def __str__(self) -> str:
        return f"{self.pattern},{self.permission.name}"

    def matches(self, resource: str) -> bool:
        """Tell whether the grant is about ``resource``."""
        pieces = self.pattern.split("*")
        if len(pieces) == 1:
            return resource == self.pattern
        first, *inner, last = pieces
        if not resource.startswith(first):
            return False
        at = len(first)
        for piece in inner:  # the leftmost place of each leaves the most for those behind it
            found = resource.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return len(resource) - len(last) >= at and resource.endswith(last)


def parse_grants(text: str) -> tuple[Grant, ...]:
    """Take grants apart that ``;`` separates; behind the last one it may stand, too.

    Raises:
        InvalidArgumentError: naming the place of the wrong one, or there are more than ``GRANTS_MAX``.
    """
    texts = text.split(";")
    if not texts[-1].strip():
        texts.pop()
    if len(texts) > GRANTS_MAX:
        raise InvalidArgumentError(f"{len(texts)} grants are more than a user may have, {GRANTS_MAX}")
    found = []
    for number, each in enumerate(texts, start=1):
        try:
            found.append(Grant.parse(each))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"grant {number}: {error}") from None
    return tuple(found)


def permission_of(grants: Iterable[Grant], resource: str) -> Permission:
    """Return what the first matching grant allows; NONE if there is none."""
    return next((grant.permission for grant in grants if grant.matches(resource)), Permission.NONE)

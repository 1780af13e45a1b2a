"""The text of a users file: parsed, changed and rendered, with comments and order as they were. Pure.

Format: ``docs/formats/users-file.md``. No error shows more of a line than its number and the user's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

from headrace.errors import InvalidArgumentError
from headrace.limits import MIB
from headrace.security.grants import GRANTS_MAX, Grant, parse_grants
from headrace.security.passwords import Digest

FILE_BYTES_MAX: Final = 1 * MIB
USERS_MAX: Final = 10_000

_NAME_CHARS_MAX: Final = 255
_SHOWN_NAME_CHARS_MAX: Final = 64
"""A longer first field of a damaged line may be a digest: no digest is shorter than this."""


@dataclass(frozen=True, slots=True)
class User:
    """A user with what proves and allows."""

    name: str
    digest: Digest = field(repr=False)
    grants: tuple[Grant, ...] = ()

    def __post_init__(self) -> None:
        check_name(self.name)
        if len(self.grants) > GRANTS_MAX:
            raise InvalidArgumentError(
                f"{len(self.grants)} grants are more than a user may have, {GRANTS_MAX}"
            )


@dataclass(frozen=True, slots=True)
class _Line:
    """As it was written; without a user it is a comment, or empty."""

    text: str = field(repr=False)
    user: User | None = None


class Users:
    """The lines of a users file. Immutable."""

    __slots__ = ("_by_name", "_lines")

    def __init__(self, lines: tuple[_Line, ...] = ()) -> None:
        self._lines = lines
        self._by_name = MappingProxyType({line.user.name: line.user for line in lines if line.user})

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Take a file apart.

        Raises:
            InvalidArgumentError: naming the line that is wrong, and its user if there is one.
        """
        if len(data) > FILE_BYTES_MAX:
            raise InvalidArgumentError(f"it has more than {FILE_BYTES_MAX} bytes, too many for a users file")
        lines: list[_Line] = []
        numbers: dict[str, int] = {}
        raw_lines = data.split(b"\n")
        if not raw_lines[-1]:
            raw_lines.pop()
        for number, raw in enumerate(raw_lines, start=1):
            lines.append(_parse_line(number, raw))
            user = lines[-1].user
            if user is None:
                continue
            if user.name in numbers:
                raise _problem(number, user.name, f"the user is in line {numbers[user.name]} already")
            numbers[user.name] = number
            if len(numbers) > USERS_MAX:
                raise _problem(number, "", f"there are more than {USERS_MAX} users")
        return cls(tuple(lines))

    @property
    def by_name(self) -> Mapping[str, User]:
        """In the order of the file."""
        return self._by_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self._by_name)} users)"

    def render(self) -> bytes:
        """Return the file, at most ``FILE_BYTES_MAX``. Its lines hold secrets.

        Raises:
            InvalidArgumentError: there are more users, or more bytes, than a file may have.
        """
        if len(self._by_name) > USERS_MAX:
            raise InvalidArgumentError(f"a users file has at most {USERS_MAX} users")
        data = "".join(f"{line.text}\n" for line in self._lines).encode()
        if len(data) > FILE_BYTES_MAX:
            raise InvalidArgumentError(f"a users file has at most {FILE_BYTES_MAX} bytes")
        return data

    def with_user(self, user: User) -> Users:
        """Return these users with ``user``: in the place of the one of that name, else behind all others."""
        new = _Line(_render(user), user)
        if user.name not in self._by_name:
            return Users((*self._lines, new))
        return Users(tuple(new if _is_named(line, user.name) else line for line in self._lines))

    def without(self, name: str) -> Users:
        """Return these users without ``name``, if it is there."""
        return Users(tuple(line for line in self._lines if not _is_named(line, name)))

    def __iter__(self) -> Iterator[User]:
        return iter(self._by_name.values())


def check_name(name: str) -> None:
    """Raises InvalidArgumentError if no user can have this name; the text does not show it."""
    if not 1 <= len(name) <= _NAME_CHARS_MAX:
        raise InvalidArgumentError(f"the name of a user has 1 to {_NAME_CHARS_MAX} characters")
    if not name.isprintable() or ":" in name or name != name.strip() or name.startswith("#"):
        raise InvalidArgumentError(
            "the name of a user is printable, without ':', a '#' or spaces in front, and spaces behind"
        )


def _parse_line(number: int, raw: bytes) -> _Line:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise _problem(number, "", "it is not UTF-8") from None
    if not text.strip() or text.lstrip().startswith("#"):
        return _Line(text)
    name, *others = text.removesuffix("\r").split(":", 2)
    try:
        check_name(name)
    except InvalidArgumentError as error:
        raise _problem(number, "", str(error)) from None
    if not others:
        raise _problem(number, "", "it is not NAME:DIGEST:GRANTS")
    try:
        return _Line(text, User(name, Digest.parse(others[0]), parse_grants("".join(others[1:]))))
    except InvalidArgumentError as error:
        raise _problem(number, name, str(error)) from None


def _problem(number: int, name: str, what: str) -> InvalidArgumentError:
    shown = f", user {name!r}" if 0 < len(name) <= _SHOWN_NAME_CHARS_MAX else ""
    return InvalidArgumentError(f"line {number}{shown}: {what}")


def _render(user: User) -> str:
    grants = ";".join(map(str, user.grants))
    return f"{user.name}:{user.digest.secret_text()}:{grants}"


def _is_named(line: _Line, name: str) -> bool:
    return line.user is not None and line.user.name == name

"""Digests of passwords, as the users file holds them. Pure: the salt of a new one is the caller's.

The iterations are what a guess costs. Their number is in the digest, so that old ones are checked as they
were made. Format: ``docs/formats/users-file.md``.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field
from typing import Final, Self

from headrace.errors import InvalidArgumentError

ITERATIONS: Final = 210_000
"""Of new digests: about 100 ms of one core."""

SALT_BYTES: Final = 32
"""Of new digests."""

PASSWORD_BYTES_MAX: Final = 1024

_HASH_BYTES: Final = 64
"""Of new digests. The protocol's servers check no other length."""

_ITERATIONS_MAX: Final = 10_000_000
_FORM: Final = re.compile(
    r"([1-9][0-9]{0,7}):((?:[0-9a-f]{2}){8,64}):((?:[0-9a-f]{2}){20,64})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Digest:
    """What a password is checked with. Its text is a secret, which is why no ``repr`` shows it."""

    iterations: int
    salt: bytes = field(repr=False)
    hash: bytes = field(repr=False)

    @classmethod
    def of(cls, password: str, salt: bytes, iterations: int = ITERATIONS) -> Self:
        """Make the digest of a new password; costs as much as a check.

        Raises:
            InvalidArgumentError: the password is empty, too long or not text that can be typed.
        """
        check_new(password)
        return cls(iterations, salt, _derive(password.encode(), salt, iterations, _HASH_BYTES))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Take a digest of a users file apart. Raises InvalidArgumentError, which does not show it."""
        try:
            inner = bytes.fromhex(text).decode("ascii") if text.isalnum() else ""
        except ValueError:
            inner = ""
        found = _FORM.fullmatch(inner)
        if found is None or int(found[1]) > _ITERATIONS_MAX:
            raise InvalidArgumentError("the digest of the password is damaged, or none")
        return cls(int(found[1]), bytes.fromhex(found[2]), bytes.fromhex(found[3]))

    def matches(self, password: str) -> bool:
        """Tell whether ``password`` is the one; takes as long for a wrong one."""
        try:
            typed = password.encode()
        except UnicodeEncodeError:
            typed = b""
        same = hmac.compare_digest(self.hash, _derive(typed, self.salt, self.iterations, len(self.hash)))
        return same and bool(typed)

    def secret_text(self) -> str:
        """Return the digest as a users file holds it."""
        return f"{self.iterations}:{self.salt.hex()}:{self.hash.hex()}".encode("ascii").hex()


def check_new(password: str) -> None:
    """Raises InvalidArgumentError if ``password`` cannot be a user's; the text does not show it."""
    if not password:
        raise InvalidArgumentError("the password is empty")
    try:
        size = len(password.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError("the password is not UTF-8") from None
    if size > PASSWORD_BYTES_MAX:
        raise InvalidArgumentError(f"the password has more than {PASSWORD_BYTES_MAX} bytes")
    if any(char < " " or char == "\x7f" for char in password):
        raise InvalidArgumentError("the password has control characters, for instance a line's end")


def _derive(password: bytes, salt: bytes, iterations: int, size: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password, salt, iterations, size)

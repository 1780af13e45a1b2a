"""Users files for tests, with passwords that are checked quickly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from headrace.security.grants import Grant
from headrace.security.passwords import SALT_BYTES, Digest
from headrace.security.users_file import User, Users

_ITERATIONS: Final = 1000
"""A guess is cheap, and so is a test."""


def write_users_file(path: Path, users: Mapping[str, Sequence[str]]) -> None:
    """Write a file with ``users``: by name the password, then grants, as ``prn::*,READ_UPDATE``."""
    found = Users()
    for number, (name, (password, *grants)) in enumerate(users.items()):
        digest = Digest.of(password, number.to_bytes(SALT_BYTES, "big"), _ITERATIONS)
        found = found.with_user(User(name, digest, tuple(map(Grant.parse, grants))))
    path.write_bytes(found.render())
    path.chmod(0o600)

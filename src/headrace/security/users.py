"""The users of a file, for a running server: reads the file again when it changed.

New content that is damaged changes nothing but the log: an editor that has written half a file must neither
lock the users out nor let anybody in.
"""

from __future__ import annotations

import hashlib
import threading
from base64 import b64decode
from typing import Final

from headrace.errors import InvalidArgumentError, UnauthenticatedError
from headrace.runtime.entropy import Entropy
from headrace.runtime.logs import logger
from headrace.security.grants import permission_of
from headrace.security.passwords import ITERATIONS, SALT_BYTES, Digest
from headrace.security.permission import Permission
from headrace.security.users_file import Users
from headrace.security.users_on_disk import OTHERS, read_users, version_of

WRONG: Final = "wrong user name or password"

_log = logger(__name__)


class UsersFile:
    """An ``AuthHandler`` of ``Basic`` credentials: base64 of ``user:password`` in UTF-8. Safe in threads."""

    method = "Basic"

    def __init__(self, path: str, entropy: Entropy) -> None:
        """Read the file.

        Raises:
            InvalidArgumentError: it cannot be read, or is no users file; names path and line.
        """
        self._path = path
        self._key = entropy.token(32)
        self._lock = threading.Lock()
        """Of reading the file again."""
        self._revision = 1
        self._problem = ""
        try:
            self._users, self._version, mode = read_users(path)
        except OSError as error:
            raise InvalidArgumentError(f"the users file cannot be read: {error}") from None
        if mode & OTHERS:
            _log.warning(
                "others than the owner can read or change the users file", path=path, mode=f"{mode:04o}"
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r}, {len(self._users.by_name)} users)"

    def authenticate(self, token: str) -> str:
        """See ``AuthHandler.authenticate``. Costs the check of a password, for an unknown user as well."""
        name, password = _parse(token)
        self._refresh()
        users = self._users
        user = users.by_name.get(name)
        digest = self._stand_in(users, name) if user is None else user.digest
        if not digest.matches(password) or user is None:
            raise UnauthenticatedError(WRONG)
        return name

    def permission(self, user: str, resource: str) -> Permission:
        """See ``AuthHandler.permission``; NONE for a user that was removed meanwhile."""
        known = self._users.by_name.get(user)
        return Permission.NONE if known is None else permission_of(known.grants, resource)

    def revision(self) -> object:
        """See ``AuthHandler.revision``. Looks at the file, and reads it if it changed."""
        self._refresh()
        return self._revision

    def _refresh(self) -> None:
        with self._lock:
            try:
                version = version_of(self._path)
                if version != self._version:
                    self._read_again()
                    self._version = version  # that of before: what changed meanwhile is read at the next look
            except OSError as error:
                self._note_problem(str(error))  # the same version may be readable at the next look

    def _read_again(self) -> None:
        try:
            users, _, _ = read_users(self._path)
        except InvalidArgumentError as error:
            self._note_problem(str(error))
            return
        self._users = users
        self._revision += 1
        self._problem = ""
        _log.info("the users file was read again", path=self._path, users=len(users.by_name))

    def _note_problem(self, problem: str) -> None:
        if problem != self._problem:
            self._problem = problem
            _log.error("the users file cannot be used; the users of before remain", problem=problem)

    def _stand_in(self, users: Users, name: str) -> Digest:
        """Return the digest to check for an unknown user: the same each time, and as costly as others are.

        The time of an answer then does not say which names are known.
        """
        known = list(users)
        if not known:
            return Digest(ITERATIONS, bytes(SALT_BYTES), bytes(64))
        place = hashlib.blake2b(name.encode(), key=self._key, digest_size=8).digest()
        return known[int.from_bytes(place) % len(known)].digest


def _parse(token: str) -> tuple[str, str]:
    try:
        text = b64decode(token, validate=True).decode()
    except ValueError:
        text = ""
    name, colon, password = text.partition(":")
    if not colon:
        raise UnauthenticatedError("the credentials are no base64 of user:password in UTF-8")
    return name, password

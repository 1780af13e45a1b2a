"""What proves to a controller who the user is, and where it comes from. Pure but for the environment."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from headrace.errors import InvalidArgumentError
from headrace.runtime.client_variables import PASSWORD_VARIABLE, USER_VARIABLE

_BASIC: Final = "Basic"
_METHOD: Final = re.compile(r"[!-~]+\Z")
_TOKEN: Final = re.compile(r"[ -~]*\Z")

NO_CREDENTIALS: Final = (
    f"set {USER_VARIABLE} and {PASSWORD_VARIABLE}, ClientConfig.credentials, or Spark's options user and"
    " password"
)
"""What helps who has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What is sent as ``authorization`` with every control call; :meth:`basic` makes those of a user.

    ``method`` is ``Basic``, ``Bearer`` or one of the server's own; ``token`` is never printed.

    Raises:
        InvalidArgumentError: characters that no header carries.
    """

    method: str
    token: str = field(repr=False)

    def __post_init__(self) -> None:
        if not _METHOD.match(self.method) or not _TOKEN.match(self.token):
            raise InvalidArgumentError("credentials hold characters that are not printable ASCII")

    @property
    def header(self) -> str:
        """The value of ``authorization``: a secret."""
        return f"{self.method} {self.token}"

    @classmethod
    def basic(cls, user: str, password: str) -> Credentials:
        """Return the credentials of a user with a password.

        Raises:
            InvalidArgumentError: the name is empty or has a colon, which ends it.
        """
        if not user or ":" in user:
            raise InvalidArgumentError("the name of a user is not empty and has no colon")
        pair = f"{user}:{password}".encode("utf-8", "surrogateescape")
        return cls(method=_BASIC, token=base64.b64encode(pair).decode("ascii"))

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Credentials | None:
        """Read ``HEADRACE_USER`` and ``HEADRACE_PASSWORD``; without them what other clients of the protocol
        read: ``pravega_client_auth_method`` with ``_token``, or with ``_username`` and ``_password``. None if
        nothing is set.

        Raises:
            InvalidArgumentError: only one of a pair is set.
        """
        source = os.environ if environment is None else environment
        found = _pair(source, USER_VARIABLE, PASSWORD_VARIABLE)
        if found is not None:
            return cls.basic(*found)
        method = source.get("pravega_client_auth_method")
        token = source.get("pravega_client_auth_token")
        if method and token:
            return cls(method=method, token=token)
        if method and method != _BASIC:
            return None
        found = _pair(source, "pravega_client_auth_username", "pravega_client_auth_password")
        return None if found is None else cls.basic(*found)


def _pair(source: Mapping[str, str], first: str, second: str) -> tuple[str, str] | None:
    """Return the values of two variables that belong together, None if neither is set."""
    values = source.get(first, ""), source.get(second, "")
    if not any(values):
        return None
    if not all(values):
        given, missing = (first, second) if values[0] else (second, first)
        raise InvalidArgumentError(f"{given} is set and {missing} is not: they belong to each other")
    return values

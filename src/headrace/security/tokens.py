"""Delegation tokens: what the controller signs and the segment store takes instead of credentials. Pure.

A token is a JSON web token, signed with HS512. Besides the usual claims it has one per resource: its
name is the resource, its value the permission. Page: ``docs/formats/wire.md``; source: protocol,
"Delegation tokens".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from headrace.errors import InvalidArgumentError, InvalidNameError, PermissionDeniedError
from headrace.limits import NAME_CHARS_MAX
from headrace.model.names import TABLE_SUFFIX
from headrace.security.permission import Permission

EVERYTHING: Final = "*"
"""The resource in a server's own token."""

TOKEN_CHARS_MAX: Final = 16 * 1024
KEY_BYTES_MIN: Final = 32

_ALGORITHM: Final = "HS512"
_SUBJECT: Final = "segmentstoreresource"
_AUDIENCE: Final = "segmentstore"
_PERMISSIONS: Final = {each.name: each for each in (Permission.READ, Permission.READ_UPDATE)}
_TABLE: Final = "key-value-table:"
_NAME: Final = re.compile(r"[A-Za-z0-9._\-]+\Z")
"""More than streams may be called: some clients make tables of any name without a controller."""


@dataclass(frozen=True, slots=True, repr=False)
class TokenKey:
    """The key that signs tokens; its ``repr`` hides it."""

    secret: bytes

    def __post_init__(self) -> None:
        import jwt  # noqa: F401 - 50 ms, at the start of who has a key, and not at the first request

        if len(self.secret) < KEY_BYTES_MIN:
            raise InvalidArgumentError(
                f"a key for tokens of {len(self.secret)} bytes is too short: at least {KEY_BYTES_MIN}"
            )

    def __repr__(self) -> str:
        return "TokenKey(...)"


@dataclass(frozen=True, slots=True)
class Claim:
    """A permission for one segment, or for all whose names begin alike."""

    segment: str | None
    prefix: str
    permission: Permission

    @classmethod
    def parse(cls, resource: str, permission: Permission) -> Self:
        if resource == EVERYTHING:
            return cls(None, "", permission)
        name = _without_markers(resource)
        return cls(None, name, permission) if name.endswith("/") else cls(name, f"{name}/", permission)


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a token allows, and until when."""

    claims: tuple[Claim, ...]
    expires_s: float | None
    """Seconds since the Unix epoch; None: never."""

    def allows(self, segment: str, permission: Permission) -> bool:
        for claim in self.claims:  # done for every read: any() takes twice as long
            if (
                segment.startswith(claim.prefix) or segment == claim.segment
            ) and claim.permission >= permission:
                return True
        return False


def stream_claim(scope: str, stream: str) -> str:
    """Return the claim about a stream. Internal streams are named as they are, unlike in grants.

    Raises:
        InvalidArgumentError: a name is illegal. Its claim might allow what was not asked for.
    """
    _check_name(scope, "scope")
    _check_name(stream.removesuffix(TABLE_SUFFIX), "stream")
    return f"prn::/scope:{scope}/stream:{stream}"


def table_claim(scope: str, table: str) -> str:
    """Return the claim about a key-value table, whose segments are those of the stream ``<table>_kvtable``.

    Raises:
        InvalidArgumentError: a name is illegal.
    """
    _check_name(scope, "scope")
    _check_name(table, "key-value table")
    return f"prn::/scope:{scope}/{_TABLE}{table}"


def _check_name(name: str, what: str) -> None:
    if not _NAME.match(name) or len(name) > NAME_CHARS_MAX:
        raise InvalidNameError(
            f"there is no token for a {what} named {name[:NAME_CHARS_MAX]!r}:"
            f" 1 to {NAME_CHARS_MAX} letters, digits, '.', '-' or '_'"
        )


def issue(key: TokenKey, claims: Mapping[str, Permission], now_s: int, lifetime_s: int | None) -> str:
    """Return a token about the resources that ``claims`` names.

    Some clients decode the payload with the common base64 alphabet. It then has neither ``-`` nor ``_``,
    since these stand for bytes that end in ``>``, ``?``, ``~`` or are no ASCII, and no name has any of them.

    Args:
        key: signs it.
        claims: permissions by resources, see :func:`stream_claim`.
        now_s: seconds since the Unix epoch.
        lifetime_s: None: the token never expires, as those of servers.
    """
    import jwt

    payload: dict[str, Any] = {"sub": _SUBJECT, "aud": _AUDIENCE, "iat": now_s}
    if lifetime_s is not None:
        payload["exp"] = now_s + lifetime_s
    payload |= {name: permission.name for name, permission in claims.items()}
    return jwt.encode(payload, key.secret, algorithm=_ALGORITHM)


def read(key: TokenKey, token: str) -> Allowance:
    """Return what a token allows. Whether it has expired is up to the caller.

    Raises:
        PermissionDeniedError: it was not signed with this key, or not for segment stores. Its text has
            nothing of the token.
    """
    import jwt

    if not token:
        raise PermissionDeniedError("a delegation token is required")
    if len(token) > TOKEN_CHARS_MAX:
        raise PermissionDeniedError(f"the delegation token is longer than {TOKEN_CHARS_MAX} characters")
    try:
        payload = jwt.decode(
            token,
            key.secret,
            algorithms=[_ALGORITHM],
            audience=_AUDIENCE,
            options={
                "require": ["sub", "aud"],
                "verify_exp": False,  # these three by the machine's clock, and clocks differ
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        raise PermissionDeniedError("the delegation token is invalid") from None
    if payload["sub"] != _SUBJECT:
        raise PermissionDeniedError("the delegation token is not for segment stores")
    claims = (
        Claim.parse(name, _PERMISSIONS[value])
        for name, value in payload.items()
        if isinstance(value, str) and value in _PERMISSIONS
    )
    return Allowance(tuple(claims), _expiry(payload.get("exp")))


def _expiry(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PermissionDeniedError("the expiry of the delegation token is no number")
    return value


def _without_markers(resource: str) -> str:
    """``prn::/scope:s/stream:t`` -> ``s/t``, ``prn::/scope:s/key-value-table:t`` -> ``s/t_kvtable``."""
    name = resource.replace("prn::", "").replace("/scope:", "").replace("stream:", "")
    before, marker, table = name.partition(_TABLE)
    return f"{before}{table}{TABLE_SUFFIX}" if marker else name

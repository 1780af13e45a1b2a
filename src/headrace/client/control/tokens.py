"""Delegation tokens, which a segment store takes instead of credentials, fetched and renewed here.

Without credentials the client uses no tokens and makes no call for them. A token is a signed JWT; only its
expiry is read here, the store checks the rest.
"""

from __future__ import annotations

import base64
import binascii
import json
from enum import IntEnum
from typing import Final

from headrace.client.control.controller import Controller
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.clock import Clock

_RENEW_BEFORE_MS: Final = 5_000
_TOKENS_MAX: Final = 4096


class Access(IntEnum):
    """What a token is for. Numbers are those of the control protocol."""

    READ = 3
    WRITE = 4
    READ_WRITE = 5


def expiry_ms(token: str) -> int | None:
    """Return when a token expires in epoch milliseconds, or None: never, or unknown."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    middle = parts[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return int(claims["exp"]) * 1000
    except (binascii.Error, ValueError, KeyError, TypeError):
        return None


class Tokens:
    """Tokens of one client by stream and access. Used on one loop."""

    def __init__(self, controller: Controller, clock: Clock, *, enabled: bool) -> None:
        self._controller = controller
        self._clock = clock
        self._enabled = enabled
        self._known: dict[tuple[str, str, Access], tuple[str, int | None]] = {}

    async def token(self, scope: str, stream: str, access: Access) -> str:
        """Return a token that is valid for at least some seconds; empty if none is needed."""
        if not self._enabled:
            return ""
        key = (scope, stream, access)
        known = self._known.get(key)
        if known is not None and (known[1] is None or known[1] - self._clock.now_ms() > _RENEW_BEFORE_MS):
            return known[0]
        request = pb.StreamInfo(
            scope=scope, stream=stream, accessOperation=pb.StreamInfo.AccessOperation.ValueType(access)
        )
        reply = await self._controller.call("getDelegationToken", request)
        token: str = reply.delegationToken
        if len(self._known) >= _TOKENS_MAX:
            self._known.clear()
        self._known[key] = (token, expiry_ms(token))
        return token

    def forget(self, scope: str, stream: str) -> None:
        """A store refused a token as expired: fetch new ones for this stream."""
        for access in Access:
            self._known.pop((scope, stream, access), None)

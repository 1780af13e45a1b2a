"""Delegation tokens, which a segment store takes instead of credentials, fetched and renewed here.

Without credentials the client uses no tokens and makes no call for them. A token is a signed JWT; only its
expiry is read here, the store checks the rest. A clock that differs from the server's costs a fetch now and
then, never one for each request.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from headrace.client.control.controller import Controller
from headrace.client.credentials import NO_CREDENTIALS
from headrace.errors import AccessDeniedError, TokenExpiredError, UnauthenticatedError
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.clock import Clock

_RENEW_BEFORE_MS: Final = 5_000
_USED_AT_LEAST_MS: Final = 5_000
"""A token is used so long whatever it says about its expiry: this clock may be ahead of the controller's."""

_TOKENS_MAX: Final = 4096

TOKEN_EXPIRED: Final = 1
"""The error code of a segment store that has taken the token before."""


class Access(IntEnum):
    """What a token is for. Numbers are those of the control protocol."""

    READ = 3
    WRITE = 4
    READ_WRITE = 5


_Key = tuple[str, str, Access]


@dataclass(frozen=True, slots=True)
class _Known:
    """A fetched token; empty: the server wants none. Times in epoch milliseconds."""

    token: str = field(repr=False)
    expires_ms: int | None
    fetched_ms: int
    is_second: bool
    """Whether it took the place of one that was refused."""

    def is_good(self, now_ms: int) -> bool:
        if self.expires_ms is None or self.expires_ms - now_ms > _RENEW_BEFORE_MS:
            return True
        return 0 <= now_ms - self.fetched_ms < _USED_AT_LEAST_MS


def expiry_ms(token: str) -> int | None:
    """Return when a token expires in epoch milliseconds, or None: never, or unknown."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    middle = parts[1]
    try:
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return int(claims["exp"]) * 1000
    except (binascii.Error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


class Tokens:
    """Tokens of one client by stream and access. Used on one loop."""

    def __init__(self, controller: Controller, clock: Clock, *, enabled: bool) -> None:
        self._controller = controller
        self._clock = clock
        self._enabled = enabled
        self._known: dict[_Key, _Known] = {}
        self._fetching: dict[_Key, asyncio.Future[str]] = {}
        self._refused: set[_Key] = set()
        """Those whose last token was refused and not replaced yet."""

    async def token(self, scope: str, stream: str, access: Access) -> str:
        """Return a token that is valid for at least some seconds; empty if none is needed.

        Raises:
            AccessDeniedError: the credentials are wrong, or not for this.
        """
        if not self._enabled:
            return ""
        key = (scope, stream, access)
        while True:
            known = self._known.get(key)
            if known is not None and known.is_good(self._clock.now_ms()):
                return known.token
            fetching = self._fetching.get(key)
            if fetching is None:
                return await self._fetch(key)
            await asyncio.wait([fetching])
            if not fetching.cancelled():  # or who fetched it has given up, and the next one does
                return fetching.result()

    async def _fetch(self, key: _Key) -> str:
        scope, stream, access = key
        fetching = self._fetching[key] = asyncio.get_running_loop().create_future()
        request = pb.StreamInfo(
            scope=scope, stream=stream, accessOperation=pb.StreamInfo.AccessOperation.ValueType(access)
        )
        try:
            reply = await self._controller.call("getDelegationToken", request)
        except Exception as error:
            fetching.set_exception(error)
            fetching.exception()  # mark it as retrieved: perhaps no caller waits
            raise
        except BaseException:
            fetching.cancel()
            raise
        finally:
            del self._fetching[key]
        token: str = reply.delegationToken
        if len(self._known) + len(self._refused) >= _TOKENS_MAX:
            self._known.clear()
            self._refused.clear()
        self._known[key] = _Known(token, expiry_ms(token), self._clock.now_ms(), key in self._refused)
        self._refused.discard(key)
        fetching.set_result(token)
        return token

    def refusal(
        self, scope: str, stream: str, token: str, error_code: int, segment: str
    ) -> AccessDeniedError:
        """Forget ``token``, which a store has refused, and return what the refusal means.

        :class:`TokenExpiredError` is to be answered with a fresh token, anything else is final. A token that
        is invalid counts as expired if it is the first to be refused: the key that signs them was exchanged.
        """
        is_second = False
        for access in Access:
            key = (scope, stream, access)
            known = self._known.get(key)
            if known is not None and known.token == token:  # not one that was fetched since
                del self._known[key]
                is_second |= known.is_second
                if error_code != TOKEN_EXPIRED:
                    self._refused.add(key)
        if error_code == TOKEN_EXPIRED:
            return TokenExpiredError(
                f"{segment}: the token has expired; if it was just fetched, the clocks of controller and"
                " segment store differ"
            )
        if not self._enabled:
            return UnauthenticatedError(f"{segment}: the segment store wants a token: {NO_CREDENTIALS}")
        if not is_second:
            return TokenExpiredError(
                f"{segment}: the segment store refuses the token, and perhaps not another"
            )
        return AccessDeniedError(f"{segment}: the segment store refuses the token, and a fresh one too")

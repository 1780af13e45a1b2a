"""Calls to the segment store that owns a segment: finds it, finds it again after it moved, renews tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager

from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.control.tokens import Access
from headrace.client.reconnect_policy import (
    ReconnectPolicy,
    Reconnects,
    refusal_policy,
)
from headrace.client.segment_address import SegmentAddress
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    HeadraceError,
    InvalidArgumentError,
    LostReplyError,
    NoSuchSegmentError,
    OverloadError,
    OwnershipError,
    ProtocolError,
    RequestError,
    SegmentSealedError,
    SegmentTruncatedError,
    StorageReadRefusedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TokenExpiredError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
    WrongHostError,
)
from headrace.runtime import logs
from headrace.wire.commands import (
    AuthTokenCheckFailed,
    ErrorMessage,
    NoSuchSegment,
    OperationUnsupported,
    SegmentIsSealed,
    SegmentIsTruncated,
    TableKeyBadVersion,
    TableKeyDoesNotExist,
    WrongHost,
)
from headrace.wire.commands.errors import ILLEGAL_ARGUMENT
from headrace.wire.commands.kinds import Command

_log = logs.logger(__name__)


class OwnerCalls:
    """Requests about segments, repeated until they are answered or the policy gives up. Used on one loop."""

    def __init__(self, services: ClientServices, policy: ReconnectPolicy) -> None:
        self._services = services
        self._policy = policy

    @property
    def uri(self) -> str:
        """Of the controllers."""
        return self._services.uri

    def change(self, place: str) -> AbstractContextManager[None]:
        """The end of the client waits for what is changed in this block."""
        return self._services.open_writers.change(place)

    async def call(
        self,
        address: SegmentAddress,
        access: Access,
        make_request: Callable[[str], Command],
        replies: tuple[type[Command], ...],
        *,
        is_idempotent: bool = True,
    ) -> Command:
        """Send what ``make_request`` makes of a token to the owner, and return its answer.

        Args:
            address: of the segment.
            access: what the token is for.
            make_request: called for each attempt.
            replies: the answers that are good.
            is_idempotent: whether a request that was carried out is not refused when it is repeated.

        Raises:
            RequestError: the leaf that fits the refusal.
            LostReplyError: an attempt was not answered, and the next one refused, perhaps because of what the
                first has done.
            ConnectionLostError: the policy gave up; an attempt may have happened.
            UnreachableError: the policy gave up; nothing happened.
            StorageReadRefusedError: long-term storage refused what it needs, for some seconds; it may have
                happened.
            ClosedError: the client is closed; nothing happened.
        """
        services = self._services
        loop = asyncio.get_running_loop()
        reconnects, refusals = Reconnects(self._policy), Reconnects(refusal_policy(self._policy))
        doubt: UnknownOutcomeError | None = None
        while True:
            try:
                token = await services.tokens.token(address.scope, address.token_stream, access)
                endpoint = await services.segments.endpoint(address.scope, address.stream, address.segment_id)
                reply = await services.pool.call(endpoint, make_request(token), address=address)
                if isinstance(reply, replies):
                    return reply
                raise self._refusal(address, token, reply)
            except ClosedError as error:
                raise error if doubt is None else doubt from error
            except (OwnershipError, OverloadError, UnknownOutcomeError, TokenExpiredError) as error:
                if isinstance(error, UnknownOutcomeError):
                    doubt = error
                services.segments.forget_endpoint(address.scope, address.stream, address.segment_id)
                refused = isinstance(error, StorageReadRefusedError)
                failures = refusals if refused else reconnects
                delay = failures.on_failure(loop.time(), services.entropy.random())
                if delay is None:
                    if refused:
                        raise
                    gave_up = f"{address.name}: gave up: {error}"
                    if isinstance(error, TokenExpiredError) and doubt is None:
                        raise
                    raise (UnreachableError if doubt is None else ConnectionLostError)(gave_up) from error
                _log.info("a call is repeated", segment=address.name, delay_s=delay, error=error)
            except RequestError as error:
                if doubt is None or is_idempotent:
                    raise
                raise LostReplyError(
                    f"{address.name}: it is unknown whether it happened, read back: an attempt was not "
                    f"answered ({doubt}), and the next one was refused, perhaps because of the first: {error}"
                ) from error
            await asyncio.sleep(delay)

    def _refusal(self, address: SegmentAddress, token: str, reply: Command | ReadBlock) -> HeadraceError:
        """Return what an answer means that is none of the good ones."""
        name = address.name
        match reply:
            case NoSuchSegment():
                return NoSuchSegmentError(name)
            case SegmentIsSealed():
                return SegmentSealedError(name)
            case SegmentIsTruncated():
                return SegmentTruncatedError(name, reply.start_offset, reply.offset)
            case TableKeyDoesNotExist():
                return TableKeyMissingError(name)
            case TableKeyBadVersion():
                return TableKeyVersionError(name)
            case WrongHost():
                return WrongHostError(name)
            case AuthTokenCheckFailed():
                return self._services.tokens.refusal(
                    address.scope, address.token_stream, token, reply.error_code, name
                )
            case OperationUnsupported():
                return UnsupportedError(f"{name}: {reply.operation_name} is not offered")
            case ErrorMessage() if reply.error_code != ILLEGAL_ARGUMENT:
                return StorageReadRefusedError(f"{name}: {reply.message}")
            case ErrorMessage():
                return InvalidArgumentError(f"{name}: {reply.message}")
            case _:
                return ProtocolError(f"{name}: unexpected {reply}")

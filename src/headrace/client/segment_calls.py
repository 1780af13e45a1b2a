"""Single questions to the segment store that owns a segment: what is it like, where is an event boundary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from headrace.client.connections.reconnect_policy import ReconnectPolicy, Reconnects
from headrace.client.control.tokens import Access
from headrace.client.services import ClientServices, SegmentAddress
from headrace.errors import (
    ConnectionLostError,
    HeadraceError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OverloadError,
    OwnershipError,
    ProtocolError,
    SegmentSealedError,
    SegmentTruncatedError,
    TokenExpiredError,
    UnknownOutcomeError,
    UnreachableError,
    UnsupportedError,
    WrongHostError,
)
from headrace.wire.commands import (
    AuthTokenCheckFailed,
    ErrorMessage,
    GetStreamSegmentInfo,
    LocateOffset,
    NoSuchSegment,
    OffsetLocated,
    OperationUnsupported,
    SealSegment,
    SegmentIsSealed,
    SegmentIsTruncated,
    SegmentSealed,
    SegmentTruncated,
    StreamSegmentInfo,
    TruncateSegment,
    WrongHost,
)
from headrace.wire.commands.kinds import Command


@dataclass(frozen=True, slots=True)
class SegmentInfo:
    """What a segment is like. Offsets and lengths in bytes."""

    segment_id: int
    start_offset: int
    length: int
    sealed: bool
    last_modified_ms: int


class SegmentCalls:
    """Calls that find the owner, and find it again after it moved. Used on one loop."""

    def __init__(self, services: ClientServices, policy: ReconnectPolicy) -> None:
        self._services = services
        self._policy = policy

    async def info(self, address: SegmentAddress) -> SegmentInfo:
        """Return the properties of a segment. Raises NoSuchSegmentError."""
        reply = await self._call(
            address, Access.READ, lambda token: GetStreamSegmentInfo(0, address.name, token)
        )
        if not isinstance(reply, StreamSegmentInfo):
            raise ProtocolError(f"{address.name}: {reply} is no reply to a request about a segment")
        if not reply.exists:
            raise NoSuchSegmentError(address.name)
        return SegmentInfo(
            address.segment_id, reply.start_offset, reply.write_offset, reply.is_sealed, reply.last_modified
        )

    async def locate_offset(self, address: SegmentAddress, target_offset: int) -> int:
        """Return an event boundary at or after ``target_offset``; the segment's length if none is known."""
        try:
            reply = await self._call(
                address, Access.READ, lambda token: LocateOffset(0, address.name, target_offset, token)
            )
        except UnsupportedError:
            return (await self.info(address)).length
        if not isinstance(reply, OffsetLocated):
            raise ProtocolError(f"{address.name}: {reply} is no offset")
        return reply.offset

    async def truncate(self, address: SegmentAddress, offset: int) -> None:
        """Drop everything below ``offset`` of one segment. Truncate streams with a cut instead, if they
        scale.
        """
        await self._call(
            address, Access.READ_WRITE, lambda token: TruncateSegment(0, address.name, offset, token)
        )

    async def seal(self, address: SegmentAddress) -> None:
        """Allow no more appends to one segment; sealing a sealed one succeeds."""
        try:
            await self._call(address, Access.READ_WRITE, lambda token: SealSegment(0, address.name, token))
        except SegmentSealedError:
            return

    async def _call(
        self, address: SegmentAddress, access: Access, make_request: Callable[[str], Command]
    ) -> Command:
        """Ask the owner. Every request made here may be repeated safely."""
        services = self._services
        loop = asyncio.get_running_loop()
        reconnects = Reconnects(self._policy)
        in_doubt = False
        while True:
            try:
                token = await services.tokens.token(address.scope, address.stream, access)
                endpoint = await services.segments.endpoint(address.scope, address.stream, address.segment_id)
                return self._check(address, token, await services.pool.call(endpoint, make_request(token)))
            except (OwnershipError, OverloadError, UnknownOutcomeError, TokenExpiredError) as error:
                in_doubt |= isinstance(error, UnknownOutcomeError)
                services.segments.forget_endpoint(address.scope, address.stream, address.segment_id)
                delay = reconnects.on_failure(loop.time(), services.entropy.random())
                if delay is None:
                    gave_up = f"{address.name}: gave up: {error}"
                    if isinstance(error, TokenExpiredError) and not in_doubt:
                        raise
                    raise (ConnectionLostError if in_doubt else UnreachableError)(gave_up) from error
            await asyncio.sleep(delay)

    def _check(self, address: SegmentAddress, token: str, reply: Command) -> Command:
        """Return a good reply; raise what a bad one means."""
        name = address.name
        error: HeadraceError
        match reply:
            case StreamSegmentInfo() | OffsetLocated() | SegmentTruncated() | SegmentSealed():
                return reply
            case NoSuchSegment():
                error = NoSuchSegmentError(name)
            case SegmentIsSealed():
                error = SegmentSealedError(name)
            case SegmentIsTruncated():
                error = SegmentTruncatedError(name, reply.start_offset, reply.offset)
            case WrongHost():
                error = WrongHostError(name)
            case AuthTokenCheckFailed():
                error = self._services.tokens.refusal(
                    address.scope, address.stream, token, reply.error_code, name
                )
            case OperationUnsupported():
                error = UnsupportedError(f"{name}: {reply.operation_name} is not offered")
            case ErrorMessage():
                error = InvalidArgumentError(f"{name}: {reply.message}")
            case _:
                error = ProtocolError(f"{name}: unexpected {reply}")
        raise error

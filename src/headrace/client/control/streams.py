"""Scopes and streams: create, change, list, remove. Answers become booleans and typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headrace.client.control.controller import Controller
from headrace.client.iterators import Each, Items
from headrace.errors import (
    NoSuchScopeError,
    NoSuchStreamError,
    ScopeExistsError,
    StreamExistsError,
    StreamSealedError,
    UnsupportedError,
)
from headrace.model.key_space import KeyRange
from headrace.model.names import check_user_name
from headrace.model.policies import StreamConfiguration
from headrace.model.records import has_records
from headrace.model.stream_cut import StreamCut
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import truncation_pb2 as tr
from headrace.runtime.clock import Clock

_SCALE_POLL_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What a stream is and where it begins and ends. A sealed stream has an empty tail cut."""

    scope: str
    stream: str
    configuration: StreamConfiguration
    head: StreamCut
    tail: StreamCut
    sealed: bool


class Streams:
    """The calls about scopes and streams."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self._controller = controller
        self._clock = clock

    # ------------------------------------------------------------------------------ scopes

    async def create_scope(self, scope: str) -> bool:
        """Create a scope; False if it exists already."""
        check_user_name(scope, "scope")
        try:
            await self._controller.call("createScope", pb.ScopeInfo(scope=scope))
        except ScopeExistsError:
            return False
        return True

    async def delete_scope(self, scope: str, *, recursive: bool = False) -> bool:
        """Delete a scope; False if there is none.

        Raises:
            ScopeNotEmptyError: it holds streams and ``recursive`` is not set.
        """
        method = "deleteScopeRecursive" if recursive else "deleteScope"
        try:
            await self._controller.call(method, pb.ScopeInfo(scope=scope))
        except NoSuchScopeError:
            return False
        return True

    async def scope_exists(self, scope: str) -> bool:
        """Tell whether the scope exists."""
        reply = await self._controller.call("checkScopeExists", pb.ScopeInfo(scope=scope))
        return bool(reply.exists)

    def list_scopes(self) -> AsyncIterator[str]:
        """Iterate over every scope, page by page, ``_system`` included."""
        token = pb.ContinuationToken()

        async def next_page() -> Sequence[str] | None:
            nonlocal token
            reply = await self._controller.call("listScopes", pb.ScopesRequest(continuationToken=token))
            if not reply.scopes:
                return None
            token = reply.continuationToken
            return list(reply.scopes)

        return Items(Each(next_page))

    # ------------------------------------------------------------------------------ streams

    async def create_stream(
        self, scope: str, stream: str, configuration: StreamConfiguration | None = None
    ) -> bool:
        """Create a stream; False if it exists already (its configuration stays).

        Raises:
            NoSuchScopeError: the scope does not exist.
        """
        check_user_name(stream, "stream")
        message = convert.stream_config_to_message(scope, stream, configuration or StreamConfiguration())
        try:
            await self._controller.call("createStream", message)
        except StreamExistsError:
            return False
        return True

    async def update_stream(self, scope: str, stream: str, configuration: StreamConfiguration) -> None:
        """Replace the whole configuration of a stream.

        Raises:
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
        """
        message = convert.stream_config_to_message(scope, stream, configuration)
        await self._controller.call("updateStream", message)

    async def truncate_stream(self, cut: StreamCut) -> None:
        """Drop everything in front of ``cut``; without segments it is the end of a sealed stream.

        Raises:
            NoSuchStreamError: there is no such stream.
            UnsupportedError: it is sealed, and the controller is not one of ours.
            InvalidArgumentError: the cut is invalid, or lies in front of the head or beyond the tail.
            StreamBusyError: another truncation is active.
            ControllerFailureError: the controller is not one of ours, and refused for one of these reasons.
        """
        message = convert.stream_cut_to_message(cut.scope, cut.stream, cut.offsets)
        try:
            await self._controller.call("truncateStream", message)
        except StreamSealedError:
            await self._truncate_sealed(cut)

    async def _truncate_sealed(self, cut: StreamCut) -> None:
        """The compatible call truncates no sealed stream; ours does, which only controllers of ours have."""
        request = tr.TruncateAnyStreamRequest(
            streamInfo=convert.stream_info(cut.scope, cut.stream), cut=cut.offsets
        )
        try:
            await self._controller.call_truncation("truncateAnyStream", request)
        except UnsupportedError:
            raise UnsupportedError(
                f"stream {cut.scoped_stream} is sealed, and nothing was dropped: "
                "this controller truncates no sealed streams; delete the whole stream instead"
            ) from None

    async def seal_stream(self, scope: str, stream: str) -> None:
        """Allow no more writes to a stream; sealing a sealed one succeeds.

        Raises:
            NoSuchStreamError: there is no such stream.
        """
        await self._controller.call("sealStream", convert.stream_info(scope, stream))

    async def delete_stream(self, scope: str, stream: str) -> bool:
        """Remove a sealed stream with all its data; False if there is none.

        Raises:
            StreamNotSealedError: seal it first.
        """
        try:
            await self._controller.call("deleteStream", convert.stream_info(scope, stream))
        except NoSuchStreamError:
            return False
        return True

    async def stream_exists(self, scope: str, stream: str) -> bool:
        """Tell whether the stream exists, in whatever state."""
        reply = await self._controller.call("checkStreamExists", convert.stream_info(scope, stream))
        return bool(reply.exists)

    async def stream_configuration(self, scope: str, stream: str) -> StreamConfiguration:
        """Return the configuration of a stream. Raises NoSuchStreamError."""
        reply = await self._controller.call("getStreamConfiguration", convert.stream_info(scope, stream))
        return convert.stream_config_from_answer(reply)

    async def has_records(self, scope: str, stream: str) -> bool:
        """Tell whether the events of a stream are records, which never changes.

        Raises:
            NoSuchStreamError: there is no such stream.
            UnsupportedError: they are records of a version that this client does not know.
        """
        configuration = await self.stream_configuration(scope, stream)
        return has_records(f"{scope}/{stream}", configuration.tags)

    def list_streams(
        self, scope: str, *, tag: str | None = None, internal: bool = False
    ) -> AsyncIterator[str]:
        """Iterate over the streams of a scope, page by page.

        Args:
            scope: where to look.
            tag: only streams that carry it.
            internal: also those of the system itself; their names begin with an underscore.

        Raises:
            NoSuchScopeError: the scope does not exist.
        """
        info, token = pb.ScopeInfo(scope=scope), pb.ContinuationToken()

        async def next_page() -> Sequence[str] | None:
            nonlocal token
            if tag is None:
                request = pb.StreamsInScopeRequest(scope=info, continuationToken=token)
                reply = await self._controller.call("listStreamsInScope", request)
            else:
                tagged = pb.StreamsInScopeWithTagRequest(scope=info, tag=tag, continuationToken=token)
                reply = await self._controller.call("listStreamsInScopeForTag", tagged)
            if not reply.streams:
                return None
            token = reply.continuationToken
            names = [each.stream for each in reply.streams]
            return [name for name in names if internal or not name.startswith("_")]

        return Items(Each(next_page))

    async def scale_stream(
        self,
        scope: str,
        stream: str,
        sealed: Sequence[int],
        new_ranges: Iterable[KeyRange],
        *,
        wait: bool = True,
    ) -> list[tuple[int, KeyRange]]:
        """Seal segments and continue them with new ones that own the same keys.

        Returns:
            The new segments with their ranges; with ``wait`` after the scale is complete.

        Raises:
            PreconditionError: a segment is not active, or too few segments would be left.
            StreamSealedError: the stream is sealed.
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the ranges do not fit.
            StreamBusyError: another scale is pending.
            ControllerFailureError: the controller is not one of ours, and refused for one of the last four
                reasons.
        """
        request = pb.ScaleRequest(
            streamInfo=convert.stream_info(scope, stream),
            sealedSegments=sealed,
            newKeyRanges=[
                pb.ScaleRequest.KeyRangeEntry(start=each.low, end=each.high) for each in new_ranges
            ],
            scaleTimestamp=self._clock.now_ms(),
        )
        reply = await self._controller.call("scale", request)
        if wait:
            await self._wait_for_scale(scope, stream, reply.epoch)
        return [convert.segment_range_from_message(each) for each in reply.segments]

    async def _wait_for_scale(self, scope: str, stream: str, epoch: int) -> None:
        request = pb.ScaleStatusRequest(streamInfo=convert.stream_info(scope, stream), epoch=epoch)
        attempt = 0
        while True:
            reply = await self._controller.call("checkScale", request)
            if reply.status == pb.ScaleStatusResponse.SUCCESS:
                return
            await asyncio.sleep(_SCALE_POLL_S[min(attempt, len(_SCALE_POLL_S) - 1)])
            attempt += 1

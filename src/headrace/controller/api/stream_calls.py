"""The calls about streams as wholes. Source: protocol, "Streams: create, configuration, list"."""

from __future__ import annotations

from typing import Final

from headrace.controller.api.answers import answer, token_from_text, token_to_text
from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.stream_row import decode_stream
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.errors import (
    HeadraceError,
    InvalidArgumentError,
    NoSuchScopeError,
    NoSuchStreamError,
    StreamBusyError,
    StreamExistsError,
    StreamNotSealedError,
    StreamSealedError,
)
from headrace.model.names import check_internal_name
from headrace.rpc.convert import stream_config_from_message, stream_config_to_message, stream_info
from headrace.rpc.generated import controller_pb2 as pb

_Refusals = dict[type[HeadraceError], pb.UpdateStreamStatus.Status.ValueType]

_REFUSALS: Final[_Refusals] = {
    NoSuchStreamError: pb.UpdateStreamStatus.STREAM_NOT_FOUND,
    StreamSealedError: pb.UpdateStreamStatus.STREAM_SEALED,
}
_BUSY: Final[_Refusals] = {StreamBusyError: pb.UpdateStreamStatus.FAILURE}


class StreamCalls:
    def __init__(self, context: ControllerContext, streams: StreamRequests) -> None:
        self._context = context
        self._streams = streams

    async def create_stream(self, request: pb.StreamConfig) -> pb.CreateStreamStatus:
        info = request.streamInfo
        try:
            check_internal_name(info.stream, "stream")
        except InvalidArgumentError:
            return pb.CreateStreamStatus(status=pb.CreateStreamStatus.INVALID_STREAM_NAME)
        config = stream_config_from_message(request)
        status = await answer(
            self._streams.create(info.scope, info.stream, config),
            pb.CreateStreamStatus.SUCCESS,
            {
                StreamExistsError: pb.CreateStreamStatus.STREAM_EXISTS,
                NoSuchScopeError: pb.CreateStreamStatus.SCOPE_NOT_FOUND,
            },
        )
        return pb.CreateStreamStatus(status=status)

    async def get_stream_configuration(self, request: pb.StreamInfo) -> pb.StreamConfig:
        stream = await self._context.directory.get(request.scope, request.stream)
        return stream_config_to_message(request.scope, request.stream, stream.row.config)

    async def check_stream_exists(self, request: pb.StreamInfo) -> pb.ExistsResponse:
        stream = await self._context.directory.find(request.scope, request.stream)
        return pb.ExistsResponse(exists=stream is not None)

    async def update_stream(self, request: pb.StreamConfig) -> pb.UpdateStreamStatus:
        info = request.streamInfo
        config = stream_config_from_message(request)
        updating = self._streams.update(info.scope, info.stream, config)
        status = await answer(updating, pb.UpdateStreamStatus.SUCCESS, _REFUSALS | _BUSY)
        return pb.UpdateStreamStatus(status=status)

    async def truncate_stream(self, request: pb.StreamCut) -> pb.UpdateStreamStatus:
        info = request.streamInfo
        truncating = self._streams.truncate(info.scope, info.stream, dict(request.cut))
        refusals = _REFUSALS | _BUSY | {InvalidArgumentError: pb.UpdateStreamStatus.FAILURE}
        status = await answer(truncating, pb.UpdateStreamStatus.SUCCESS, refusals)
        return pb.UpdateStreamStatus(status=status)

    async def seal_stream(self, request: pb.StreamInfo) -> pb.UpdateStreamStatus:
        sealing = self._streams.seal(request.scope, request.stream)
        status = await answer(sealing, pb.UpdateStreamStatus.SUCCESS, _REFUSALS)
        return pb.UpdateStreamStatus(status=status)

    async def delete_stream(self, request: pb.StreamInfo) -> pb.DeleteStreamStatus:
        status = await answer(
            self._streams.delete(request.scope, request.stream),
            pb.DeleteStreamStatus.SUCCESS,
            {
                NoSuchStreamError: pb.DeleteStreamStatus.STREAM_NOT_FOUND,
                StreamNotSealedError: pb.DeleteStreamStatus.STREAM_NOT_SEALED,
            },
        )
        return pb.DeleteStreamStatus(status=status)

    async def list_streams_in_scope(self, request: pb.StreamsInScopeRequest) -> pb.StreamsInScopeResponse:
        return await self._list(request.scope.scope, request.continuationToken.token, None)

    async def list_streams_in_scope_for_tag(
        self, request: pb.StreamsInScopeWithTagRequest
    ) -> pb.StreamsInScopeResponse:
        return await self._list(request.scope.scope, request.continuationToken.token, request.tag)

    async def _list(self, scope: str, token_text: str, tag: str | None) -> pb.StreamsInScopeResponse:
        token = token_from_text(token_text)
        try:
            names, token = await self._page(scope, token, tag)
        except NoSuchScopeError:
            return pb.StreamsInScopeResponse(
                status=pb.StreamsInScopeResponse.SCOPE_NOT_FOUND,
                continuationToken=pb.ContinuationToken(token=token_to_text(token)),
            )
        return pb.StreamsInScopeResponse(
            streams=[stream_info(scope, name) for name in names],
            continuationToken=pb.ContinuationToken(token=token_to_text(token)),
        )

    async def _page(self, scope: str, token: bytes, tag: str | None) -> tuple[list[str], bytes]:
        """Return a page with at least one name, unless the listing is over."""
        page_rows_max = self._context.config.page_rows_max
        while True:
            rows, token = await self._context.directory.page(scope, token, page_rows_max)
            if tag is None:
                return [name for name, _ in rows], token
            # A row is taken apart only if the bytes of the tag are in it at all.
            sought = tag.encode("utf-8")
            names = [
                name
                for name, row in rows
                if sought in row.value and tag in decode_stream(row.value).config.tags
            ]
            if names or not rows:
                return names, token

"""The calls about streams as wholes. Source: protocol, "Streams: create, configuration, list"."""

from __future__ import annotations

from headrace.controller.api.answers import token_from_text, token_to_text
from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.stream_row import decode_stream
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.model.names import check_internal_name
from headrace.rpc.convert import stream_config_from_message, stream_config_to_message, stream_info
from headrace.rpc.generated import controller_pb2 as pb


class StreamCalls:
    def __init__(self, context: ControllerContext, streams: StreamRequests) -> None:
        self._context = context
        self._streams = streams

    async def create_stream(self, request: pb.StreamConfig) -> pb.CreateStreamStatus:
        info = request.streamInfo
        check_internal_name(info.stream, "stream")
        await self._streams.create(info.scope, info.stream, stream_config_from_message(request))
        return pb.CreateStreamStatus()

    async def get_stream_configuration(self, request: pb.StreamInfo) -> pb.StreamConfig:
        stream = await self._context.directory.get(request.scope, request.stream)
        return stream_config_to_message(request.scope, request.stream, stream.row.config)

    async def check_stream_exists(self, request: pb.StreamInfo) -> pb.ExistsResponse:
        stream = await self._context.directory.find(request.scope, request.stream)
        return pb.ExistsResponse(exists=stream is not None)

    async def update_stream(self, request: pb.StreamConfig) -> pb.UpdateStreamStatus:
        info = request.streamInfo
        await self._streams.update(info.scope, info.stream, stream_config_from_message(request))
        return pb.UpdateStreamStatus()

    async def truncate_stream(self, request: pb.StreamCut) -> pb.UpdateStreamStatus:
        info = request.streamInfo
        await self._streams.truncate(info.scope, info.stream, dict(request.cut))
        return pb.UpdateStreamStatus()

    async def seal_stream(self, request: pb.StreamInfo) -> pb.UpdateStreamStatus:
        await self._streams.seal(request.scope, request.stream)
        return pb.UpdateStreamStatus()

    async def delete_stream(self, request: pb.StreamInfo) -> pb.DeleteStreamStatus:
        await self._streams.delete(request.scope, request.stream)
        return pb.DeleteStreamStatus()

    async def list_streams_in_scope(self, request: pb.StreamsInScopeRequest) -> pb.StreamsInScopeResponse:
        return await self._list(request.scope.scope, request.continuationToken.token, None)

    async def list_streams_in_scope_for_tag(
        self, request: pb.StreamsInScopeWithTagRequest
    ) -> pb.StreamsInScopeResponse:
        return await self._list(request.scope.scope, request.continuationToken.token, request.tag)

    async def _list(self, scope: str, token_text: str, tag: str | None) -> pb.StreamsInScopeResponse:
        names, token = await self._page(scope, token_from_text(token_text), tag)
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

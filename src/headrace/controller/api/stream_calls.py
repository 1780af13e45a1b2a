"""The calls about streams as wholes. Source: protocol, "Streams: create, configuration, list"."""

from __future__ import annotations

from typing import Final

from headrace.controller.api.answers import answer, token_from_text, token_to_text
from headrace.controller.policies.scale_request import check_segment_count
from headrace.controller.store.rows.stream_row import decode_stream
from headrace.controller.streams.stream import Stream, sorted_cut
from headrace.controller.transactions.transactions import Transactions
from headrace.controller.workflows.context import WorkflowContext
from headrace.controller.workflows.create_stream import create_stream
from headrace.controller.workflows.delete_stream import delete_stream
from headrace.controller.workflows.seal_stream import seal_stream
from headrace.controller.workflows.truncate_stream import truncate_stream
from headrace.controller.workflows.update_stream import update_stream
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

_REFUSALS: Final[dict[type[HeadraceError], pb.UpdateStreamStatus.Status.ValueType]] = {
    NoSuchStreamError: pb.UpdateStreamStatus.STREAM_NOT_FOUND,
    StreamSealedError: pb.UpdateStreamStatus.STREAM_SEALED,
    StreamBusyError: pb.UpdateStreamStatus.FAILURE,
}


class StreamCalls:
    def __init__(self, context: WorkflowContext, transactions: Transactions) -> None:
        self._context = context
        self._transactions = transactions

    async def create_stream(self, request: pb.StreamConfig) -> pb.CreateStreamStatus:
        info = request.streamInfo
        try:
            check_internal_name(info.stream, "stream")
        except InvalidArgumentError:
            return pb.CreateStreamStatus(status=pb.CreateStreamStatus.INVALID_STREAM_NAME)
        config = stream_config_from_message(request)
        check_segment_count(config)
        status = await answer(
            create_stream(self._context, info.scope, info.stream, config),
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
        return pb.ExistsResponse(
            exists=await self._context.directory.find(request.scope, request.stream) is not None
        )

    async def update_stream(self, request: pb.StreamConfig) -> pb.UpdateStreamStatus:
        config = stream_config_from_message(request)
        check_segment_count(config)

        async def update() -> None:
            stream = await self._stream_to_change(request.streamInfo)
            if stream.row.updating is not None and stream.row.updating != config:
                raise StreamBusyError(f"another update of {stream.full_name} is under way")
            await self._context.engine.request(
                stream, "update", lambda: update_stream(self._context, stream, config)
            )

        return pb.UpdateStreamStatus(status=await answer(update(), pb.UpdateStreamStatus.SUCCESS, _REFUSALS))

    async def truncate_stream(self, request: pb.StreamCut) -> pb.UpdateStreamStatus:
        cut = dict(request.cut)

        async def truncate() -> None:
            stream = await self._stream_to_change(request.streamInfo)
            if stream.row.truncating is not None and stream.row.truncating != sorted_cut(cut):
                raise StreamBusyError(f"another truncation of {stream.full_name} is under way")
            await self._context.engine.request(
                stream, "truncate", lambda: truncate_stream(self._context, stream, cut)
            )

        refusals = {**_REFUSALS, InvalidArgumentError: pb.UpdateStreamStatus.FAILURE}
        return pb.UpdateStreamStatus(status=await answer(truncate(), pb.UpdateStreamStatus.SUCCESS, refusals))

    async def seal_stream(self, request: pb.StreamInfo) -> pb.UpdateStreamStatus:
        async def seal() -> None:
            stream = await self._stream_to_change(request)
            await self._context.engine.request(
                stream, "seal", lambda: seal_stream(self._context, self._transactions, stream)
            )

        status = await answer(
            seal(),
            pb.UpdateStreamStatus.SUCCESS,
            {NoSuchStreamError: pb.UpdateStreamStatus.STREAM_NOT_FOUND},
        )
        return pb.UpdateStreamStatus(status=status)

    async def delete_stream(self, request: pb.StreamInfo) -> pb.DeleteStreamStatus:
        async def delete() -> None:
            stream = await self._context.directory.get(request.scope, request.stream)
            await self._context.engine.request(stream, "delete", lambda: delete_stream(self._context, stream))

        status = await answer(
            delete(),
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

    async def _stream_to_change(self, info: pb.StreamInfo) -> Stream:
        stream = await self._context.directory.get(info.scope, info.stream)
        stream.check_readable()
        return stream

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

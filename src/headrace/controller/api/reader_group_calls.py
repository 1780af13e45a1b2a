"""The calls about reader groups and subscribers. Source: protocol, "Reader groups and subscribers"."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from headrace.controller.context import ControllerContext
from headrace.controller.store.rows.group_row import GroupConfig, GroupRow, StreamPosition
from headrace.controller.workflows.reader_groups import Group, ReaderGroups
from headrace.errors import InvalidArgumentError
from headrace.model.names import check_user_name
from headrace.model.stream_cut import COMPLETED
from headrace.rpc.convert import stream_cut_to_message
from headrace.rpc.generated import controller_pb2 as pb

_NO_ID: Final = bytes(16)
POSITIONS_MAX: Final = 10_000


class ReaderGroupCalls:
    def __init__(self, context: ControllerContext, groups: ReaderGroups) -> None:
        self._context = context
        self._groups = groups

    async def create_reader_group(self, request: pb.ReaderGroupConfiguration) -> pb.CreateReaderGroupResponse:
        check_user_name(request.readerGroupName, "reader group")
        group_id = parse_group_id(request.readerGroupId)
        if group_id == _NO_ID:
            group_id = self._context.entropy.uuid4_bytes()
        config = config_from_message(request)
        group = await self._groups.create(request.scope, request.readerGroupName, group_id, config)
        return pb.CreateReaderGroupResponse(config=config_to_message(group))

    async def get_reader_group_config(self, request: pb.ReaderGroupInfo) -> pb.ReaderGroupConfigResponse:
        group = await self._groups.get(request.scope, request.readerGroup)
        return pb.ReaderGroupConfigResponse(config=config_to_message(group))

    async def update_reader_group(self, request: pb.ReaderGroupConfiguration) -> pb.UpdateReaderGroupResponse:
        group_id, config = parse_group_id(request.readerGroupId), config_from_message(request)
        generation = await self._groups.update(
            request.scope, request.readerGroupName, group_id, request.generation, config
        )
        return pb.UpdateReaderGroupResponse(generation=generation)

    async def delete_reader_group(self, request: pb.ReaderGroupInfo) -> pb.DeleteReaderGroupStatus:
        group_id = parse_group_id(request.readerGroupId)
        await self._groups.delete(request.scope, request.readerGroup, group_id)
        return pb.DeleteReaderGroupStatus()

    async def list_subscribers(self, request: pb.StreamInfo) -> pb.SubscribersResponse:
        stream = await self._context.directory.get(request.scope, request.stream)
        return pb.SubscribersResponse(subscribers=await self._groups.subscribers.names(stream))

    async def update_subscriber_stream_cut(
        self, request: pb.SubscriberStreamCut
    ) -> pb.UpdateSubscriberStatus:
        info = request.streamCut.streamInfo
        group_id = parse_group_id(request.readerGroupId)
        stream = await self._context.directory.get(info.scope, info.stream)
        await self._groups.subscribers.report(
            stream, request.subscriber, group_id, request.generation, dict(request.streamCut.cut)
        )
        return pb.UpdateSubscriberStatus()


def parse_group_id(text: str) -> bytes:
    """Return the id; none given is all zero.

    Raises:
        InvalidArgumentError: it is no UUID.
    """
    if not text:
        return _NO_ID
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise InvalidArgumentError(f"{text!r} is no reader group id") from None


def config_from_message(message: pb.ReaderGroupConfiguration) -> GroupConfig:
    """Raises InvalidArgumentError for what no client could read back."""
    if not 0 <= message.retentionType <= 2:
        raise InvalidArgumentError(f"unknown retention type {message.retentionType}")
    if message.maxOutstandingCheckpointRequest < 1:
        raise InvalidArgumentError("at least one checkpoint must be allowed at a time")
    if not 1 <= len(message.startingStreamCuts) <= POSITIONS_MAX:
        raise InvalidArgumentError(f"a reader group reads 1 to {POSITIONS_MAX} streams")
    if len(message.endingStreamCuts) > POSITIONS_MAX:
        raise InvalidArgumentError(f"a reader group has at most {POSITIONS_MAX} ends")
    return GroupConfig(
        message.groupRefreshTimeMillis,
        message.automaticCheckpointIntervalMillis,
        message.maxOutstandingCheckpointRequest,
        message.retentionType,
        _positions_from_messages(message.startingStreamCuts),
        _positions_from_messages(message.endingStreamCuts),
    )


def config_to_message(group: Group) -> pb.ReaderGroupConfiguration:
    row: GroupRow = group.row
    config = row.config
    return pb.ReaderGroupConfiguration(
        scope=group.scope.name,
        readerGroupName=group.name,
        groupRefreshTimeMillis=config.refresh_ms,
        automaticCheckpointIntervalMillis=config.checkpoint_interval_ms,
        maxOutstandingCheckpointRequest=config.checkpoints_max,
        retentionType=config.retention_type,
        generation=row.generation,
        readerGroupId=str(uuid.UUID(bytes=row.group_id)),
        startingStreamCuts=_positions_to_messages(config.starts),
        endingStreamCuts=_positions_to_messages(config.ends),
    )


def _positions_from_messages(messages: Iterable[pb.StreamCut]) -> tuple[StreamPosition, ...]:
    positions = []
    for message in messages:
        cut = tuple(sorted(message.cut.items()))
        for segment_id, offset in cut:
            if segment_id < 0 or offset < COMPLETED:
                raise InvalidArgumentError(f"segment {segment_id} cannot be cut at {offset}")
        positions.append(StreamPosition(message.streamInfo.scope, message.streamInfo.stream, cut))
    return tuple(positions)


def _positions_to_messages(positions: Iterable[StreamPosition]) -> list[pb.StreamCut]:
    return [stream_cut_to_message(each.scope, each.stream, dict(each.cut)) for each in positions]

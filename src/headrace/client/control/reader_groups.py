"""Reader groups as the controller knows them: what they read, and how far retention may go.

Their readers are in a stream of their own that the controller makes, ``_RG`` and the name of the group.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from headrace.client.control.controller import Controller
from headrace.errors import NoSuchReaderGroupError
from headrace.model.names import check_user_name
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED, StreamCut
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb


class ReaderGroups:
    """The calls about reader groups."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def create(self, scope: str, group: str, config: ReaderGroupConfig) -> ReaderGroupConfig:
        """Create a group with its stream; return what is kept, which is that of the group if it exists.

        Raises:
            NoSuchScopeError: the scope does not exist.
            InvalidArgumentError: the name or a cut is refused.
        """
        check_user_name(group, "reader group")
        reply = await self._controller.call("createReaderGroup", _to_message(scope, group, config))
        return _from_message(reply.config)

    async def config(self, scope: str, group: str) -> ReaderGroupConfig:
        """Return what a group reads, with its id and generation. Raises NoSuchReaderGroupError."""
        reply = await self._controller.call(
            "getReaderGroupConfig", pb.ReaderGroupInfo(scope=scope, readerGroup=group)
        )
        return _from_message(reply.config)

    async def update(self, scope: str, group: str, config: ReaderGroupConfig) -> int:
        """Let a group read otherwise; return its next generation.

        Raises:
            NoSuchReaderGroupError: there is no such group.
            PreconditionError: it is not of the id and generation of ``config`` any more.
        """
        reply = await self._controller.call("updateReaderGroup", _to_message(scope, group, config))
        return int(reply.generation)

    async def delete(self, scope: str, group: str, group_id: bytes) -> bool:
        """Remove a group and its stream; False if there is none of this id."""
        request = pb.ReaderGroupInfo(scope=scope, readerGroup=group, readerGroupId=_id_text(group_id))
        try:
            await self._controller.call("deleteReaderGroup", request)
        except NoSuchReaderGroupError:
            return False
        return True

    async def subscribers(self, scope: str, stream: str) -> list[str]:
        """Return the groups, as ``scope/group``, whose progress the retention of a stream waits for.

        Raises:
            NoSuchStreamError: there is no such stream.
        """
        reply = await self._controller.call("listSubscribers", convert.stream_info(scope, stream))
        return list(reply.subscribers)

    async def release(self, subscriber: str, config: ReaderGroupConfig, cut: StreamCut) -> None:
        """Tell that a group, ``scope/group``, needs nothing in front of a cut.

        Raises:
            NoSuchReaderGroupError: it holds nothing of this stream.
            PreconditionError: the cut lies in front of one that was told before, or the group is of another
                generation.
        """
        request = pb.SubscriberStreamCut(
            subscriber=subscriber,
            readerGroupId=_id_text(config.group_id),
            generation=config.generation,
            streamCut=convert.stream_cut_to_message(cut.scope, cut.stream, cut.offsets),
        )
        await self._controller.call("updateSubscriberStreamCut", request)


def _id_text(group_id: bytes) -> str:
    return str(uuid.UUID(bytes=group_id))


def _to_message(scope: str, group: str, config: ReaderGroupConfig) -> pb.ReaderGroupConfiguration:
    return pb.ReaderGroupConfiguration(
        scope=scope,
        readerGroupName=group,
        groupRefreshTimeMillis=config.refresh_ms,
        automaticCheckpointIntervalMillis=config.checkpoint_interval_ms,
        maxOutstandingCheckpointRequest=config.checkpoints_max,
        retentionType=int(config.consumption),
        generation=config.generation,
        readerGroupId=_id_text(config.group_id),
        startingStreamCuts=_cuts_to_messages(config.starts),
        endingStreamCuts=_cuts_to_messages(config.ends),
    )


def _from_message(message: pb.ReaderGroupConfiguration) -> ReaderGroupConfig:
    return ReaderGroupConfig(
        starts=_cuts_from_messages(message.startingStreamCuts),
        ends=_cuts_from_messages(message.endingStreamCuts),
        checkpoint_interval_ms=message.automaticCheckpointIntervalMillis,
        refresh_ms=message.groupRefreshTimeMillis,
        checkpoints_max=message.maxOutstandingCheckpointRequest,
        consumption=Consumption(message.retentionType),
        generation=message.generation,
        group_id=uuid.UUID(message.readerGroupId).bytes,
    )


def _cuts_to_messages(cuts: Mapping[str, StreamCut]) -> list[pb.StreamCut]:
    messages = []
    for name, cut in cuts.items():
        scope, stream = name.split("/")
        messages.append(convert.stream_cut_to_message(scope, stream, cut.offsets))  # none if unbounded
    return messages


def _cuts_from_messages(messages: Iterable[pb.StreamCut]) -> dict[str, StreamCut]:
    return {
        f"{each.streamInfo.scope}/{each.streamInfo.stream}": (
            StreamCut.from_offsets(each.streamInfo.scope, each.streamInfo.stream, dict(each.cut))
            if each.cut
            else UNBOUNDED
        )
        for each in messages
    }

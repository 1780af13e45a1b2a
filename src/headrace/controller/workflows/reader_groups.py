"""Create, change and delete reader groups: a row, a stream for the group's state, subscriptions.

Create: row CREATING with its ``_RG`` stream in one update; the stream's segment; subscriptions; row ACTIVE.
Change: row UPDATING with the new configuration; subscriptions; row ACTIVE with the next generation.
Delete: row DELETING; subscriptions; the stream is sealed and deleted; the row goes.

Any controller goes on from what the row says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.controller.context import ControllerContext
from headrace.controller.store.layout import READER_GROUP, STREAM
from headrace.controller.store.rows.group_row import (
    GroupConfig,
    GroupRow,
    GroupState,
    decode_group,
    encode_group,
)
from headrace.controller.streams.members import NEW, Member, Members
from headrace.controller.streams.subscribers import Subscribers
from headrace.controller.workflows.create_stream import finish_creation, new_stream_row
from headrace.controller.workflows.stream_requests import StreamRequests
from headrace.errors import (
    MetadataConflictError,
    NoSuchReaderGroupError,
    PreconditionError,
    StreamBusyError,
    UnknownOutcomeError,
)
from headrace.model.names import READER_GROUP_PREFIX, check_user_name
from headrace.model.policies import StreamConfiguration

STATE_ROLLOVER_BYTES = 4 << 20
_ATTEMPTS_MAX = 20

Group = Member[GroupRow]


class ReaderGroups:
    """What one may do with reader groups. Used on the controller's loop."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self.subscribers = Subscribers(context.store)
        self.rows: Members[GroupRow] = Members(
            context.store, context.scopes, READER_GROUP, encode_group, decode_group
        )

    async def get(self, scope: str, name: str) -> Group:
        """Return a group that is not being created or deleted. Raises NoSuchReaderGroupError."""
        group = await self.rows.find(scope, name)
        if group is None or group.row.state not in {GroupState.ACTIVE, GroupState.UPDATING}:
            raise NoSuchReaderGroupError(f"reader group {scope}/{name} does not exist")
        return group

    async def create(self, scope_name: str, name: str, group_id: bytes, config: GroupConfig) -> Group:
        """Create a group, or return the one that exists, whatever its configuration.

        Raises:
            InvalidArgumentError: the name is not legal.
            NoSuchScopeError: the scope does not exist or takes nothing new.
            NoSuchStreamError: the group would hold data of a stream that does not exist.
        """
        check_user_name(name, "reader group")
        scope = await self._context.scopes.get(scope_name)
        for _ in range(_ATTEMPTS_MAX):
            group = await self.rows.find(scope_name, name)
            if group is None:
                for stream_scope, stream in config.subscriptions():
                    await self._context.directory.get(stream_scope, stream)
                group = Member(scope, name, GroupRow(group_id, 0, GroupState.CREATING, config), NEW)
                if not await self._write_first_row(group):
                    continue
            if group.row.state is GroupState.DELETING:
                raise StreamBusyError(f"reader group {scope_name}/{name} is being deleted")
            await self.resume(group)
            return group
        raise MetadataConflictError(
            f"reader group {scope_name}/{name} is changed by too many callers at once"
        )

    async def update(
        self, scope: str, name: str, group_id: bytes, generation: int, config: GroupConfig
    ) -> int:
        """Give the group another configuration and return its new generation.

        Raises:
            NoSuchReaderGroupError: it does not exist.
            PreconditionError: it is another one, or of another generation.
            StreamBusyError: another update is in progress.
            NoSuchStreamError: the group would hold data of a stream that does not exist.
        """
        group = await self.get(scope, name)
        if group.row.group_id != group_id or group.row.generation != generation:
            raise PreconditionError(f"reader group {scope}/{name} is of generation {group.row.generation}")
        if group.row.state is GroupState.UPDATING and group.row.updating != config:
            raise StreamBusyError(f"another update of reader group {scope}/{name} is in progress")
        for stream_scope, stream in config.subscriptions():
            await self._context.directory.get(stream_scope, stream)
        if not await self.rows.write(group, replace(group.row, state=GroupState.UPDATING, updating=config)):
            raise StreamBusyError(f"reader group {scope}/{name} is changed by another caller")
        await self.resume(group)
        return generation + 1

    async def delete(self, scope: str, name: str, group_id: bytes | None) -> None:
        """Delete the group; ``None`` stands for whichever id it has.

        Raises:
            NoSuchReaderGroupError: it does not exist, or has another id.
        """
        group = await self.rows.find(scope, name)
        if group is None or (group_id is not None and group.row.group_id != group_id):
            raise NoSuchReaderGroupError(f"reader group {scope}/{name} does not exist")
        await self.delete_member(group)

    async def delete_member(self, group: Group) -> None:
        """Delete a group as it was read."""
        doomed = replace(group.row, state=GroupState.DELETING)
        if group.row != doomed and not await self.rows.write(group, doomed):
            full_name = f"{group.scope.name}/{group.name}"
            raise StreamBusyError(f"reader group {full_name} is changed by another caller")
        await self.resume(group)

    async def resume(self, group: Group) -> None:
        """Finish what the row says. Repeatable from any step."""
        match group.row.state:
            case GroupState.CREATING:
                await self._finish_creation(group)
            case GroupState.UPDATING:
                await self._finish_update(group)
            case GroupState.DELETING:
                await self._finish_deletion(group)
            case GroupState.ACTIVE:
                return

    # ---------------------------------------------------------------------------------- steps

    async def _write_first_row(self, group: Group) -> bool:
        """Take the name of the group and of its stream, if that does not exist; False: begin again."""
        context, scope = self._context, group.scope
        name = READER_GROUP_PREFIX + group.name
        if await context.directory.find(scope.name, name) is not None:
            return await self.rows.write(group, group.row)
        config = StreamConfiguration(rollover_size_bytes=STATE_ROLLOVER_BYTES)
        (first,) = await context.numbering.first_numbers(STREAM, scope.name, [name])
        row, write = new_stream_row(context, name, config, first)
        try:
            versions = await context.store.update(scope.table, [self.rows.write_of(group, group.row), write])
        except (MetadataConflictError, UnknownOutcomeError):
            return False
        group.version = versions[0]
        context.directory.learn(scope.name, name, scope.table, row, versions[1])
        return True

    async def _finish_creation(self, group: Group) -> None:
        stream = await self._context.directory.find(group.scope.name, READER_GROUP_PREFIX + group.name)
        if stream is not None:
            await finish_creation(self._context, [stream])
        await self._subscribe(group, group.row.config.subscriptions(), group.row.generation)
        await self._finish(group, replace(group.row, state=GroupState.ACTIVE))

    async def _finish_update(self, group: Group) -> None:
        config = group.row.updating
        assert config is not None
        before, after = group.row.config.subscriptions(), config.subscriptions()
        await self._subscribe(group, after, group.row.generation + 1)
        await self._unsubscribe(group, before - after)
        row = GroupRow(group.row.group_id, group.row.generation + 1, GroupState.ACTIVE, config)
        await self._finish(group, row)

    async def _finish_deletion(self, group: Group) -> None:
        streams = group.row.config.subscriptions()
        if group.row.updating is not None:
            streams |= group.row.updating.subscriptions()
        await self._unsubscribe(group, streams)
        stream = await self._context.directory.find_in(group.scope, READER_GROUP_PREFIX + group.name)
        if not await self._is_present(group):
            return  # another controller was faster, and the stream may be that of a later group
        if stream is not None:
            await StreamRequests(self._context).delete_whole(stream)
        await self.rows.remove(group)

    async def _is_present(self, group: Group) -> bool:
        present = await self.rows.find(group.scope.name, group.name)
        return (
            present is not None
            and present.row.group_id == group.row.group_id
            and present.scope.row.uid == group.scope.row.uid
        )

    async def _finish(self, group: Group, row: GroupRow) -> None:
        """Write the last step, unless another controller did."""
        if await self.rows.write(group, row):
            return
        present = await self.rows.find(group.scope.name, group.name)
        if present is None or present.row.group_id != group.row.group_id:
            await self._unsubscribe(group, row.config.subscriptions())
            if present is not None and present.row.state is not GroupState.DELETING:
                # Its subscriptions may have been taken for this group.
                await self._subscribe(present, present.row.config.subscriptions(), present.row.generation)
            raise NoSuchReaderGroupError(f"reader group {group.scope.name}/{group.name} does not exist")
        group.row, group.version = present.row, present.version

    async def _subscribe(self, group: Group, streams: Iterable[tuple[str, str]], generation: int) -> None:
        for scope, name in sorted(streams):
            stream = await self._context.directory.find(scope, name)
            if stream is not None:  # one that was deleted meanwhile has nothing to hold
                full_name = f"{group.scope.name}/{group.name}"
                await self.subscribers.add(stream, full_name, group.row.group_id, generation)

    async def _unsubscribe(self, group: Group, streams: Iterable[tuple[str, str]]) -> None:
        for scope, name in sorted(streams):
            stream = await self._context.directory.find(scope, name)
            if stream is not None:
                full_name = f"{group.scope.name}/{group.name}"
                await self.subscribers.remove(stream, full_name, group.row.group_id)

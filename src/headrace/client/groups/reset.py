"""Sets a group back, or on: at the controller, then in the state that its readers share.

Whoever begins it says so in the state. If it is gone then, a reader of the group finishes what the controller
knows.

Source: protocol, "Creating, resetting, deleting a reader group".
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.client.control.reader_groups import ReaderGroups
from headrace.client.groups.group_places import GroupPlaces
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.shared_group import SharedGroup
from headrace.client.groups.updates import Update, UpdatingConfig
from headrace.errors import MetadataConflictError, PreconditionError
from headrace.model.reader_group import ReaderGroupConfig


async def begin_reset(shared: SharedGroup, groups: ReaderGroups, config: ReaderGroupConfig) -> None:
    """Give the group a configuration that was made of the one that it has.

    Raises:
        MetadataConflictError: the group was given another one meanwhile.
    """

    def announce(state: GroupState) -> Sequence[Update]:
        if state.config.generation != config.generation or state.config.group_id != config.group_id:
            raise MetadataConflictError(f"reader group {shared.full_name} was reset by somebody else")
        return [UpdatingConfig(True)]

    await shared.update(announce)
    try:
        await groups.update(shared.scope, shared.name, config)
    except PreconditionError as error:
        raise MetadataConflictError(f"reader group {shared.full_name} is being reset: {error}") from None


async def finish_reset(shared: SharedGroup, groups: ReaderGroups, places: GroupPlaces) -> None:
    """Begin anew as the controller says, if it has a newer configuration than the state."""
    config = await groups.config(shared.scope, shared.name)
    if config.generation <= shared.state.config.generation:
        return
    init = await places.begin(config)
    await shared.update(lambda state: [init] if state.config.generation < config.generation else [])

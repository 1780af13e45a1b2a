"""The state of a reader group in this process: one synchronizer for the group and all its readers here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from headrace.client.groups.group_codec import GroupCodec
from headrace.client.groups.group_state import GroupState, apply
from headrace.client.groups.liveness import Liveness
from headrace.client.groups.proposals import leave
from headrace.client.groups.updates import AddReader, Update, UpdateDistanceToTail
from headrace.client.revisions.revisioned_stream import RevisionedStream
from headrace.client.revisions.synchronizer import Synchronizer
from headrace.client.services import ClientServices
from headrace.errors import NoSuchReaderGroupError, NoSuchSegmentError
from headrace.runtime import logs

_log = logs.logger(__name__)

PUT_OFFLINE = "a reader that was silent is put offline"


class SharedGroup:
    """Made with its group. Used on one loop."""

    def __init__(
        self,
        scope: str,
        name: str,
        stream: RevisionedStream,
        services: ClientServices,
        begin: Callable[[], Awaitable[GroupState]],
    ) -> None:
        """Share what ``stream`` has; ``begin`` is asked for the state of a group without one."""
        self.scope = scope
        self.name = name
        self._synchronizer: Synchronizer[GroupState, Update | GroupState] = Synchronizer(
            stream, services, GroupCodec(), begin, self._apply
        )
        self._heard: set[str] = set()
        """Readers of which an update was read since the last look at who is alive."""
        self._liveness = Liveness()
        self._watchers: list[Callable[[], None]] = []

    @property
    def full_name(self) -> str:
        return f"{self.scope}/{self.name}"

    @property
    def state(self) -> GroupState:
        """As it was fetched, or updated here, last."""
        return self._synchronizer.state

    async def begin(self) -> None:
        await self._synchronizer.begin()

    async def fetch(self) -> GroupState:
        """Read what the others have done meanwhile."""
        before = self.state
        try:
            return self._seen(before, await self._synchronizer.fetch())
        except NoSuchSegmentError:
            raise self._deleted() from None

    async def update(self, make: Callable[[GroupState], Sequence[Update]]) -> GroupState:
        """Change the state by what ``make`` returns for the newest one; return the state right behind it."""
        before = self.state
        try:
            return self._seen(before, await self._synchronizer.update(lambda state: list(make(state))))
        except NoSuchSegmentError:
            raise self._deleted() from None

    def _deleted(self) -> NoSuchReaderGroupError:
        return NoSuchReaderGroupError(f"reader group {self.full_name} was deleted")

    def watch(self, on_change: Callable[[], None]) -> Callable[[], None]:
        """Call ``on_change`` whenever another state is seen; return what ends that."""
        self._watchers.append(on_change)
        return lambda: self._watchers.remove(on_change)

    def _seen(self, before: GroupState, state: GroupState) -> GroupState:
        if state is not before:
            for on_change in list(self._watchers):
                on_change()
        return state

    def _apply(self, state: GroupState, update: Update | GroupState) -> GroupState:
        if isinstance(update, UpdateDistanceToTail | AddReader):
            self._heard.add(update.reader)
        return apply(state, update)

    async def put_dead_offline(self) -> None:
        """Put readers offline that are dead, so that others go on with what they had."""
        heard, self._heard = self._heard, set()
        now = asyncio.get_running_loop().time()
        for reader in self._liveness.observe(now, self.state.assigned, heard):

            def make(state: GroupState, reader: str = reader) -> Sequence[Update]:
                return [] if reader in self._heard else leave(state, reader, {})

            _log.warning(PUT_OFFLINE, group=self.full_name, reader=reader)
            await self.update(make)

    async def close(self) -> None:
        """Leave; updates that are under way are waited for. Idempotent."""
        await self._synchronizer.close()

"""A reader group: made or joined, checkpointed, set back, asked how far it is.

group = await client.reader_group("demo/orders", group="etl")
async with group.reader() as reader:
    async for event in reader:
        handle(event)

Source: protocol, "Creating, resetting, deleting a reader group", "Checkpoints" and "Group-level queries".
"""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self

from headrace.client.config import ReaderConfig
from headrace.client.control.reader_groups import ReaderGroups
from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.groups import proposals
from headrace.client.groups.checkpoint_state import SILENT_MARK, is_silent
from headrace.client.groups.group_lag import GroupLag
from headrace.client.groups.group_places import GroupPlaces, Place
from headrace.client.groups.group_reader import GroupReader
from headrace.client.groups.liveness import OWN_SUFFIX
from headrace.client.groups.reset import begin_reset, finish_reset
from headrace.client.groups.shared_group import SharedGroup
from headrace.client.groups.updates import RemoveOutstandingCheckpoints
from headrace.client.opening import Opening
from headrace.client.reader.segment_inputs import OnError, check_on_error
from headrace.client.scoped_name import split_name
from headrace.client.serializers import Codec, Serializer, find_codec
from headrace.client.services import ClientServices
from headrace.errors import (
    InvalidArgumentError,
    NoSuchReaderGroupError,
    PreconditionError,
    StreamSealedError,
    UnsupportedError,
)
from headrace.limits import USER_NAME_CHARS_MAX
from headrace.model.names import check_user_name
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import StreamCut
from headrace.runtime.clock import Clock

_POLL_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A reader that is online."""

    name: str
    offsets: Mapping[str, int]
    """Of its segments, by name, where it had them or was at the last checkpoint; -1 is the end of one."""


class ReaderGroup(OfOneProcess):
    """Made by :meth:`Client.reader_group`. Used on one loop. Its readers are those of many processes.

    Every call may raise ``NoSuchReaderGroupError`` if the group was deleted, and whatever the calls of a
    client raise if servers cannot be reached.
    """

    def __init__(
        self,
        shared: SharedGroup,
        services: ClientServices,
        groups: ReaderGroups,
        places: GroupPlaces,
        config: ReaderConfig,
        clock: Clock,
        has_records: Callable[[str, str], Awaitable[bool]],
    ) -> None:
        """``has_records`` tells whether a stream has records."""
        self._shared = shared
        self._has_records = has_records
        self._services = services
        self._groups = groups
        self._places = places
        self._config = config
        self._clock = clock

    def __repr__(self) -> str:
        state = f"{len(self._shared.state.assigned)} readers"
        return described("aio.ReaderGroup", self._shared.full_name, self._services.uri, state)

    @property
    def scope(self) -> str:
        return self._shared.scope

    @property
    def name(self) -> str:
        return self._shared.name

    @property
    def config(self) -> ReaderGroupConfig:
        """What the group reads, as far as is known here."""
        return self._shared.state.config

    @property
    def streams(self) -> list[str]:
        """The streams of the group, as ``scope/stream``."""
        return sorted(self.config.starts)

    def reader(
        self,
        name: str | None = None,
        *,
        serializer: Serializer | str | None = None,
        on_error: OnError = "raise",
        config: ReaderConfig | None = None,
    ) -> Opening[GroupReader]:
        """Open a reader of the group, as a context; it has a part of the segments, which changes with time.

        >>> group = await client.reader_group("demo/orders", group="etl")
        >>> async with group.reader(serializer="json") as reader:
        ...     async for event in reader:
        ...         print(event.value)
        ...         break
        {'order': 1}

        Args:
            name: of the reader in the group, with ``.py`` behind it; by default of the host, the process and
                chance.
            serializer: what makes ``event.value`` of the bytes of an event; see :meth:`Client.event_writer`.
            on_error: of an event that is no record, in a stream with records: ``"raise"`` the error once, or
                ``"skip"`` the event.
            config: instead of the client's.

        Raises (when opened):
            PreconditionError: a reader of this name is online.
            InvalidNameError: the name is not legal.
        """
        codec = find_codec(serializer)
        check_on_error(on_error)
        return Opening(self._open_reader(self._reader_name(name), config or self._config, codec, on_error))

    def _reader_name(self, name: str | None) -> str:
        if name is None:
            host = "".join(
                each if each.isalnum() and each.isascii() else "-" for each in socket.gethostname()
            )
            name = f"{host[:60]}-{os.getpid()}-{self._services.entropy.token(4).hex()}"
        return check_user_name(name.removesuffix(OWN_SUFFIX) + OWN_SUFFIX, "reader")

    async def _open_reader(
        self, name: str, config: ReaderConfig, codec: Codec | None, on_error: OnError
    ) -> GroupReader:
        with_records = {each for each in self.streams if await self._has_records(*split_name(each, "stream"))}
        reader = GroupReader(
            name,
            self._shared,
            self._services,
            self._groups,
            self._places,
            self._clock,
            config,
            codec,
            with_records,
            on_error,
        )
        await reader.join()
        return self._services.open_writers.add(reader)

    # ------------------------------------------------------------------------------ checkpoints, cuts

    async def checkpoint(self, name: str | None = None, *, timeout_s: float = 60.0) -> dict[str, StreamCut]:
        """Make a checkpoint: a cut per stream in front of which every reader has handled everything.

        It is passed by each reader when it asks for its next event. One that does not ask keeps it waiting.

        Args:
            name: no checkpoint of the group has had it; by default a random one.
            timeout_s: how long to wait for all readers.

        Returns:
            The cuts, by ``scope/stream``.

        Raises:
            TimeoutError: it says which readers have not passed; they may still do.
            ThrottledError: as many checkpoints as the group may have are waited for.
            PreconditionError: there is one of this name, or it was cancelled meanwhile.
        """
        if name is not None and (is_silent(name) or not 0 < len(name) <= USER_NAME_CHARS_MAX):
            raise InvalidArgumentError(
                f"a checkpoint has a name of 1 to {USER_NAME_CHARS_MAX} characters without {SILENT_MARK!r}"
            )
        return await self._checkpoint(name or self._services.entropy.token(16).hex(), timeout_s)

    async def stream_cuts(self, *, timeout_s: float = 60.0) -> dict[str, StreamCut]:
        """Return where the group is now, by ``scope/stream``: cuts in front of which all was handled.

        Readers tell it without their applications; it is no checkpoint that the group could be set back to.

        Raises:
            TimeoutError: it says which readers have not answered.
        """
        token = base64.b64encode(self._services.entropy.token(32)).decode()
        return await self._checkpoint(token + SILENT_MARK, timeout_s)

    async def _checkpoint(self, name: str, timeout_s: float) -> dict[str, StreamCut]:
        shared = self._shared
        state = await shared.update(lambda state: proposals.create_checkpoint(state, name))
        try:
            async with asyncio.timeout(timeout_s):
                while (offsets := state.checkpoints.completed(name)) is None:
                    if name not in state.checkpoints.pending:
                        raise PreconditionError(f"checkpoint {name} was cancelled")
                    await asyncio.sleep(_POLL_S)
                    state = await shared.fetch()
        except TimeoutError:
            missing = ", ".join(sorted(shared.state.checkpoints.pending.get(name, ())))
            raise TimeoutError(
                f"within {timeout_s:g} s the checkpoint was not passed by {missing or 'all readers'}"
            ) from None
        await shared.update(lambda state: proposals.clear_before(state, name))
        return await self._places.real(offsets, state.config)

    async def cancel_checkpoints(self) -> None:
        """Give up the checkpoints that are waited for; whoever waits is told."""
        await self._shared.update(lambda _: [RemoveOutstandingCheckpoints()])

    async def positions(self) -> dict[str, StreamCut]:
        """Return where the group would go on if all its readers were lost, by ``scope/stream``: mostly where
        its last checkpoint was.
        """
        state = await self._shared.fetch()
        return await self._places.real(state.offsets(), state.config)

    async def release(self, cuts: Mapping[str, StreamCut]) -> None:
        """Let the retention of the streams drop what lies in front of cuts, by ``scope/stream``.

        Raises:
            UnsupportedError: the group was not made with the consumption ``HELD_UNTIL_TOLD``.
            PreconditionError: a cut lies in front of one that was told before.
        """
        config = (await self._shared.fetch()).config
        if config.consumption is not Consumption.HELD_UNTIL_TOLD:
            raise UnsupportedError(f"reader group {self._shared.full_name} holds nothing until it is told")
        for cut in cuts.values():
            await self._groups.release(self._shared.full_name, config, cut)

    # ------------------------------------------------------------------------------ readers

    async def readers(self) -> list[GroupMember]:
        """Return the readers that are online, with their segments."""
        state = await self._shared.fetch()
        return [
            GroupMember(name, {segment.name: offset for segment, offset in owned.items()})
            for name, owned in sorted(state.assigned.items())
        ]

    async def reader_offline(self, name: str) -> bool:
        """Put a reader offline that is gone: others go on with its segments from its last checkpoint.

        Readers of this client that die are put offline by others after 30 s. If it is not gone, it notices
        and stops; what it handles until then is handled twice.

        Returns:
            Whether it was online.
        """
        state = await self._shared.fetch()
        found = next((each for each in (name, name + OWN_SUFFIX) if each in state.assigned), None)
        if found is None:
            return False
        await self._shared.update(lambda state: proposals.leave(state, found, {}))
        return True

    async def lag(self) -> GroupLag:
        """Return how much the group has not read, in bytes and time, as of its readers' last checkpoints."""
        return await self._places.lag(await self._shared.fetch())

    # ------------------------------------------------------------------------------ the group itself

    async def reset(
        self,
        start: Place | Mapping[str, Place] | None = None,
        end: Place | Mapping[str, Place] | None = None,
    ) -> None:
        """Let the group begin elsewhere. Its readers are told that they are offline; open new ones.

        Args:
            start: a cut (or its text), ``"head"``, ``"tail"``, or a time; one for all streams, or one for
                each by ``scope/stream``. None: the last checkpoint, or where the group began.
            end: where to end; None: where it was to end before.

        Raises:
            InvalidArgumentError: a place is none of its stream.
            StreamBusyError, MetadataConflictError: somebody else resets the group.
        """
        state = await self._shared.fetch()
        starts: Mapping[str, StreamCut] = state.config.starts
        if start is not None:
            starts = await self._places.cuts(starts, start)
        elif state.checkpoints.last:
            starts = await self._places.real(state.checkpoints.last, state.config)
        for stream, cut in starts.items():
            if not cut.is_unbounded and not cut.offsets:
                raise StreamSealedError(f"stream {stream} is sealed, and read to its end: say where to begin")
        ends = state.config.ends if end is None else await self._places.cuts(starts, end)
        config = replace(state.config, starts=starts, ends=ends)
        await begin_reset(self._shared, self._groups, config)
        await finish_reset(self._shared, self._groups, self._places)

    async def delete(self) -> None:
        """Delete the group and its state. Readers that are open are told. What was deleted is no error."""
        config = self._shared.state.config
        await self._groups.delete(self.scope, self.name, config.group_id)
        await self.close()

    async def close(self) -> None:
        """Leave it; its readers have to be closed before. The group stays. Idempotent."""
        await self._shared.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


async def keep(
    groups: ReaderGroups, scope: str, name: str, config: ReaderGroupConfig | None
) -> ReaderGroupConfig:
    """Return the configuration that a group has; make it if ``config`` says how.

    Raises:
        NoSuchReaderGroupError: there is none, and none is to be made.
        PreconditionError: there is one, of other streams.
    """
    try:
        kept = await groups.config(scope, name)
    except NoSuchReaderGroupError:
        if config is None:
            raise
        kept = await groups.create(scope, name, config)
    if config is not None and set(kept.starts) != set(config.starts):
        raise PreconditionError(
            f"reader group {scope}/{name} reads {', '.join(kept.starts)}, not {', '.join(config.starts)}"
        )
    return kept

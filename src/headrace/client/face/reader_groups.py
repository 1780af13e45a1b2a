"""The call that makes a reader group, or joins one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

from headrace.client.config import ReaderConfig
from headrace.client.face.shared_state import SharedStateFace
from headrace.client.groups.group_places import GroupPlaces, Place
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.reader_group import ReaderGroup, keep
from headrace.client.groups.shared_group import SharedGroup
from headrace.client.opening import Opening
from headrace.client.scoped_name import split_name
from headrace.errors import InvalidArgumentError
from headrace.model.names import READER_GROUP_PREFIX, check_user_name
from headrace.model.reader_group import Consumption, ReaderGroupConfig
from headrace.model.stream_cut import UNBOUNDED
from headrace.runtime.clock import SystemClock


class ReaderGroupFace(SharedStateFace):
    """Readers that share streams."""

    def reader_group(
        self,
        stream: str | None = None,
        *,
        group: str,
        streams: Iterable[str] = (),
        scope: str | None = None,
        start: Place | Mapping[str, Place] = "head",
        end: Place | Mapping[str, Place] | None = None,
        checkpoint_interval_s: float | None = 30.0,
        checkpoints_max: int = 3,
        consumption: Consumption = Consumption.NOT_HELD,
        config: ReaderConfig | None = None,
    ) -> Opening[ReaderGroup]:
        """Make a reader group, or join the one of this name: its readers share what its streams have.

        >>> group = await client.reader_group("demo/orders", group="etl")
        >>> group.name
        'etl'

        Everything but the name is for a group that is made; one that exists is as it was made, and reads the
        same streams. Clients of the protocol in Java share groups with this one.

        Args:
            stream: that it reads, as ``scope/stream``; neither it nor ``streams``: the group exists.
            group: its name.
            streams: several of them.
            scope: in which the group is; by default that of its first stream.
            start: where it begins: a cut (or its text), ``"head"``, ``"tail"``, or a time; for all streams,
                or for each by ``scope/stream``.
            end: where it ends; None: where streams are sealed.
            checkpoint_interval_s: between automatic checkpoints; None: only those that somebody asks for.
                What follows a segment that is sealed is read behind a checkpoint.
            checkpoints_max: of those that are asked for, how many may be waited for at a time.
            consumption: whether retention by consumption keeps what the group has not read.
            config: of its readers, instead of the client's.

        Raises (when opened):
            NoSuchReaderGroupError: it does not exist, and no stream is said.
            NoSuchStreamError, NoSuchScopeError: there is no such stream or scope.
            PreconditionError: the group exists, and reads other streams.
            InvalidArgumentError: a name, a place or a number makes no sense.
        """
        names = [*([] if stream is None else [stream]), *streams]
        for each in names:
            split_name(each, "stream")
        if scope is None and not names:
            raise InvalidArgumentError("a reader group that exists needs scope=, one that is made a stream")
        interval = -1 if checkpoint_interval_s is None else round(1000 * checkpoint_interval_s)

        async def open_group() -> ReaderGroup:
            places = GroupPlaces(self._services, self._calls, self._times, self.config.reader, SystemClock())
            wanted = None
            if names:
                starts = await places.cuts(names, start)
                ends = dict.fromkeys(names, UNBOUNDED) if end is None else await places.cuts(names, end)
                wanted = ReaderGroupConfig(
                    starts=starts,
                    ends=ends,
                    checkpoint_interval_ms=interval,
                    checkpoints_max=checkpoints_max,
                    consumption=consumption,
                    generation=0,
                    group_id=self._services.entropy.uuid4_bytes(),
                )
            place = scope if scope is not None else split_name(names[0], "stream")[0]
            return await self._open_group(place, group, wanted, places, config or self.config.reader)

        check_user_name(group, "reader group")
        return Opening(open_group())

    def list_reader_groups(self, scope: str) -> AsyncIterator[str]:
        """Iterate over the names of the reader groups of a scope.

        >>> [name async for name in client.list_reader_groups("demo")]
        []

        Raises:
            NoSuchScopeError: there is no such scope.
        """
        return _Groups(self._streams.list_streams(scope, internal=True))

    async def _open_group(
        self,
        scope: str,
        name: str,
        wanted: ReaderGroupConfig | None,
        places: GroupPlaces,
        config: ReaderConfig,
    ) -> ReaderGroup:
        kept = await keep(self._groups, scope, name, wanted)
        stream = await self._open_revisioned(scope, READER_GROUP_PREFIX + name, self.config.reader)

        async def begin() -> GroupState:
            return GroupState.begin(await places.begin(kept))

        shared = SharedGroup(scope, name, stream, self._services, begin)
        await shared.begin()
        return ReaderGroup(
            shared, self._services, self._groups, places, config, SystemClock(), self._streams.has_records
        )


class _Groups(AsyncIterator[str]):
    """The groups of which a scope has the streams."""

    def __init__(self, streams: AsyncIterator[str]) -> None:
        self._streams = streams

    async def __anext__(self) -> str:
        while True:
            name = await anext(self._streams)
            if name.startswith(READER_GROUP_PREFIX):
                return name.removeprefix(READER_GROUP_PREFIX)

"""Reader groups for threads."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self

from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.readers import SegmentInputs
from headrace.client.config import ReaderConfig
from headrace.client.description import waiting
from headrace.client.forks import OfOneProcess
from headrace.client.groups import group_reader, reader_group
from headrace.client.groups.group_lag import GroupLag
from headrace.client.groups.group_places import Place
from headrace.client.groups.reader_group import GroupMember
from headrace.client.reader.segment_inputs import OnError
from headrace.client.serializers import Serializer
from headrace.model.reader_group import ReaderGroupConfig
from headrace.model.stream_cut import StreamCut


class GroupReader(SegmentInputs):
    """A reader of a group: has a part of its segments, which changes with time. One consumer at a time.

    It is an iterator over events. An event, or a batch, that was handed out counts as handled when the next
    one is asked for. What was not handled when the reader is closed, or dies, is handed out again, by
    another reader or a later one.
    """

    def __init__(self, reader: group_reader.GroupReader, thread: LoopThread) -> None:
        super().__init__(reader, thread)
        self._member = reader

    @property
    def name(self) -> str:
        """In the group."""
        return self._member.name

    def handled(self) -> None:
        """Say that all that was handed out is handled, without asking for more: before a loop is left."""
        self._thread.call(self._member.handled)

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never opened
            self._thread.finish(self._member.close())

    @property
    def segments(self) -> list[str]:
        """The segments that it reads now."""
        return self._thread.call(lambda: self._member.segments)


class ReaderGroup(OfOneProcess):
    """Readers of many processes that share streams. For any number of threads."""

    def __init__(self, group: reader_group.ReaderGroup, thread: LoopThread) -> None:
        self._group = group
        self._thread = thread

    def __repr__(self) -> str:
        return waiting(repr(self._group))

    @property
    def scope(self) -> str:
        return self._group.scope

    @property
    def name(self) -> str:
        return self._group.name

    @property
    def config(self) -> ReaderGroupConfig:
        """What the group reads, as far as is known here."""
        return self._group.config

    @property
    def streams(self) -> list[str]:
        """The streams of the group, as ``scope/stream``."""
        return self._group.streams

    def reader(
        self,
        name: str | None = None,
        *,
        serializer: Serializer | str | None = None,
        on_error: OnError = "raise",
        config: ReaderConfig | None = None,
    ) -> GroupReader:
        """Open a reader of the group, as a context; it has a part of the segments, which changes with time.

        >>> group = client.reader_group("demo/orders", group="etl")
        >>> with group.reader(serializer="json") as reader:
        ...     for event in reader:
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

        Raises:
            PreconditionError: a reader of this name is online.
            InvalidNameError: the name is not legal.
        """

        async def opened() -> GroupReader:
            reader = await self._group.reader(name, serializer=serializer, on_error=on_error, config=config)
            return GroupReader(reader, self._thread)

        return self._thread.run(opened())

    def checkpoint(self, name: str | None = None, *, timeout_s: float = 60.0) -> dict[str, StreamCut]:
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
        return self._thread.run(self._group.checkpoint(name, timeout_s=timeout_s))

    def stream_cuts(self, *, timeout_s: float = 60.0) -> dict[str, StreamCut]:
        """Return where the group is now, by ``scope/stream``: cuts in front of which all was handled.

        Readers tell it without their applications; it is no checkpoint that the group could be set back to.

        Raises:
            TimeoutError: it says which readers have not answered.
        """
        return self._thread.run(self._group.stream_cuts(timeout_s=timeout_s))

    def cancel_checkpoints(self) -> None:
        """Give up the checkpoints that are waited for; whoever waits is told."""
        self._thread.run(self._group.cancel_checkpoints())

    def positions(self) -> dict[str, StreamCut]:
        """Return where the group would go on if all its readers were lost, by ``scope/stream``: mostly where
        its last checkpoint was.
        """
        return self._thread.run(self._group.positions())

    def release(self, cuts: Mapping[str, StreamCut]) -> None:
        """Let the retention of the streams drop what lies in front of cuts, by ``scope/stream``.

        Raises:
            UnsupportedError: the group was not made with the consumption ``HELD_UNTIL_TOLD``.
            PreconditionError: a cut lies in front of one that was told before.
        """
        self._thread.run(self._group.release(cuts))

    def readers(self) -> list[GroupMember]:
        """Return the readers that are online, with their segments."""
        return self._thread.run(self._group.readers())

    def reader_offline(self, name: str) -> bool:
        """Put a reader offline that is gone: others go on with its segments from its last checkpoint.

        Readers of this client that die are put offline by others after 30 s. If it is not gone, it notices
        and stops; what it handles until then is handled twice.

        Returns:
            Whether it was online.
        """
        return self._thread.run(self._group.reader_offline(name))

    def lag(self) -> GroupLag:
        """Return how much the group has not read, in bytes and time, as of its readers' last checkpoints."""
        return self._thread.run(self._group.lag())

    def reset(
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
            MetadataConflictError: somebody else resets the group.
        """
        self._thread.run(self._group.reset(start, end))

    def delete(self) -> None:
        """Delete the group and its state. Readers that are open are told. What was deleted is no error."""
        self._thread.run(self._group.delete())

    def close(self) -> None:
        """Leave it; its readers have to be closed before. The group stays. Idempotent."""
        self._thread.finish(self._group.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

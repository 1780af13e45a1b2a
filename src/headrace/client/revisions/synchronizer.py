"""A state that several processes share: each changes it by updates that all of them apply in one order.

async with client.synchronizer("demo/settings", initial={}, apply=lambda old, new: old | new) as settings:
    await settings.update(lambda state: {"limit": state.get("limit", 0) + 1})
    print(settings.state)

An update is appended on condition that nobody else was faster. Otherwise what the others did is applied
first, and the function that makes the update is called again. Updates that wait for one another are one
entry.

Source: protocol, "StateSynchronizer: entries, replay, compaction".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Generic, Protocol, Self, TypeVar

from headrace.client.description import described
from headrace.client.forks import OfOneProcess
from headrace.client.revisions.entries import (
    ENTRY_HEAD_BYTES,
    UPDATE_HEAD_BYTES,
    encode_state,
    encode_updates,
)
from headrace.client.revisions.replay import Replay
from headrace.client.revisions.revision import Revision
from headrace.client.revisions.revisioned_stream import RevisionedStream
from headrace.client.services import ClientServices
from headrace.errors import (
    ClosedError,
    ConnectionLostError,
    DataCorruptionError,
    EventTooLargeError,
    HeadraceError,
    SegmentTruncatedError,
)
from headrace.limits import EVENT_BYTES_MAX, KIB
from headrace.runtime import logs

_log = logs.logger(__name__)

S = TypeVar("S")
U = TypeVar("U")

COMPACTED_BYTES_MIN: Final = 512 * KIB
"""So much has to follow the mark before anybody writes the state as a whole."""
_COMPACTION_CHANCE: Final = 0.05
"""Of each time that somebody sees that it could be: several who share a state do not all do it."""


class StateCodec(Protocol[S, U]):
    """States and updates as bytes. What it raises for bytes that are none is told with their place."""

    def encode(self, value: S | U, /) -> bytes: ...

    def decode_state(self, data: bytes, /) -> S: ...

    def decode_update(self, data: bytes, /) -> U: ...


@dataclass(slots=True)
class _Wanted(Generic[S, U]):
    """An update that somebody waits for."""

    make: Callable[[S], U | list[U] | None]
    done: asyncio.Future[S]


class Synchronizer(OfOneProcess, Generic[S, U]):
    """Made by :meth:`Client.synchronizer`. Any number of calls may be in flight. Used on one loop.

    ``apply(state, update)`` returns the next state and leaves the old one as it is; all who share the state
    have the same function. Calls raise what those of :class:`RevisionedStream` raise, and
    ``DataCorruptionError`` if the stream has an entry that cannot be applied.
    """

    def __init__(
        self,
        stream: RevisionedStream,
        services: ClientServices,
        codec: StateCodec[S, U],
        initial: Callable[[], Awaitable[S]],
        apply: Callable[[S, U], S],
    ) -> None:
        """Share the state over ``stream``; ``initial`` is asked if there is none yet."""
        self._stream = stream
        self._services = services
        self._codec = codec
        self._initial = initial
        self._apply = apply
        self._replay = Replay(codec.decode_state, codec.decode_update, apply)
        self._reading = asyncio.Lock()
        self._waiting: deque[_Wanted[S, U]] = deque()
        self._working: asyncio.Task[None] | None = None
        self._mark: Revision | None = None
        """Where it was last."""
        self._closed = False

    def __repr__(self) -> str:
        at = self._replay.revision
        return described(
            "aio.Synchronizer", self._stream.place, self._services.uri, f"at {at.offset if at else 0}"
        )

    @property
    def state(self) -> S:
        """The state as it was fetched, or updated here, last. Treat it as read-only."""
        return self._replay.state

    @property
    def revision(self) -> Revision:
        """Behind the last update that :attr:`state` has."""
        assert self._replay.revision is not None
        return self._replay.revision

    async def fetch(self) -> S:
        """Apply what the others have done meanwhile; return the state."""
        self._check_open()
        async with self._reading:
            await self._read()
            await self._compact_at_times()
            return self._replay.state

    async def update(self, make: Callable[[S], U | list[U] | None]) -> S:
        """Change the state by what ``make`` returns: an update, a list of them, or None for no change.

        ``make`` gets the newest state, and is called again if somebody else was faster. Updates of one call
        happen together. A call that is cancelled may have happened.

        Returns:
            The state right behind the updates.

        Raises:
            EventTooLargeError: the updates have more than 8 MiB. Nothing happened.
            Exception: whatever ``make``, ``apply`` or the serializer raises. Nothing happened.
        """
        self._check_open()
        done: asyncio.Future[S] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Wanted(make, done))
        if self._working is None:
            self._working = self._services.supervisor.spawn(f"update {self._stream.place}", self._work())
            self._working.add_done_callback(self._on_worked)
        return await done

    async def compact(self) -> None:
        """Write the state as a whole, so that whoever comes need not read what led to it.

        What was in front of the last whole state is truncated.
        """
        self._check_open()
        async with self._reading:
            await self._read()
            await self._compact()

    async def close(self) -> None:
        """Wait for updates that are under way, then leave. Idempotent."""
        self._closed = True
        while self._working is not None:
            await asyncio.wait([self._working])
        await self._stream.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def begin(self) -> None:
        """Read the state; write the initial one if there is none."""
        async with self._reading:
            await self._read()

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"the synchronizer of {self._stream.place} is closed")

    # ------------------------------------------------------------------------------ reading

    async def _read(self) -> None:
        """Read up to the tail; write the initial state if there is none yet."""
        await self._read_on()
        if not self._replay.needs_state:
            return
        initial = await self._initial()
        encoded = encode_state(self._codec.encode(initial))
        revision = await self._stream.append_if(encoded, Revision(0))
        if revision is not None:
            self._replay.adopt(initial, revision)
            return
        await self._read_on()  # somebody else was faster, or there is something else
        if self._replay.needs_state:
            raise DataCorruptionError(
                f"{self._stream.place} holds no whole state: it was truncated behind the last one, or has "
                "other entries"
            )

    async def _read_on(self) -> None:
        after = None if self._replay.needs_state else self._replay.revision
        while True:
            if after is None:
                self._mark = await self._stream.mark()
                # The mark may lie in what somebody truncated by hand.
                after = max(await self._stream.oldest(), self._mark or Revision(0))
            try:
                async for entry in self._stream.read(after):
                    self._replay.read(entry.data, entry.end_offset)
                return
            except SegmentTruncatedError:
                self._replay.restart()
                after = None

    # ------------------------------------------------------------------------------ updating

    def _on_worked(self, task: asyncio.Task[None]) -> None:
        """Fail what waits for a task that was cancelled before it ran."""
        if self._working is task:
            self._stop_working()

    def _stop_working(self) -> None:
        self._working = None
        self._fail(self._waiting, ClosedError("the client was closed"))
        self._waiting.clear()

    async def _work(self) -> None:
        try:
            while self._waiting:
                async with self._reading:
                    await self._work_off(self._take())
                    if not self._waiting:
                        await self._compact_at_times()
        finally:
            self._stop_working()  # in the same step as the look: whoever comes now begins anew

    def _take(self) -> list[_Wanted[S, U]]:
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    async def _work_off(self, taken: list[_Wanted[S, U]]) -> None:
        """Append what ``taken`` make of the state, together; what does not fit waits for the next entry."""
        try:
            while True:
                if self._replay.needs_state:
                    await self._read()
                batch = _Batch(self._replay.state, self._codec, self._apply)
                left = batch.fill(taken)
                if batch.updates:
                    before = self.revision
                    revision = await self._stream.append_if(encode_updates(batch.updates), before)
                    if revision is None:
                        await self._read()
                        continue
                    last = Revision(revision.offset, len(batch.updates) - 1)
                    self._replay.adopt(batch.state, last)
                batch.settle()
                self._waiting.extendleft(reversed(left))
                return
        except asyncio.CancelledError:
            self._fail(taken, ConnectionLostError("the client was closed meanwhile; it may have happened"))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is theirs who wait for it
            self._fail(taken, error)

    @staticmethod
    def _fail(wanted: Sequence[_Wanted[S, U]] | deque[_Wanted[S, U]], error: BaseException) -> None:
        for each in wanted:
            if not each.done.done():
                each.done.set_exception(error)

    # ------------------------------------------------------------------------------ compacting

    async def _compact_at_times(self) -> None:
        """Perhaps write the state as a whole. If that fails, there is another time."""
        try:
            await self._compact_if_due()
        except HeadraceError as error:
            _log.info("a shared state was not compacted", stream=self._stream.place, error=error)

    async def _compact_if_due(self) -> None:
        begin = 0 if self._mark is None else self._mark.offset
        if self.revision.offset - begin <= COMPACTED_BYTES_MIN:
            return
        if self._services.entropy.random() >= _COMPACTION_CHANCE:
            return
        self._mark = await self._stream.mark()  # somebody else may have moved it
        begin = 0 if self._mark is None else self._mark.offset
        if self.revision.offset - begin > COMPACTED_BYTES_MIN:
            await self._compact()

    async def _compact(self) -> None:
        """Readers that are slow have until the next time: what is in front of the former mark is dropped."""
        at, state = self.revision, self._replay.state
        revision = await self._stream.append_if(encode_state(self._codec.encode(state)), at)
        if revision is None:
            return  # somebody was faster: another time
        self._replay.adopt(state, revision)
        former = await self._stream.mark()
        begin = Revision(at.offset)
        if former is not None and former >= begin:
            self._mark = former
            return
        if await self._stream.move_mark(former, begin):
            self._mark = begin
            if former is not None:
                await self._stream.truncate(former)


class _Batch(Generic[S, U]):
    """Updates of several callers on one state."""

    def __init__(self, state: S, codec: StateCodec[S, U], apply: Callable[[S, U], S]) -> None:
        self.state = state
        self.updates: list[bytes] = []
        self._codec = codec
        self._apply = apply
        self._bytes = ENTRY_HEAD_BYTES
        self._reached: list[tuple[_Wanted[S, U], S]] = []

    def fill(self, wanted: Sequence[_Wanted[S, U]]) -> list[_Wanted[S, U]]:
        """Take from ``wanted`` what fits into an entry, in order; return the rest."""
        for place, each in enumerate(wanted):
            if each.done.done():  # its caller has left
                continue
            try:
                fits = self._add(each)
            except Exception as error:  # noqa: BLE001 - of the functions of its caller
                each.done.set_exception(error)
                continue
            if not fits:
                return list(wanted[place:])
        return []

    def _add(self, wanted: _Wanted[S, U]) -> bool:
        made: Any = wanted.make(self.state)
        updates: list[U] = [] if made is None else made if isinstance(made, list) else [made]
        encoded = [self._codec.encode(update) for update in updates]
        size = sum(UPDATE_HEAD_BYTES + len(each) for each in encoded)
        if self._bytes + size > EVENT_BYTES_MAX:
            if ENTRY_HEAD_BYTES + size > EVENT_BYTES_MAX:
                raise EventTooLargeError(ENTRY_HEAD_BYTES + size, EVENT_BYTES_MAX)
            return False
        state = self.state
        for update in updates:
            state = self._apply(state, update)
        self.state = state
        self._bytes += size
        self.updates += encoded
        self._reached.append((wanted, state))
        return True

    def settle(self) -> None:
        """Tell the callers the state right behind their updates."""
        for wanted, state in self._reached:
            if not wanted.done.done():
                wanted.done.set_result(state)

"""A reader of a group: hands out the events of the segments it has, and keeps its place in the group.

One task does what the group needs of a reader: looks what the others have done, passes checkpoints, reports
completed segments, acquires, releases. It goes on while the application is busy, but passes a checkpoint only
when the application has asked for more: what it was given before is handled then. Until a checkpoint is
passed nothing more is handed out.

Source: protocol, "Reader main loop", "End of segment and successors" and "Checkpoints".
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

from headrace.client.config import ReaderConfig
from headrace.client.control.reader_groups import ReaderGroups
from headrace.client.description import described
from headrace.client.groups import proposals
from headrace.client.groups.acquire_policy import ranking, segment_to_release
from headrace.client.groups.checkpoint_state import is_silent
from headrace.client.groups.group_cuts import to_cuts
from headrace.client.groups.group_places import GroupPlaces
from headrace.client.groups.group_state import GroupState
from headrace.client.groups.reset import finish_reset
from headrace.client.groups.shared_group import SharedGroup
from headrace.client.groups.timers import GroupTimers
from headrace.client.groups.updates import AcquireSegment, Update
from headrace.client.reader.segment_inputs import InputStart, OnError, SegmentInputs
from headrace.client.segment_address import SegmentAddress
from headrace.client.serializers import Codec
from headrace.client.services import ClientServices
from headrace.errors import ClosedError, HeadraceError, NoSuchReaderGroupError, PreconditionError
from headrace.limits import INT64_MAX
from headrace.model.reader_group import Consumption
from headrace.model.stream_cut import COMPLETED
from headrace.runtime import logs
from headrace.runtime.clock import Clock

_log = logs.logger(__name__)

WAITS: Final = "a checkpoint waits for an application to ask for events"
_WAIT_LOGGED_S: Final = 30.0


class GroupReader(SegmentInputs):
    """Made by :meth:`ReaderGroup.reader`. One consumer at a time; used on one loop.

    It is an iterator over events. An event, or a batch, that was handed out counts as handled when the next
    one is asked for. What was not handled when the reader is closed, or dies, is handed out again, by
    another reader or a later one.
    """

    def __init__(
        self,
        name: str,
        group: SharedGroup,
        services: ClientServices,
        groups: ReaderGroups,
        places: GroupPlaces,
        clock: Clock,
        config: ReaderConfig,
        codec: Codec | None,
        with_records: Collection[str],
        on_error: OnError,
    ) -> None:
        """Of the streams of the group, ``with_records`` have records."""
        super().__init__(services, config, codec, on_error=on_error)
        self._with_records = with_records
        self.name = name
        """In the group."""
        self._group = group
        self._groups = groups
        self._places = places
        self._clock = clock
        self._completed: dict[SegmentAddress, int] = {}
        """Segments that were read to their end, at -1 or where they end for the group, and not reported."""
        self._last_read_id: int | None = None
        self._timers = GroupTimers(asyncio.get_running_loop().time())
        self._wake = asyncio.Event()
        self._has_turn = False
        """The consumer may have something in hand: it has not asked for more since it was given something."""
        self._held = False
        """Nothing is given out: a checkpoint is being passed, or waits for the consumer."""
        self._waiting_since: float | None = None
        self._readers = 0
        """That were online when it looked last."""
        self._ended = False
        self._task: asyncio.Task[None] | None = None
        self._unwatch = group.watch(self._wake.set)

    def __repr__(self) -> str:
        state = f"failed: {self._failure}" if self._failure else "closed" if self._is_closed else "open"
        state += f", {len(self._inputs)} segments"
        return described(
            "aio.GroupReader", f"{self._group.full_name} as {self.name}", self._services.uri, state
        )

    # ------------------------------------------------------------------------------ for the consumer

    @property
    def segments(self) -> list[str]:
        """The segments that it reads now."""
        return [address.name for address in self._inputs]

    async def fill(self) -> None:
        """Wait until there is something in the hand-out, or nothing will come. What was handed out before is
        handled. It may be cancelled, also after it is done, and repeated.
        """
        self._has_turn = False
        if self._held:
            self._wake.set()
        while True:
            while self._held and self._failure is None and not self._is_closed:
                self._news.clear()
                await self._news.wait()
            await super().fill()
            if not self._held or self._failure is not None or self._is_closed:
                break
            self.handout.recall()
        self.handout.give_back()
        self._has_turn = not self.handout.is_taken

    def handled(self) -> None:
        """Say that all that was handed out is handled, without asking for more: before a loop is left."""
        self.handout.recall()
        self._has_turn = False
        if self._held:
            self._wake.set()

    def _on_read(self, address: SegmentAddress, _offset: int) -> None:
        self._last_read_id = address.segment_id

    def _on_end(self, address: SegmentAddress, offset: int, *, sealed: bool) -> None:
        self._completed[address] = COMPLETED if sealed else offset
        self._wake.set()

    @property
    def _is_complete(self) -> bool:
        return self._group.state.is_at_end

    def _name(self) -> str:
        return self._group.full_name

    # ------------------------------------------------------------------------------ places

    def positions(self) -> dict[SegmentAddress, int]:
        """Return where each of its segments goes on if it leaves now: behind what is handled."""
        offsets = {address: self._offset_of(address) for address in self._inputs}
        if self._has_turn and self._served in offsets and (offset := self.handout.in_hand) is not None:
            offsets[self._served] = offset
        return {**offsets, **self._completed}

    def _distance(self) -> int:
        """Return the placeholder that other clients report: beside theirs a true distance would be none."""
        return 0 if self._last_read_id is None else max(0, self._clock.now_ms() - self._last_read_id)

    def _last_read(self) -> dict[SegmentAddress, int]:
        return {address: self._offset_of(address) for address in self._inputs}

    # ------------------------------------------------------------------------------ the task

    async def join(self) -> None:
        """Be online, and begin. Raises PreconditionError: a reader of this name is online."""
        await self._group.update(lambda state: proposals.join(state, self.name))
        self._task = self._services.supervisor.spawn(f"read {self._group.full_name}", self._work())
        self._task.add_done_callback(lambda _: self._news.set())

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while not self._ended:
                self._wake.clear()
                await self._look(loop.time())
                pause = max(0.0, self._timers.next(is_held=self._held) - loop.time())
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
        except asyncio.CancelledError:
            self._failure = self._failure or ClosedError("the client was closed")
            raise
        except HeadraceError as error:
            self._failure = error
            if not isinstance(error, ClosedError):
                _log.warning("a reader of a group has stopped", reader=self.name, error=error)
        finally:
            self._news.set()

    async def _look(self, now: float) -> None:
        """Do what is due, once."""
        group, timers = self._group, self._timers
        if now >= timers.fetch:
            await group.fetch()
            timers.on_fetched(now, group.state.config.refresh_ms)
            await group.put_dead_offline()
        self._check_owned(group.state)
        before, self._readers = self._readers, len(group.state.assigned)
        if self._readers < before:
            timers.on_reader_left(now, self._readers, ranking(group.state, self.name))
        if now >= timers.config_check:
            timers.on_config_checked(now)
            if group.state.is_updating:
                await finish_reset(group, self._groups, self._places)
                self._check_owned(group.state)
        await self._pass_checkpoints(now)
        await self._create_checkpoint(now)
        await self._acquire(now)
        if now >= timers.report:
            state = await group.update(
                lambda state: proposals.report(state, self.name, self._distance(), self._last_read())
            )
            timers.on_reported(now, len(state.assigned))
        if group.state.is_at_end:
            self._news.set()

    def _check_owned(self, state: GroupState) -> None:
        """Raise ReaderOfflineError if it has not the segments that the group says."""
        proposals.check_owned(state, self.name, {*self._inputs, *self._completed})

    # ------------------------------------------------------------------------------ checkpoints

    async def _pass_checkpoints(self, now: float) -> None:
        while (name := self._group.state.checkpoints.next_for(self.name)) is not None:
            self._timers.on_checkpoint(now, self._group.state.config.checkpoint_interval_ms)
            if is_silent(name):
                await self._pass_checkpoint(name)
                continue
            self._held = True
            self.handout.recall()
            if self._has_turn:
                self._log_wait(name, now)
                return
            await self._pass_checkpoint(name)
            await self._report_completed()
            await self._release(now)
            await self._publish()
        self._held, self._waiting_since = False, None
        self._news.set()

    def _log_wait(self, name: str, now: float) -> None:
        if self._waiting_since is None:
            self._waiting_since = now
        elif now - self._waiting_since >= _WAIT_LOGGED_S:
            self._waiting_since = float("inf")
            _log.warning(WAITS, group=self._group.full_name, reader=self.name, checkpoint=name)

    async def _pass_checkpoint(self, name: str) -> None:
        positions = self.positions()
        await self._group.update(lambda state: proposals.pass_checkpoint(state, self.name, name, positions))

    async def _report_completed(self) -> None:
        for segment in list(self._completed):
            state = self._group.state
            successors = (
                []
                if state.ends.get(segment, INT64_MAX) != INT64_MAX
                else await self._services.segments.successors(
                    segment.scope, segment.stream, segment.segment_id
                )
            )
            state = await self._group.update(
                lambda state, segment=segment, successors=successors: proposals.complete(  # type: ignore[misc]
                    state, self.name, segment, successors
                )
            )
            if segment in state.owned_by(self.name):
                return  # another checkpoint is to be passed before
            del self._completed[segment]
            self._timers.on_completed(asyncio.get_running_loop().time())

    async def _release(self, now: float) -> None:
        """Give back a segment if it has too many. The consumer waits meanwhile."""
        state, timers = self._group.state, self._timers
        if now < timers.release or state.checkpoints.next_for(self.name) is not None:
            return
        segment = segment_to_release(state, self.name)
        if segment is None or segment not in self._inputs:
            return
        timers.on_attempt(now)
        offset = self._close_input(segment)
        try:
            state = await self._group.update(
                lambda state: proposals.release(
                    state, self.name, segment, offset, self._distance(), self._last_read()
                )
            )
        except BaseException:
            self._completed[segment] = offset  # the task ends; a reader that leaves says where it was
            raise
        if segment in state.owned_by(self.name):
            self._open(state, [segment], {segment: offset})
        self._attempted(now, state)

    async def _publish(self) -> None:
        """Tell the controller how far the group is, if it retains what is behind the last checkpoint."""
        state = self._group.state
        last = state.checkpoints.last
        if (
            state.config.consumption is not Consumption.HELD_UNTIL_CHECKPOINT
            or state.checkpoints.is_published
            or not last
        ):
            return
        for cut in to_cuts(last).values():
            try:
                await self._groups.release(self._group.full_name, state.config, cut)
            except PreconditionError as error:  # a later one was told already, or the group is reset
                _log.info("a checkpoint was not published", group=self._group.full_name, error=error)
        await self._group.update(lambda state: proposals.published(state, last))

    async def _create_checkpoint(self, now: float) -> None:
        """Create a checkpoint if one is due; early if a segment is completed: its successors wait for it."""
        config = self._group.state.config
        if config.checkpoint_interval_ms <= 0:
            return
        if self._completed:
            self._timers.on_waiting_for_checkpoint()
        if now < self._timers.checkpoint:
            return
        self._timers.on_checkpoint(now, config.checkpoint_interval_ms)
        name = str(uuid.UUID(bytes=self._services.entropy.uuid4_bytes()))
        await self._group.update(lambda state: proposals.automatic_checkpoint(state, name))

    # ------------------------------------------------------------------------------ segments

    async def _acquire(self, now: float) -> None:
        state = self._group.state
        if now < self._timers.acquire or state.checkpoints.next_for(self.name) is not None:
            return
        taken: list[SegmentAddress] = []

        def make(state: GroupState) -> Sequence[Update]:
            updates = proposals.acquire(state, self.name, self._distance(), self._last_read())
            taken[:] = [each.segment for each in updates if isinstance(each, AcquireSegment)]
            return updates

        if state.unassigned:
            self._timers.on_attempt(now)
            state = await self._group.update(make)
            owned = state.owned_by(self.name)
            self._open(state, taken, {segment: owned[segment] for segment in taken})
        self._attempted(now, state)

    def _attempted(self, now: float, state: GroupState) -> None:
        self._timers.on_attempted(now, len(state.assigned), ranking(state, self.name))

    def _open(
        self, state: GroupState, segments: Sequence[SegmentAddress], offsets: dict[SegmentAddress, int]
    ) -> None:
        starts = []
        for segment in segments:
            offset, end = offsets[segment], state.ends.get(segment, INT64_MAX)
            if offset < 0 or offset >= end:
                self._completed[segment] = offset
                self._wake.set()
            else:
                has_records = f"{segment.scope}/{segment.stream}" in self._with_records
                starts.append(InputStart(segment, offset, None if end == INT64_MAX else end, has_records))
        self._open_inputs(starts)

    # ------------------------------------------------------------------------------ ending

    async def close(self) -> None:
        """Leave the group, whose other readers go on right behind what was handled. Idempotent.

        An event, or a batch, behind which no other one was asked for was not handled.
        """
        self._ended = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task])
        if self._is_closed:
            return
        positions = self.positions()
        self._stop()
        with suppress(NoSuchReaderGroupError):  # then there is nothing to leave
            await self._group.update(lambda state: proposals.leave(state, self.name, positions))

    def _stop(self) -> None:
        self._close_inputs()
        self._unwatch()
        self._services.open_writers.forget(self)

    # A client that is closed closes its readers of groups, too: they leave, and others need not wait for it.

    unit = "events"
    lost = 0

    @property
    def place(self) -> str:
        """The group, as it may be told at the end of a client."""
        return self._group.full_name

    async def finish(self) -> None:
        """As :meth:`close`."""
        await self.close()

    def abandon(self, error: HeadraceError) -> None:
        """Read no more, without leaving the group."""
        self._failure = self._failure or error
        self._stop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

"""A writer with event numbers in its container's process: several blocks in flight, set up anew at will."""

from __future__ import annotations

import asyncio
from collections import deque

from headrace.errors import ContainerOfflineError, HeadraceError, NoSuchSegmentError
from headrace.model import attributes as attr
from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.runtime.entropy import SeededEntropy
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.container.container import SegmentContainer
from headrace.testing.history import Operation
from tests.simulation.models.container_calls import (
    AppendDataCall,
    GetAttributeCall,
    LengthAnswer,
    ValueAnswer,
)
from tests.simulation.models.container_history import STALE_TARGET, ContainerHistory
from tests.simulation.workloads.draws import Emptiness


def writer_id_of(name: str) -> bytes:
    """Return the id of a writer, one of those a container takes."""
    return b"writer" + name.encode().rjust(10, b".")[-10:]


class BlockWriter:
    """A writer with event numbers that sends several blocks before it is answered, and connects again."""

    def __init__(
        self,
        name: str,
        segment: str,
        container: SegmentContainer,
        history: ContainerHistory,
        entropy: SeededEntropy,
    ) -> None:
        self.writer_id = writer_id_of(name)
        self._name = name
        self._segment = segment
        self._container = container
        self._history = history
        self._entropy = entropy
        self._emptiness = Emptiness(entropy)
        self._target: AppendTarget | None = None
        self._accepted = 0
        self._in_flight: deque[tuple[int, Operation]] = deque()
        self._settled = asyncio.Event()

    async def write(self, count: int) -> None:
        """Send so many blocks; now and then wait for their answers, or connect again without waiting.

        Raises:
            ContainerOfflineError: the owner has ended.
        """
        draw = self._entropy.randbelow
        if self._target is None or draw(10) == 0:
            await self._connect()
        for _ in range(count):
            target = self._target
            if target is None:
                return
            data = self._entropy.token(1 + draw(60) if draw(4) else 1 + draw(2000))
            data = self._emptiness.apply(data)
            while not target.can_accept(len(data)):
                resumed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                target.wait_capacity(len(data), lambda found=resumed: found.done() or found.set_result(None))  # type: ignore[misc]
                await resumed
            self._send(target, data)
        if self._target is not None:
            self._target.end_of_read()
        if draw(3):
            await self.settle()

    async def settle(self) -> None:
        """Wait for every answer that is owed."""
        while self._in_flight:
            self._settled.clear()
            await self._settled.wait()

    def close(self) -> None:
        """Leave the segment, which may be evicted then."""
        if self._target is not None:
            self._target.close()
            self._target = None

    async def _connect(self) -> None:
        self.close()
        operation = self._history.start(self._name, GetAttributeCall(self._segment, self.writer_id))
        try:
            target = self._container.append_target(self._segment)
            while target is None:
                await self._container.resolve(self._segment)
                target = self._container.append_target(self._segment)
            try:
                if not target.is_settled(self.writer_id) and not self._in_flight:
                    await target.settle(self.writer_id)
                target.check_writer(self.writer_id)
            except BaseException:
                target.close()
                raise
            value = target.last_event_number(self.writer_id)
        except HeadraceError as error:
            self._history.fail(operation, error)
            if isinstance(error, ContainerOfflineError):
                raise
            return
        self._history.succeed(operation, ValueAnswer(value))
        self._target, self._accepted = target, value

    def _send(self, target: AppendTarget, data: bytes) -> None:
        draw = self._entropy.randbelow
        previous = self._accepted
        number = max(previous, 0) + 1 + draw(3)
        count = 1 + draw(5)
        expected_offset = target.state.accepted_length - (draw(3) == 0) if draw(5) == 0 else -1
        updates = (
            AttributeUpdate(self.writer_id, UpdateKind.REPLACE_IF_EQUALS, number, previous),
            AttributeUpdate(attr.EVENT_COUNT, UpdateKind.ACCUMULATE, count),
        )
        call = AppendDataCall(self._segment, data, updates, expected_offset, self._name)
        operation = self._history.start(self._name, call)
        self._in_flight.append((number, operation))
        cut = draw(len(data) + 1)
        try:
            target.append_block(
                self,
                [memoryview(data)[:cut], memoryview(data)[cut:]],
                len(data),
                previous_event_number=previous,
                last_event_number=number,
                event_count=count,
                request_id=number,
                expected_offset=expected_offset,
            )
        except HeadraceError as error:
            self._in_flight.pop()
            if isinstance(error, NoSuchSegmentError):
                self._history.refuse(operation, STALE_TARGET)
            else:
                self._history.fail(operation, error)
            if isinstance(error, ContainerOfflineError):
                raise
            if type(error).__name__ != "OffsetMismatchError":
                self.close()
            return
        self._accepted = number

    # ---- from the container

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None:
        """Everything up to this number is durable."""
        assert request_id == last_event_number
        while True:
            number, operation = self._in_flight.popleft()
            last = number == last_event_number
            self._history.succeed(operation, LengthAnswer(segment_length if last else None))
            if last:
                break
        self._settled.set()

    def on_failed(self, error: HeadraceError) -> None:
        """The outcome of blocks in flight is unknown."""
        while self._in_flight:
            self._history.fail(self._in_flight.popleft()[1], error)
        self.close()
        self._settled.set()

"""A connection's synchronous interface for the append blocks of one segment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headrace.errors import ContainerOfflineError, NoSuchSegmentError, OffsetMismatchError
from headrace.model.attributes import ATTRIBUTE_NULL
from headrace.segmentstore.attributes.attribute_values import AttributeValues
from headrace.segmentstore.container.owner_question import OwnerQuestion
from headrace.segmentstore.durablelog.operation_processor import AppendOwner, OperationProcessor
from headrace.segmentstore.state.container_state import ContainerState
from headrace.segmentstore.state.segment_state import SegmentState


class AppendTarget:
    """One segment of one container. Valid until an append raises NoSuchSegmentError or ContainerOfflineError.

    The segment is not evicted before :meth:`close`.
    """

    __slots__ = (
        "_ask_owner",
        "_container",
        "_end_is_uncertain",
        "_open",
        "_processor",
        "_question",
        "_values",
        "_writers",
        "may_answer",
        "state",
    )

    def __init__(
        self,
        processor: OperationProcessor,
        container: ContainerState,
        state: SegmentState,
        ask_owner: Callable[[OwnerQuestion], None],
        values: AttributeValues,
        may_answer: Callable[[], bool],
    ) -> None:
        self._processor = processor
        self._container = container
        self._ask_owner = ask_owner
        self._question: OwnerQuestion | None = None
        """To be answered before the next append is refused."""
        self._open = True
        self._end_is_uncertain = False
        """Whether the last append waits for operations in flight, not for admission."""
        self._values = values
        self._writers: set[bytes] = set()
        """Writers whose event numbers are held in memory."""
        self.may_answer = may_answer
        """At the moment of an answer: whether this process may give it."""
        self.state = state
        state.hold()

    def close(self) -> None:
        """End the use of the segment. Idempotent."""
        if self._open:
            self._open = False
            self.state.attributes.release(self._writers)
            self._writers.clear()
            self.state.release()
            self.state.touch(self._container.sequence)  # single appends do not

    def last_event_number(self, writer_id: bytes) -> int:
        """The writer's last durable event number, or ATTRIBUTE_NULL."""
        return self.state.attributes.durable.get(writer_id, ATTRIBUTE_NULL)

    def accepted_event_number(self, writer_id: bytes) -> int:
        """The writer's last accepted event number, durable or not, or ATTRIBUTE_NULL."""
        return self.state.attributes.accepted.get(writer_id, ATTRIBUTE_NULL)

    def is_settled(self, writer_id: bytes) -> bool:
        """Whether the event number of a writer is in memory, and the accepted one is durable."""
        return not self.state.attributes.missing((writer_id,)) and self.last_event_number(
            writer_id
        ) == self.accepted_event_number(writer_id)

    def check_writer(self, writer_id: bytes) -> None:
        """Refuse a writer whose first append would be refused; hold the event number of another in memory,
        where it is.

        Raises:
            TooManyAttributesError: a scratch segment has the maximum number of writers.
        """
        state = self.state
        if not state.accepted_sealed:
            state.attributes.check_capacity(state.name, (writer_id,))
        self._hold(writer_id)

    def _hold(self, writer_id: bytes) -> None:
        if self._open and writer_id not in self._writers:
            self._writers.add(writer_id)
            self.state.attributes.hold((writer_id,))

    async def settle(self, writer_id: bytes) -> None:
        """Wait until the event number of a writer is in memory, and what was accepted from it before this
        call is durable.

        Raises:
            ContainerOfflineError: this owner ended, and whether it is durable is unknown.
            NoSuchSegmentError: the segment was retired meanwhile.
            ThrottledError, StorageReadError, DataCorruptionError: its event number cannot be loaded now.
        """
        self._hold(writer_id)
        await self._values.load(self.state, (writer_id,))
        await self._processor.flush()
        if self.state.attributes.missing((writer_id,)):
            await self._values.load(self.state, (writer_id,))  # it has got an index meanwhile
            if self.state.attributes.missing((writer_id,)):
                raise NoSuchSegmentError(self.state.name)
        number = self.last_event_number(writer_id)
        if self._processor.has_ended and number != self.accepted_event_number(writer_id):
            raise ContainerOfflineError("the container has stopped; reconnect to its next owner")
        if not self.may_answer():
            raise ContainerOfflineError("the container is not served here any more")

    def can_accept(self, size_bytes: int, expected_offset: int = -1) -> bool:
        """See :meth:`LogAdmission.can_accept`.

        False also while a seal, merge or deletion of the segment is in flight: a refusal is final for a
        writer, which then continues in another segment, and the operation may still fail. Likewise while
        operations in flight make the segment longer than ``expected_offset``: without them the offset is
        right. If the segment is shorter, False until the owner of the container is known: a successor may
        have extended it. A segment that is longer is longer for every later owner.
        """
        state = self.state
        if (
            (
                state.durable_length <= expected_offset < state.accepted_length
                or ((state.accepted_sealed or state.accepted_deleted) and not state.end_is_durable)
            )
            and not state.evicted
            and not self._processor.has_ended
        ):
            self._end_is_uncertain = True
            return False
        if expected_offset > state.accepted_length and not self._may_refuse(expected_offset):
            return False
        return self._processor.can_accept(size_bytes)

    def _may_refuse(self, expected_offset: int) -> bool:
        """Whether an append beyond the end of the segment can be answered."""
        question = self._question
        if question is None or question.offset != expected_offset:
            question = self._question = OwnerQuestion(expected_offset)
            self._ask_owner(question)
        return question.is_answered

    def wait_capacity(self, size_bytes: int, resume: Callable[[], None]) -> None:
        """Call ``resume`` once, later, on the loop, when a block of that size may fit."""
        question = self._question
        if self._end_is_uncertain:
            self._end_is_uncertain = False
            self._processor.wait_durable(resume)
        elif question is not None and not question.is_answered:
            question.wait(resume)
        else:
            self._processor.wait_capacity(size_bytes, resume)

    def stop_waiting(self, resume: Callable[[], None]) -> None:
        """Forget a ``wait_capacity``; its ``resume`` may still be called if that is scheduled already."""
        if self._question is not None:
            self._question.stop_waiting(resume)
        self._processor.stop_waiting(resume)

    def append_block(
        self,
        owner: AppendOwner,
        pieces: Sequence[memoryview],
        size: int,
        *,
        previous_event_number: int,
        last_event_number: int,
        event_count: int,
        request_id: int,
        expected_offset: int = -1,
    ) -> None:
        """See :meth:`OperationProcessor.append_block`. With ``expected_offset`` it is conditional, and
        answered by an ``on_durable`` of its own; plain ones of one owner in one read may share one.

        Raises:
            FencedOutError: a newer owner may have extended the segment to the expected length.
        """
        question, self._question = self._question, None
        try:
            self._processor.append_block(
                self.state,
                owner,
                pieces,
                size,
                previous_event_number,
                last_event_number,
                event_count,
                request_id,
                expected_offset,
            )
        except OffsetMismatchError as error:
            if expected_offset > error.actual:
                assert question is not None  # can_accept has set it
                if question.error is not None:
                    raise question.error from error
            raise

    def end_of_read(self) -> None:
        """The connection has handed over everything it received."""
        self._processor.end_of_read()

"""One writer on one connection: order, repetition and refusal of its appends.

Event numbers move left to right::

    acked        <=  accepted         <=  seen
    acknowledged     handed to the        highest that arrived
    to the client    container            (refused ones count)

An append is handed over under the condition that the writer's attribute is ``accepted``: it fails if another
connection wrote under the same id. Refusals are sent behind the acknowledgements of everything accepted
before them. Source: ``docs/formats/wire.md``, "Conversation".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from headrace.errors import (
    AttributeMismatchError,
    HeadraceError,
    InvalidArgumentError,
    OffsetMismatchError,
    SegmentSealedError,
)
from headrace.segmentstore.container.append_target import AppendTarget
from headrace.segmentstore.ingress.charges import REFUSAL_BYTES, Charges
from headrace.segmentstore.ingress.home import ServedConnection
from headrace.segmentstore.ingress.reply_mapping import Question, reply_to
from headrace.wire.acknowledgement import encode_data_appended
from headrace.wire.commands import AppendSetup, ConditionalCheckFailed, InvalidEventNumber
from headrace.wire.commands.kinds import Reply
from headrace.wire.frames import encode
from headrace.wire.server_session import WriterRegistration


class AppendSession:
    """A writer that was set up; to the container, the owner of its appends."""

    __slots__ = (
        "_accepted",
        "_acked",
        "_closing",
        "_connection",
        "_refusals",
        "_silenced",
        "_waiting",
        "registration",
        "segment",
        "target",
        "writer_id",
    )

    def __init__(
        self,
        connection: ServedConnection,
        target: AppendTarget,
        registration: WriterRegistration,
        waiting: Charges,
    ) -> None:
        self._connection = connection
        self._waiting = waiting
        self.target = target
        self.registration = registration
        self.writer_id = registration.writer_id
        self.segment = registration.segment
        self._accepted = self._acked = target.last_event_number(self.writer_id)
        self._refusals: deque[tuple[int, bytes]] = deque()
        self._closing = False
        self._silenced = False
        """Whether this process may not acknowledge any more."""

    # -------------------------------------------------------------------------------------- set-up

    @property
    def in_flight(self) -> bool:
        """Whether appends are accepted and not acknowledged."""
        return self._accepted != self._acked

    def on_setup(self, request_id: int, registration: WriterRegistration) -> None:
        """The writer is set up (again): answer behind all owed replies. Event numbers start over."""
        self.registration = registration
        self._refuse(AppendSetup(request_id, self.segment, self.writer_id, self._accepted))

    # -------------------------------------------------------------------------------------- appends

    def append(
        self,
        pieces: Sequence[memoryview],
        size: int,
        numbers: Sequence[int],
        request_ids: Sequence[int],
        event_count: int,
        expected_offset: int = -1,
    ) -> bool:
        """Hand over a batch of plain appends, or one conditional append.

        Returns:
            False if the container has no capacity now; then nothing changed.

        Raises:
            ProtocolError: the event number decreases.
        """
        target = self.target
        if not target.may_answer():
            self._silence()
            return True
        if not target.can_accept(size, expected_offset):
            return False
        first, last = numbers[0], numbers[-1]
        self.registration.on_numbers(first, last)
        accepted = self._accepted
        if first <= accepted:
            self._conflict(first, request_ids[0])
            return True
        try:
            target.append_block(
                self,
                pieces,
                size,
                previous_event_number=accepted,
                last_event_number=last,
                event_count=event_count,
                request_id=request_ids[-1],
                expected_offset=expected_offset,
            )
        except HeadraceError as error:
            for number, request_id in zip(numbers, request_ids, strict=True):
                self._on_refused(error, number, request_id)
            return True
        if accepted == self._acked:
            self._connection.on_busy(1)
        self._accepted = last
        return True

    # -------------------------------------------------------------------------------------- refusals

    def _on_refused(self, error: HeadraceError, number: int, request_id: int) -> None:
        if self._closing:
            return  # one conflict ends the connection; appends of the same batch need no answer
        if isinstance(error, AttributeMismatchError) or (
            # Appends of a former connection of the writer were accepted between the set-up and the seal: a
            # writer that was notified of the seal alone would send them again, into another segment.
            isinstance(error, SegmentSealedError)
            and self.target.accepted_event_number(self.writer_id) != self._accepted
        ):
            self._conflict(number, request_id)
        elif isinstance(error, OffsetMismatchError):
            self._refuse(ConditionalCheckFailed(self.writer_id, number, request_id))
        else:
            offset = number if isinstance(error, SegmentSealedError) else -1
            reply = reply_to(error, Question(request_id, self.segment, offset, "append"))
            if reply is None:
                self._closing = True
                self._connection.close_after_replies(f"an append failed: {error}")
            else:
                self._refuse(reply)
                if isinstance(error, InvalidArgumentError):
                    # The acknowledgement of a later append would cover this one.
                    self._closing = True
                    self._connection.close_after_replies(f"an append was refused: {error}")

    def _conflict(self, number: int, request_id: int) -> None:
        """The append does not continue the writer's history: the writer has to learn its event number."""
        self._refuse(InvalidEventNumber(self.writer_id, request_id, "", number))
        self._closing = True
        self._connection.close_after_replies(f"event number {number} does not continue {self._accepted}")

    def _refuse(self, reply: Reply) -> None:
        """Send ``reply`` behind the acknowledgement of everything accepted so far."""
        frame = encode(reply)
        if not self.in_flight:
            self._connection.send(frame)
        elif self._waiting.full:
            self._closing = True
            self._connection.close_after_replies(f"{self._waiting.count} refused appends wait")
        else:
            self._waiting.add(len(frame) + REFUSAL_BYTES)
            self._refusals.append((self._accepted, frame))
            # No acknowledgement may cover appends on both sides of this reply.
            self.target.end_of_read()

    def _pop_refusal(self) -> bytes:
        frame = self._refusals.popleft()[1]
        self._waiting.remove(1, len(frame) + REFUSAL_BYTES)
        return frame

    # ---------------------------------------------------------------------------------- from the container

    def on_durable(self, last_event_number: int, request_id: int, segment_length: int) -> None:
        if self._silenced or not self.target.may_answer():
            self._silence()
            return
        send = self._connection.send
        send(encode_data_appended(self.writer_id, last_event_number, self._acked, request_id, segment_length))
        self._acked = last_event_number
        refusals = self._refusals
        while refusals and refusals[0][0] <= last_event_number:
            send(self._pop_refusal())
        if last_event_number == self._accepted:
            self._connection.on_busy(-1)

    def on_failed(self, error: HeadraceError) -> None:
        """Whether appends in flight are durable is unknown: the client has to reconnect and ask."""
        self._drop_in_flight()
        self._connection.close_after_replies(f"the container ended: {error}")

    def _silence(self) -> None:
        """Another store may serve the segment: nothing is acknowledged, the client has to ask there."""
        self._silenced = True
        self._drop_in_flight()
        self._connection.close_after_replies(f"{self.segment} is not served here any more")

    def _drop_in_flight(self) -> None:
        if self.in_flight:
            self._acked = self._accepted
            while self._refusals:
                self._pop_refusal()
            self._connection.on_busy(-1)
        self._closing = True

    @property
    def refusals(self) -> int:
        """How many refusals wait for acknowledgements."""
        return len(self._refusals)

    def check(self) -> None:
        """Assert the order of the numbers and of the refusals."""
        assert self._acked <= self._accepted
        assert not self._refusals or self.in_flight
        assert all(a[0] <= b[0] for a, b in zip(self._refusals, list(self._refusals)[1:], strict=False))

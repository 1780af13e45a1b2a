"""Clients of whole streams: writers that follow scales, a reader of everything, transactions on a ring.

They talk to controllers through :class:`ControllersWorld` and to segments directly, as if each of their
appends were acknowledged at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.errors import NoSuchSegmentError, SegmentSealedError
from headrace.limits import INT64_MIN
from headrace.model.key_space import KeyRange, split_evenly
from headrace.model.names import segment_name, transaction_segment_name
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import controller_pb2 as pb
from headrace.runtime.entropy import SeededEntropy
from tests.simulation.worlds.controllers_world import ControllersWorld

SCOPE: Final = "s"
_KEYS_MOVED: Final = 3
"""By one transaction."""
_GROUP_ID: Final = "00000000-0000-0000-0000-000000000001"


def info(stream: str) -> pb.StreamInfo:
    return pb.StreamInfo(scope=SCOPE, stream=stream)


def answered(_: Any) -> bool:
    """Any answer is an answer."""
    return True


@dataclass(frozen=True)
class Piece:
    """One segment with its range, as a client knows it."""

    segment_id: int
    key_range: KeyRange


def pieces(ranges: Iterable[Any]) -> list[Piece]:
    return [Piece(each.segmentId.segmentId, KeyRange(each.minKey, each.maxKey)) for each in ranges]


class StreamClient:
    """What all clients of one stream need."""

    def __init__(self, world: ControllersWorld, stream: str, entropy: SeededEntropy) -> None:
        self.world = world
        self.stream = stream
        self.entropy = entropy
        self.draw = entropy.randbelow

    async def pause(self, longest_ms: int = 2_000) -> None:
        await asyncio.sleep(self.draw(longest_ms) / 1000)

    def name(self, segment_id: int) -> str:
        return segment_name(SCOPE, self.stream, segment_id)

    async def current(self) -> list[Piece]:
        answer = await self.world.ask("get_current_segments", info(self.stream), final=answered)
        return pieces(answer.segmentRanges)

    async def successors(self, segment_id: int) -> list[tuple[Piece, list[int]]]:
        request = pb.SegmentId(streamInfo=info(self.stream), segmentId=segment_id)
        answer = await self.world.ask("get_segments_immediately_following", request, final=answered)
        return [(pieces([each.segment])[0], list(each.value)) for each in answer.segments]


class KeyWriter(StreamClient):
    """Writes numbered events of a few keys, one at a time per key, through any number of scales."""

    def __init__(
        self, world: ControllersWorld, stream: str, entropy: SeededEntropy, positions: list[float]
    ) -> None:
        super().__init__(world, stream, entropy)
        self.positions = positions
        self.acknowledged = dict.fromkeys(positions, 0)
        self._places: dict[float, int] = {}

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            position = self.positions[self.draw(len(self.positions))]
            number = self.acknowledged[position] + 1
            await self.write(position, b"%.4f:%d;" % (position, number))
            self.acknowledged[position] = number
            await self.pause(400)

    async def write(self, position: float, event: bytes) -> None:
        while True:
            place = self._places.get(position)
            if place is None:
                place = _at(position, await self.current())
            try:
                self.world.segments.write(self.name(place), event)
            except (SegmentSealedError, NoSuchSegmentError):
                self._places[position] = await self._next(place, position)
            else:
                self._places[position] = place
                return

    async def _next(self, place: int, position: float) -> int:
        while True:
            found = [piece for piece, _ in await self.successors(place)]
            if found:
                return _at(position, found)
            await self.pause(300)  # known once the scale has revealed them


def _at(position: float, found: list[Piece]) -> int:
    places = [each.segment_id for each in found if each.key_range.contains(position)]
    assert len(places) == 1, f"{position} belongs to {places} of {found}"
    return places[0]


class Scaler(StreamClient):
    """Splits and merges segments at random."""

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self.pause(10_000)
            current = await self.current()
            if not current:
                return
            sealed, ranges = self._choose(current)
            request = pb.ScaleRequest(
                streamInfo=info(self.stream),
                sealedSegments=[piece.segment_id for piece in sealed],
                newKeyRanges=[
                    pb.ScaleRequest.KeyRangeEntry(start=each.low, end=each.high) for each in ranges
                ],
                scaleTimestamp=0,
            )
            await self.world.ask("scale", request, final=answered)  # whatever becomes of it

    def _choose(self, current: list[Piece]) -> tuple[list[Piece], list[KeyRange]]:
        index = self.draw(len(current))
        if len(current) > 4 or (len(current) > 1 and self.draw(2)):
            index = min(index, len(current) - 2)
            left, right = current[index : index + 2]
            return [left, right], [KeyRange(left.key_range.low, right.key_range.high)]
        return [current[index]], list(split_evenly(current[index].key_range, 2 + self.draw(2)))


class Reader(StreamClient):
    """Reads a stream from its head to its tail in the order that the protocol allows."""

    def __init__(self, world: ControllersWorld, stream: str, entropy: SeededEntropy) -> None:
        super().__init__(world, stream, entropy)
        self.events: list[bytes] = []
        self._offsets: dict[int, int] = {}
        self._ended: set[int] = set()
        self._waiting: set[int] = set()
        """Successors that have a predecessor which has not ended."""

    async def run(self) -> None:
        """Read until cancelled."""
        await self.open()
        while True:
            await self.step()
            await self.pause()

    async def open(self) -> None:
        if self._offsets or self._ended:
            return
        request = pb.GetSegmentsRequest(streamInfo=info(self.stream))
        answer = await self.world.ask("get_segments", request, final=answered)
        self._offsets = {each.segmentId.segmentId: each.offset for each in answer.segments}

    async def finish(self) -> list[bytes]:
        """Read what is left and return all events."""
        await self.open()
        while await self.step():
            pass
        return self.events

    async def step(self) -> bool:
        """Read what there is; return whether there was a segment that ended."""
        ended = False
        for segment_id, offset in list(self._offsets.items()):
            segment = self.world.segments.segments.get(self.name(segment_id))
            assert segment is not None, f"{self.name(segment_id)} is gone, and was not read to its end"
            sealed, data = segment.sealed, bytes(segment.data[offset:])
            assert offset >= segment.start_offset
            self.events += [part for part in data.split(b";") if part]
            self._offsets[segment_id] = offset + len(data)
            if sealed:
                await self._end(segment_id)
                ended = True
        return ended

    async def _end(self, segment_id: int) -> None:
        following = await self.successors(segment_id)
        del self._offsets[segment_id]
        self._ended.add(segment_id)
        for piece, predecessors in following:
            assert segment_id in predecessors
            if piece.segment_id in self._ended:
                continue
            if set(predecessors) <= self._ended:
                self._offsets[piece.segment_id] = 0
                self._waiting.discard(piece.segment_id)
            else:
                self._waiting.add(piece.segment_id)


class Subscriber(Reader):
    """A reader whose group has the stream retained: what it has not reported to have read must stay."""

    group: Final = "subscriber"

    async def subscribe(self) -> None:
        """Create the group and report the head, before anything is written."""
        request = pb.ReaderGroupConfiguration(
            scope=SCOPE,
            readerGroupName=self.group,
            maxOutstandingCheckpointRequest=1,
            retentionType=pb.ReaderGroupConfiguration.MANUAL,
            readerGroupId=_GROUP_ID,
            startingStreamCuts=[pb.StreamCut(streamInfo=info(self.stream))],
        )
        await self.world.ask(
            "create_reader_group", request, final=lambda answer: answer.status == answer.SUCCESS
        )
        await self.open()
        await self.report()

    async def run(self) -> None:
        while True:
            await self.step()
            await self.pause(20_000)
            if self.draw(2):
                await self.report()

    async def report(self) -> None:
        waiting = dict.fromkeys(self._waiting, -1)
        cut = pb.StreamCut(streamInfo=info(self.stream), cut={**waiting, **self._offsets})
        request = pb.SubscriberStreamCut(
            subscriber=f"{SCOPE}/{self.group}", generation=0, readerGroupId=_GROUP_ID, streamCut=cut
        )
        answer = await self.world.ask("update_subscriber_stream_cut", request, final=answered)
        assert answer.status == answer.SUCCESS, answer


def check_order(events: list[bytes], writers: Iterable[KeyWriter]) -> None:
    """Assert that each key's events are all there, once and in order."""
    seen: dict[str, list[int]] = {}
    for event in events:
        key, _, number = event.decode().partition(":")
        seen.setdefault(key, []).append(int(number))
    for writer in writers:
        for position, last in writer.acknowledged.items():
            found = seen.pop(f"{position:.4f}", [])
            assert found == list(range(1, last + 1)), (position, found, last)
    assert not seen


@dataclass
class Ring:
    """Which key follows which, as far as transactions have committed."""

    positions: list[float]
    following: dict[float, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = len(self.positions)
        self.following = {
            position: self.positions[(index + 1) % count] for index, position in enumerate(self.positions)
        }


class RingMover(StreamClient):
    """Moves keys of a ring, three of them in each transaction, one transaction after the other."""

    def __init__(
        self, world: ControllersWorld, stream: str, entropy: SeededEntropy, positions: list[float]
    ) -> None:
        super().__init__(world, stream, entropy)
        self.ring = Ring(positions)
        self.committed = 0

    async def run(self, steps: int) -> None:
        for _ in range(steps):
            await self.pause(3_000)
            await self.move()

    async def move(self) -> None:
        first = self.ring.positions[self.draw(len(self.ring.positions))]
        second = self.ring.following[first]
        third = self.ring.following[second]
        moved = {first: third, third: second, second: self.ring.following[third]}
        beginning = pb.CreateTxnRequest(streamInfo=info(self.stream), lease=10_000 + self.draw(20_000))
        txn = await self.world.ask("create_transaction", beginning, final=answered)
        if not self._write(txn, moved):
            return  # its lease ran out meanwhile
        await self.pause(self.draw(2) * 60_000 + 100)
        wants_abort = self.draw(5) == 0
        request = pb.TxnRequest(streamInfo=info(self.stream), txnId=txn.txnId, timestamp=INT64_MIN)
        await self.world.ask(
            "abort_transaction" if wants_abort else "commit_transaction", request, final=answered
        )
        if await self._outcome(request) == pb.TxnState.COMMITTED:
            assert not wants_abort
            self.ring.following.update(moved)
            self.committed += 1

    def _write(self, txn: pb.CreateTxnResponse, moved: dict[float, float]) -> bool:
        parts = pieces(txn.activeSegments)
        for position, following in moved.items():
            parent = self.name(_at(position, parts))
            shadow = transaction_segment_name(parent, txn_id_from_message(txn.txnId))
            try:
                self.world.segments.write(shadow, b"%.4f:%.4f;" % (position, following))
            except (NoSuchSegmentError, SegmentSealedError):
                return False
        return True

    async def _outcome(self, request: pb.TxnRequest) -> int:
        def settled(answer: pb.TxnState) -> bool:
            return answer.state in {pb.TxnState.COMMITTED, pb.TxnState.ABORTED}

        answer = await self.world.ask("check_transaction_state", request, final=settled)
        state: int = answer.state
        return state

    def check(self, events: list[bytes]) -> None:
        """Assert that a reader who applies the events in their order sees the ring that was committed, and
        that each transaction was committed once.
        """
        assert len(events) == _KEYS_MOVED * self.committed, (len(events), self.committed)
        seen = Ring(self.ring.positions).following
        for event in events:
            key, _, following = event.decode().partition(":")
            seen[_known(float(key), self.ring.positions)] = _known(float(following), self.ring.positions)
        assert seen == self.ring.following
        start = position = self.ring.positions[0]
        around = 0
        while True:
            position, around = seen[position], around + 1
            if position == start:
                break
        assert around == len(seen)


def _known(value: float, positions: list[float]) -> float:
    return min(positions, key=lambda each: abs(each - value))


class Churner(StreamClient):
    """Creates, seals and deletes streams of a few names again and again."""

    async def run(self, steps: int) -> None:
        for step in range(steps):
            self.stream = f"churn-{self.draw(2)}"
            await self.create(1 + self.draw(3))
            await self.pause()
            if self.draw(3) == 0:
                await Scaler(self.world, self.stream, self.entropy).run(1)
            if step == steps - 1 or self.draw(4):
                await self.remove()

    async def create(self, segments: int) -> None:
        request = pb.StreamConfig(
            streamInfo=info(self.stream), scalingPolicy=pb.ScalingPolicy(minNumSegments=segments)
        )
        done = {pb.CreateStreamStatus.SUCCESS, pb.CreateStreamStatus.STREAM_EXISTS}
        await self.world.ask("create_stream", request, final=lambda answer: answer.status in done)

    async def remove(self) -> None:
        sealed = {pb.UpdateStreamStatus.SUCCESS, pb.UpdateStreamStatus.STREAM_NOT_FOUND}
        await self.world.ask("seal_stream", info(self.stream), final=lambda answer: answer.status in sealed)
        gone = {pb.DeleteStreamStatus.SUCCESS, pb.DeleteStreamStatus.STREAM_NOT_FOUND}
        await self.world.ask("delete_stream", info(self.stream), final=lambda answer: answer.status in gone)

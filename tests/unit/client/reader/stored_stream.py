"""A stream in memory, and all that a reader of the client asks about it: no sockets, on whichever loop."""

import asyncio
from types import SimpleNamespace

from headrace.client import ReaderConfig
from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.framing.event_frames import frame_list
from headrace.client.reader.byte_reader import ByteReader
from headrace.client.reader.event_reader import EventReader
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_calls import SegmentInfo
from headrace.client.segment_map import SegmentRange, Successor
from headrace.errors import NoSuchSegmentError, NoSuchStreamError
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.names import segment_name
from headrace.model.segment_id import epoch_of, make_segment_id
from headrace.runtime.entropy import SeededEntropy
from headrace.runtime.supervisor import Supervisor
from headrace.testing.loop import SimulatedLoop
from headrace.wire import commands as c

_HEADROOM = 24
"""In front of a block: what is split between two blocks fits into it, or does not."""


def on_virtual_time(scenario):
    loop = SimulatedLoop(SeededEntropy(1))
    try:
        loop.run_until_complete(scenario)
    finally:
        loop.close()


class Segment:
    def __init__(self, key_range, predecessors=()):
        self.key_range = key_range
        self.predecessors = predecessors
        self.data = bytearray()
        self.start = 0
        self.sealed = False
        self.gone = False


class StoredStream:
    """A stream of two segments. It is the connection to the owner of all of them, and the controller."""

    scope, stream, uri = "s", "t", "memory"

    def __init__(self, block_bytes=64):
        self.segments = {n: Segment(key_range) for n, key_range in enumerate(split_evenly(FULL_RANGE, 2))}
        self.events = {n: [] for n in self.segments}
        """By segment: offset and payload of each event that was ever stored."""
        self.block_bytes = block_bytes
        self._flows = {}
        self._waiting = []
        self._ids = 0

    def reader(self, *, start="head", on_truncation="raise"):
        """Return the opening of a reader, for the loop that it is awaited on."""
        config = ReaderConfig(on_truncation=on_truncation)
        return EventReader.open(
            self.scope, self.stream, self._services(), self, config, start=start, end=None
        )

    def part(self, segment_id, start, end):
        """Return a reader of a range."""
        address = SegmentAddress(self.scope, self.stream, segment_id)
        return SegmentRangeReader(address, start, end, self._services(), ReaderConfig())

    def byte_reader(self, offset=0):
        """Return a reader of the first segment as bytes."""
        address = SegmentAddress(self.scope, self.stream, 0)
        return ByteReader(address, self._services(), self, ReaderConfig(), offset)

    def _services(self):
        return SimpleNamespace(
            uri=self.uri,
            segments=self,
            tokens=self,
            pool=self,
            entropy=SeededEntropy(1),
            supervisor=Supervisor("reader"),
        )

    # ---- what tests do, on the loop of the reader

    def append(self, segment_id, payload):
        segment = self.segments[segment_id]
        assert not segment.sealed
        self.events[segment_id].append((len(segment.data), payload))
        segment.data += frame_list([payload])[0]
        self._wake()

    def truncate(self, segment_id, offset):
        segment = self.segments[segment_id]
        segment.start = max(segment.start, offset)
        self._wake()

    def delete(self, segment_id):
        self.segments[segment_id].gone = True
        self._wake()

    def replace(self, segment_id):
        """Seal a segment and continue it; return the id of its successor."""
        old = self.segments[segment_id]
        made = make_segment_id(len(self.segments), max(map(epoch_of, self.segments)) + 1)
        self.segments[made] = Segment(old.key_range, (segment_id,))
        self.events[made] = []
        old.sealed = True
        self._wake()
        return made

    def seal(self):
        for segment in self.segments.values():
            segment.sealed = True
        self._wake()

    # ---- the controller

    async def head(self, scope, stream):
        return {0: self.segments[0].start, 1: self.segments[1].start}

    async def of_epoch(self, scope, stream, epoch):
        found = [
            SegmentRange(segment_id, segment.key_range)
            for segment_id, segment in self.segments.items()
            if epoch_of(segment_id) == epoch
        ]
        if not found:
            raise NoSuchStreamError("no such epoch")
        return found

    async def successors(self, scope, stream, segment_id):
        await asyncio.sleep(0)
        return [
            Successor(other, segment.key_range, segment.predecessors)
            for other, segment in self.segments.items()
            if segment_id in segment.predecessors
        ]

    async def info(self, address):
        segment = self.segments[address.segment_id]
        if segment.gone:
            raise NoSuchSegmentError(address.name)
        return SegmentInfo(address.segment_id, segment.start, len(segment.data), segment.sealed, 0)

    async def token(self, scope, stream, access):
        return ""

    async def endpoint(self, scope, stream, segment_id):
        return self

    def forget_endpoint(self, scope, stream, segment_id):
        pass

    # ---- the connection

    async def lease(self, endpoint, use):
        return self

    def new_request_id(self):
        self._ids += 1
        return self._ids

    def register(self, request_id, flow):
        self._flows[request_id] = flow

    def unregister(self, request_id):
        self._flows.pop(request_id, None)

    def send(self, command):
        asyncio.get_running_loop().call_soon(self._answer, command)

    def _wake(self):
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            self.send(command)

    def _answer(self, command):
        flow = self._flows.get(command.request_id)
        if flow is None:
            return
        reply = self._reply(command)
        if reply is None:
            self._waiting.append(command)
        else:
            flow.on_reply(reply)

    def _reply(self, command):
        name = command.segment
        segment_id = next(
            each for each in self.segments if segment_name(self.scope, self.stream, each) == name
        )
        segment, request_id = self.segments[segment_id], command.request_id
        length = len(segment.data)
        if segment.gone:
            return c.NoSuchSegment(request_id, name)
        if isinstance(command, c.GetStreamSegmentInfo):
            return c.StreamSegmentInfo(
                request_id, name, True, segment.sealed, False, 0, length, segment.start
            )
        offset = command.offset
        if offset < segment.start:
            return c.SegmentIsTruncated(request_id, name, segment.start, "", offset)
        if offset == length and not segment.sealed:
            return None
        data = segment.data[offset : offset + min(command.suggested_length, self.block_bytes)]
        end = _HEADROOM + len(data)
        return ReadBlock(
            bytearray(_HEADROOM) + data,
            _HEADROOM,
            end,
            offset,
            request_id,
            at_tail=offset + len(data) == length,
            end_of_segment=segment.sealed and offset + len(data) == length,
        )

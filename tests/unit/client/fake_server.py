"""A segment store and a controller in one process, small enough to be obviously right, with faults on demand.

The store keeps every promise of the protocol about event numbers, seals and order. It can break a
connection before or after it stored an append, so that acknowledgements get lost, and can pretend not to
own a segment for a while.
"""

# ruff: noqa: N802 - the names of calls are those of the protocol

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self

import grpc

from headrace.errors import ProtocolError
from headrace.limits import INT64_MIN
from headrace.model.key_space import FULL_RANGE, KeyRange, split_evenly
from headrace.model.names import segment_name, transaction_segment_name
from headrace.model.segment_id import make_segment_id, number_of
from headrace.rpc import convert
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated.controller_pb2_grpc import (
    ControllerServiceServicer,
    add_ControllerServiceServicer_to_server,
)
from headrace.wire import commands as c
from headrace.wire.frames import FrameDecoder, encode


@dataclass
class FakeSegment:
    data: bytearray = field(default_factory=bytearray)
    start: int = 0
    sealed: bool = False
    writers: dict[bytes, int] = field(default_factory=dict)
    attributes: dict[bytes, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


@dataclass
class Faults:
    """What goes wrong, drawn from a seed: chances per append."""

    random: random.Random = field(default_factory=lambda: random.Random(0))
    drop_before_append: float = 0.0
    drop_after_append: float = 0.0
    wrong_host: float = 0.0
    drop_read: float = 0.0
    cut_reply: float = 0.0

    def hits(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance


class DropConnectionError(Exception):
    pass


class FakeStore:
    """The data plane."""

    def __init__(self) -> None:
        self.segments: dict[str, FakeSegment] = {}
        self.transients: dict[str, FakeSegment] = {}
        """Scratch segments that ever were."""
        self.on_merge = lambda: None
        """Called in front of a merge."""
        self.faults = Faults()
        self.counts: Counter[str] = Counter()
        self.port = 0
        self.largest_append = 0
        self.max_read = 2 << 20
        self.version = 17
        self.ack_gate: asyncio.Event | None = None
        self.refuse_as_wrong_host = False
        """Refuse appends once, and answer all but the first of them only after the writer was set up again.
        """
        self._late_refusals: list[bytes] = []
        self.store_late = False
        """Store a conditional append only when its writer was set up again, over another connection."""
        self._late_appends: list = []
        self.coalesce = False
        self.judge = lambda token: None
        """Says with which error code a token is refused; None: it is not."""
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._frozen: dict[asyncio.StreamWriter, asyncio.Event] = {}
        self._tasks: set[asyncio.Task] = set()

    async def start(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and break every connection; segments survive."""
        if self._server is not None:
            self._server.close()
        self.drop_connections()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def drop_connections(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def freeze(self) -> asyncio.Event:
        """Look at what comes over present connections only when the event is set, even if they are lost."""
        thaw = asyncio.Event()
        for writer in self._writers:
            self._frozen.setdefault(writer, thaw)
        return thaw

    async def stored(self, size: int) -> None:
        """Wait until the first segment has at least ``size`` bytes."""
        segment = next(iter(self.segments.values()))
        while len(segment.data) < size:
            await segment.changed.wait()

    async def _serve(self, reader, writer):
        self._writers.add(writer)
        self.counts["connections"] += 1
        decoder = FrameDecoder()
        session = {}
        tasks = set()
        try:
            while data := await reader.read(1 << 16):
                if (thaw := self._frozen.get(writer)) is not None:
                    await thaw.wait()
                decoder.feed(data)
                replies = []
                while (command := decoder.next_command()) is not None:
                    await self._handle(command, session, writer, tasks, replies)
                await self._flush(writer, session, replies)
        except (DropConnectionError, ConnectionError, ProtocolError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            for task in tasks:
                task.cancel()
            for name in session.get(None, ()):
                self.segments.pop(name, None)
            self._writers.discard(writer)
            writer.close()

    async def _flush(self, writer, session, replies):
        if self.coalesce:
            merged = {}
            for reply in replies:
                known = merged.get(reply.writer_id)
                previous = reply.previous_event_number if known is None else known.previous_event_number
                reply.previous_event_number = previous
                merged[reply.writer_id] = reply
            replies = list(merged.values())
        if replies and self.ack_gate is not None:
            await self.ack_gate.wait()
        for reply in replies:
            raw = encode(reply)
            if self.faults.hits(self.faults.cut_reply):
                writer.write(raw[: self.faults.random.randrange(len(raw))])
                raise DropConnectionError
            writer.write(raw)

    async def _handle(self, command, session, writer, tasks, replies):
        self.counts[type(command).__name__] += 1
        match command:
            case c.Hello():
                writer.write(encode(c.Hello(self.version, 5)))
            case c.KeepAlive():
                writer.write(encode(command))
            case _ if (code := self._judgement(command)) is not None:
                self.counts[f"refused {type(command).__name__}"] += 1
                writer.write(encode(c.AuthTokenCheckFailed(command.request_id, "", code)))
            case c.SetupAppend():
                await self._flush(writer, session, replies)
                replies.clear()
                writer.write(encode(self._setup(command, session)))
                while self._late_appends:
                    self._append_if(*self._late_appends.pop())
                for refusal in self._late_refusals:
                    writer.write(refusal)
                self._late_refusals.clear()
            case c.AppendBlockEnd() if self.refuse_as_wrong_host:
                if self.counts["AppendBlockEnd"] == 1:
                    writer.write(encode(c.WrongHost(command.request_id, session[command.writer_id][0], "")))
                else:
                    refused = c.WrongHost(command.request_id, session[command.writer_id][0], "")
                    self._late_refusals.append(encode(refused))
            case c.AppendBlockEnd():
                reply = self._append(command, session)
                if isinstance(reply, c.DataAppended):
                    replies.append(reply)
                else:
                    await self._flush(writer, session, replies)
                    replies.clear()
                    writer.write(encode(reply))
            case c.ConditionalAppend():
                writer.write(encode(self._append_if(command, session)))
            case c.CreateTransientSegment():
                name = f"{command.parent_segment}#transient.{len(self.transients)}"
                self.transients[name] = self.segments[name] = FakeSegment()
                session.setdefault(None, []).append(name)
                writer.write(encode(c.SegmentCreated(command.request_id, name)))
            case c.ConditionalBlockEnd():
                writer.write(encode(self._append_piece(command, session)))
            case c.MergeSegments():
                writer.write(encode(self._merge(command)))
            case c.DeleteSegment():
                self.segments.pop(command.segment, None)
                writer.write(encode(c.SegmentDeleted(command.request_id, command.segment)))
            case c.GetSegmentAttribute():
                writer.write(encode(self._attribute(command)))
            case c.UpdateSegmentAttribute():
                attributes = self.segments[command.segment].attributes
                fits = attributes.get(command.attribute_id, INT64_MIN) == command.expected_value
                if fits:
                    attributes[command.attribute_id] = command.new_value
                if self.faults.hits(self.faults.drop_after_append):
                    raise DropConnectionError
                writer.write(encode(c.SegmentAttributeUpdated(command.request_id, fits)))
            case c.ReadSegment():
                task = asyncio.get_running_loop().create_task(self._read(command, writer))
                tasks.add(task)
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                task.add_done_callback(tasks.discard)
            case c.GetStreamSegmentInfo():
                writer.write(encode(self._info(command)))
            case c.LocateOffset():
                segment = self.segments[command.segment]
                writer.write(encode(c.OffsetLocated(command.request_id, command.segment, len(segment.data))))
            case c.TruncateSegment():
                segment = self.segments[command.segment]
                segment.start = command.truncation_offset
                writer.write(encode(c.SegmentTruncated(command.request_id, command.segment)))
            case c.SealSegment():
                self.seal(command.segment)
                writer.write(encode(c.SegmentSealed(command.request_id, command.segment)))
            case _:
                raise AssertionError(f"unexpected {command}")

    def _judgement(self, command):
        token = getattr(command, "delegation_token", None)
        return None if token is None else self.judge(token)

    def _setup(self, command, session):
        if self._late_refusals:
            self.refuse_as_wrong_host = False
        if self.faults.hits(self.faults.wrong_host):
            return c.WrongHost(command.request_id, command.segment, "")
        segment = self.segments.get(command.segment)
        if segment is None:
            return c.NoSuchSegment(command.request_id, command.segment)
        last = segment.writers.get(command.writer_id, INT64_MIN)
        session[command.writer_id] = [command.segment, last]
        return c.AppendSetup(command.request_id, command.segment, command.writer_id, last)

    def _append(self, command, session):
        if command.writer_id not in session:
            raise DropConnectionError
        name, last = session[command.writer_id]
        segment = self.segments.get(name)
        faults = self.faults
        if faults.hits(faults.drop_before_append):
            raise DropConnectionError
        if segment is None:
            return c.NoSuchSegment(command.request_id, name)
        if segment.sealed:
            return c.SegmentIsSealed(command.request_id, name, "", command.last_event_number)
        if segment.writers.get(command.writer_id, INT64_MIN) != last or command.last_event_number <= last:
            return c.InvalidEventNumber(command.writer_id, command.request_id)
        segment.data += command.data
        self.largest_append = max(self.largest_append, len(command.data))
        segment.writers[command.writer_id] = command.last_event_number
        session[command.writer_id][1] = command.last_event_number
        segment.wake()
        if faults.hits(faults.drop_after_append):
            raise DropConnectionError
        return c.DataAppended(
            command.writer_id, command.last_event_number, last, command.request_id, len(segment.data)
        )

    def _append_if(self, command, session):
        """Append on condition of the length, then of the number."""
        if self.store_late:
            self.store_late = False
            self._late_appends.append((command, dict(session)))
            raise DropConnectionError
        if command.writer_id not in session or self.faults.hits(self.faults.drop_before_append):
            raise DropConnectionError
        name, last = session[command.writer_id]
        segment = self.segments.get(name)
        if segment is None:
            return c.NoSuchSegment(command.request_id, name)
        if segment.sealed:
            return c.SegmentIsSealed(command.request_id, name, "", 0)
        if len(segment.data) != command.expected_offset:
            return c.ConditionalCheckFailed(command.writer_id, command.event_number, command.request_id)
        if segment.writers.get(command.writer_id, INT64_MIN) != last or command.event_number <= last:
            return c.InvalidEventNumber(command.writer_id, command.request_id)
        segment.data += struct.pack(">ii", 0, len(command.event)) + command.event
        session[command.writer_id][1] = segment.writers[command.writer_id] = command.event_number
        segment.wake()
        if self.faults.hits(self.faults.drop_after_append):
            raise DropConnectionError
        return c.DataAppended(
            command.writer_id, command.event_number, last, command.request_id, len(segment.data)
        )

    def _append_piece(self, command, session):
        if self.faults.hits(self.faults.drop_before_append):
            raise DropConnectionError
        segment = self.segments[session[command.writer_id][0]]
        if len(segment.data) != command.expected_offset:
            return c.ConditionalCheckFailed(command.writer_id, command.event_number, command.request_id)
        segment.data += command.data
        last, segment.writers[command.writer_id] = (
            segment.writers.get(command.writer_id, INT64_MIN),
            command.event_number,
        )
        return c.DataAppended(
            command.writer_id, command.event_number, last, command.request_id, len(segment.data)
        )

    def _merge(self, command):
        self.on_merge()
        faults = self.faults
        if faults.hits(faults.drop_before_append):
            raise DropConnectionError
        target, source = self.segments.get(command.target), self.segments.get(command.source)
        if target is None or source is None:
            return c.NoSuchSegment(command.request_id, command.source)
        if target.sealed:
            return c.SegmentIsSealed(command.request_id, command.source, "", 0)
        for update in command.attribute_updates:
            if target.writers.get(update.attribute_id, INT64_MIN) != update.expected:
                return c.SegmentAttributeUpdated(command.request_id, False)
        for update in command.attribute_updates:
            target.writers[update.attribute_id] = update.value
        del self.segments[command.source]
        target.data += source.data
        target.wake()
        if faults.hits(faults.drop_after_append):
            raise DropConnectionError
        return c.SegmentsMerged(command.request_id, command.target, command.source, len(target.data))

    def _attribute(self, command):
        segment = self.segments.get(command.segment)
        if segment is None:
            return c.NoSuchSegment(command.request_id, command.segment)
        value = (segment.attributes | segment.writers).get(command.attribute_id, INT64_MIN)
        return c.SegmentAttribute(command.request_id, value)

    async def _read(self, command, writer):
        while True:
            if self.faults.hits(self.faults.drop_read):
                writer.transport.abort()
                return
            segment = self.segments.get(command.segment)
            if segment is None:
                reply = c.NoSuchSegment(command.request_id, command.segment, "", command.offset)
            elif command.offset < segment.start:
                reply = c.SegmentIsTruncated(
                    command.request_id, command.segment, segment.start, "", command.offset
                )
            elif command.offset < len(segment.data):
                size = min(command.suggested_length, self.max_read)
                data = bytes(segment.data[command.offset : command.offset + size])
                reply = c.SegmentRead(command.segment, command.offset, False, False, data, command.request_id)
            elif segment.sealed:
                reply = c.SegmentRead(command.segment, command.offset, False, True, b"", command.request_id)
            else:
                await segment.changed.wait()
                continue
            writer.write(encode(reply))
            return

    def _info(self, command):
        segment = self.segments.get(command.segment)
        if segment is None:
            return c.NoSuchSegment(command.request_id, command.segment)
        return c.StreamSegmentInfo(
            command.request_id,
            command.segment,
            True,
            segment.sealed,
            False,
            0,
            len(segment.data),
            segment.start,
        )

    def seal(self, name):
        self.segments[name].sealed = True
        self.segments[name].wake()


class _Door(grpc.aio.ServerInterceptor):
    """Lets those in whose credentials the controller knows."""

    def __init__(self, controller) -> None:
        self._controller = controller

    async def intercept_service(self, proceed, details):
        authorization = dict(details.invocation_metadata).get("authorization")
        self._controller.headers[authorization] += 1
        if self._controller.allows(authorization):
            return await proceed(details)

        async def refuse(_, context):
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "the credentials are missing or wrong")

        return grpc.unary_unary_rpc_method_handler(refuse)


class FakeController(ControllerServiceServicer):
    """The control plane: streams with epochs, manual scaling, transactions without rolling."""

    def __init__(self, store: FakeStore) -> None:
        self.store = store
        self.epochs: dict[tuple[str, str], list[dict[int, KeyRange]]] = {}
        self.tags: dict[tuple[str, str], list[str]] = {}
        self.sealed_streams: set[tuple[str, str]] = set()
        self.heads: dict[tuple[str, str], dict[int, int]] = {}
        self.groups: dict[tuple[str, str], pb.ReaderGroupConfiguration] = {}
        self.released: dict[tuple[str, str], dict[int, int]] = {}
        self.txns: dict[int, tuple[str, str, list[int], int]] = {}
        self.fail_next: list[grpc.StatusCode] = []
        self.outdated: list[pb.SegmentRanges] = []
        """Answers of getCurrentSegments that something else overtakes."""
        self.counts: Counter[str] = Counter()
        self.pinged = asyncio.Event()
        self.slow: asyncio.Event | None = None
        self.port = 0
        self.make_token = lambda request: ""
        """Makes the token of a getDelegationToken."""
        self.headers: Counter[str | None] = Counter()
        """What came as ``authorization``, by call."""
        self.allows = lambda authorization: True
        self._server = None
        self._next_txn = 1

    async def start(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self._server = grpc.aio.server(interceptors=[_Door(self)])
        add_ControllerServiceServicer_to_server(self, self._server)
        address = "127.0.0.1:0"
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(None)

    # ---- what tests do

    def create(self, scope, stream, segments=1, first=0, tags=()):
        self.tags[scope, stream] = list(tags)
        ranges = split_evenly(FULL_RANGE, segments)
        self.epochs[scope, stream] = [{make_segment_id(first + n, 0): r for n, r in enumerate(ranges)}]
        for segment_id in self.epochs[scope, stream][0]:
            self.store.segments[segment_name(scope, stream, segment_id)] = FakeSegment()

    def scale_now(self, scope, stream, sealed, ranges):
        """Create successors, publish them, then seal: the order every controller keeps."""
        epochs = self.epochs[scope, stream]
        number = max(number_of(each) for epoch in epochs for each in epoch) + 1
        made = {make_segment_id(number + n, len(epochs)): r for n, r in enumerate(ranges)}
        for segment_id in made:
            self.store.segments[segment_name(scope, stream, segment_id)] = FakeSegment()
        kept = {each: r for each, r in epochs[-1].items() if each not in sealed}
        epochs.append(kept | made)
        for segment_id in sealed:
            self.store.seal(segment_name(scope, stream, segment_id))
        return made

    def seal_now(self, scope, stream):
        self.sealed_streams.add((scope, stream))
        for segment_id in self.epochs[scope, stream][-1]:
            self.store.seal(segment_name(scope, stream, segment_id))

    def create_anew(self, scope, stream, segments=1):
        """Seal, delete and create a stream: its segments are numbered on."""
        self.seal_now(scope, stream)
        ids = {each for epoch in self.epochs.pop((scope, stream)) for each in epoch}
        for segment_id in ids:
            gone = self.store.segments.pop(segment_name(scope, stream, segment_id))
            gone.wake()
        self.sealed_streams.discard((scope, stream))
        self.create(scope, stream, segments, first=1 + max(map(number_of, ids)))

    def data_of(self, scope, stream):
        """Return the bytes of every segment by id."""
        ids = {each for epoch in self.epochs[scope, stream] for each in epoch}
        return {each: bytes(self.store.segments[segment_name(scope, stream, each)].data) for each in ids}

    # ---- what clients ask

    def _key(self, info):
        return info.scope, info.stream

    async def _known(self, info, context):
        name = self._key(info)
        if name not in self.epochs:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no stream {name}")
        return name

    async def _maybe_fail(self, context):
        if self.fail_next:
            await context.abort(self.fail_next.pop(0), "made to fail")

    async def createScope(self, request, context):
        await self._maybe_fail(context)
        return pb.CreateScopeStatus(status=0)

    async def createStream(self, request, context):
        name = self._key(request.streamInfo)
        if name in self.epochs:
            return pb.CreateStreamStatus(status=2)
        self.create(*name, request.scalingPolicy.minNumSegments, tags=request.tags.tag)
        return pb.CreateStreamStatus(status=0)

    async def updateStream(self, request, context):
        name = await self._known(request.streamInfo, context)
        self.tags[name] = list(request.tags.tag)
        return pb.UpdateStreamStatus(status=0)

    async def listStreamsInScope(self, request, context):
        if request.continuationToken.token:
            return pb.StreamsInScopeResponse(continuationToken=request.continuationToken)
        infos = [pb.StreamInfo(scope=a, stream=b) for a, b in self.epochs if a == request.scope.scope]
        return pb.StreamsInScopeResponse(streams=infos, continuationToken=pb.ContinuationToken(token="more"))

    async def getStreamConfiguration(self, request, context):
        name = await self._known(request, context)
        return pb.StreamConfig(
            streamInfo=request,
            scalingPolicy=pb.ScalingPolicy(minNumSegments=len(self.epochs[name][0])),
            tags=pb.Tags(tag=self.tags[name]),
        )

    async def getCurrentSegments(self, request, context):
        await self._maybe_fail(context)
        name = await self._known(request, context)
        if self.outdated:
            return self.outdated.pop()
        if name in self.sealed_streams:
            return pb.SegmentRanges()
        return self._ranges(name, self.epochs[name][-1])

    async def getEpochSegments(self, request, context):
        name = await self._known(request.streamInfo, context)
        if request.epoch >= len(self.epochs[name]):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no stream epoch {request.epoch}")
        return self._ranges(name, self.epochs[name][request.epoch])

    def _ranges(self, name, epoch):
        listed = sorted(epoch.items(), key=lambda item: item[1])
        return pb.SegmentRanges(
            segmentRanges=[convert.segment_range_to_message(*name, each, r) for each, r in listed]
        )

    async def getSegments(self, request, context):
        name = await self._known(request.streamInfo, context)
        head = self.heads.get(name) or dict.fromkeys(self.epochs[name][0], 0)
        location = pb.SegmentsAtTime.SegmentLocation
        return pb.SegmentsAtTime(
            segments=[
                location(segmentId=convert.segment_id_to_message(*name, each), offset=offset)
                for each, offset in head.items()
            ]
        )

    async def getSegmentsImmediatelyFollowing(self, request, context):
        await self._maybe_fail(context)
        self.counts["successors"] += 1
        if self.slow is not None:
            await self.slow.wait()
        name = await self._known(request.streamInfo, context)
        epochs, mine = self.epochs[name], request.segmentId
        entries = []
        for before, after in pairwise(epochs):
            if mine in before and mine not in after:
                for each, key_range in after.items():
                    if each not in before and key_range.overlaps(before[mine]):
                        parents = [p for p, r in before.items() if r.overlaps(key_range) and p not in after]
                        entries.append(
                            pb.SuccessorResponse.SegmentEntry(
                                segment=convert.segment_range_to_message(*name, each, key_range),
                                value=parents,
                            )
                        )
        return pb.SuccessorResponse(segments=entries)

    async def getSegmentsBetween(self, request, context):
        name = await self._known(request.streamInfo, context)
        low = min(getattr(request, "from"))
        ids = {each for epoch in self.epochs[name] for each in epoch if each >= low}
        return pb.StreamCutRangeResponse(
            segments=[convert.segment_id_to_message(*name, each) for each in ids]
        )

    async def getDelegationToken(self, request, context):
        self.counts["getDelegationToken"] += 1
        if self.slow is not None:
            await self.slow.wait()
        return pb.DelegationToken(delegationToken=self.make_token(request))

    async def getURI(self, request, context):
        self.counts["getURI"] += 1
        return pb.NodeUri(endpoint="127.0.0.1", port=self.store.port)

    async def scale(self, request, context):
        name = await self._known(request.streamInfo, context)
        epoch = len(self.epochs[name]) - 1
        if any(each not in self.epochs[name][-1] for each in request.sealedSegments):
            return pb.ScaleResponse(status=2)
        ranges = [KeyRange(each.start, each.end) for each in request.newKeyRanges]
        made = self.scale_now(*name, list(request.sealedSegments), ranges)
        return pb.ScaleResponse(
            status=0,
            epoch=epoch,
            segments=[convert.segment_range_to_message(*name, each, r) for each, r in made.items()],
        )

    async def checkScale(self, request, context):
        self.counts["checkScale"] += 1
        return pb.ScaleStatusResponse(status=1 if self.counts["checkScale"] > 1 else 0)

    async def truncateStream(self, request, context):
        self.counts["truncateStream"] += 1
        is_sealed = self._key(request.streamInfo) in self.sealed_streams
        return pb.UpdateStreamStatus(status=pb.UpdateStreamStatus.STREAM_SEALED if is_sealed else 0)

    async def sealStream(self, request, context):
        self.seal_now(*await self._known(request, context))
        return pb.UpdateStreamStatus(status=0)

    async def createTransaction(self, request, context):
        name = await self._known(request.streamInfo, context)
        epoch = len(self.epochs[name]) - 1
        txn_id = epoch << 96 | self._next_txn
        self._next_txn += 1
        ids = {make_segment_id(number_of(each), epoch): r for each, r in self.epochs[name][-1].items()}
        for each in ids:
            self.store.segments[transaction_segment_name(segment_name(*name, each), txn_id)] = FakeSegment()
        self.txns[txn_id] = (*name, list(ids), 1)
        return pb.CreateTxnResponse(
            txnId=convert.txn_id_to_message(txn_id),
            activeSegments=[convert.segment_range_to_message(*name, each, r) for each, r in ids.items()],
        )

    async def commitTransaction(self, request, context):
        txn_id = convert.txn_id_from_message(request.txnId)
        if txn_id not in self.txns:
            return pb.TxnStatus(status=3)
        scope, stream, ids, state = self.txns[txn_id]
        if state not in {1, 2, 3}:
            return pb.TxnStatus(status=1)
        if state == 1:
            self.txns[txn_id] = (scope, stream, ids, 2)
            current = {number_of(each): each for each in self.epochs[scope, stream][-1]}
            for each in ids:
                shadow = self.store.segments.pop(
                    transaction_segment_name(segment_name(scope, stream, each), txn_id)
                )
                target = self.store.segments[segment_name(scope, stream, current[number_of(each)])]
                target.data += shadow.data
                target.wake()
        return pb.TxnStatus(status=0)

    async def abortTransaction(self, request, context):
        txn_id = convert.txn_id_from_message(request.txnId)
        if txn_id not in self.txns:
            return pb.TxnStatus(status=3)
        self.abort_now(txn_id)
        return pb.TxnStatus(status=0)

    def abort_now(self, txn_id):
        scope, stream, ids, _ = self.txns[txn_id]
        self.txns[txn_id] = (scope, stream, ids, 5)
        for each in ids:
            self.store.segments.pop(transaction_segment_name(segment_name(scope, stream, each), txn_id), None)

    async def checkTransactionState(self, request, context):
        txn_id = convert.txn_id_from_message(request.txnId)
        scope, stream, ids, state = self.txns.get(txn_id, ("", "", [], 0))
        if state == 2:  # committing is over when somebody has looked
            self.txns[txn_id] = (scope, stream, ids, 3)
        return pb.TxnState(state=state)

    async def createReaderGroup(self, request, context):
        name = request.scope, request.readerGroupName
        if name not in self.groups:
            self.groups[name] = request
            self.create(request.scope, "_RG" + request.readerGroupName)
        return pb.CreateReaderGroupResponse(config=self.groups[name])

    async def getReaderGroupConfig(self, request, context):
        found = self.groups.get((request.scope, request.readerGroup))
        return pb.ReaderGroupConfigResponse(config=found, status=0 if found else 2)

    async def updateReaderGroup(self, request, context):
        name = request.scope, request.readerGroupName
        if self.groups[name].generation != request.generation:
            return pb.UpdateReaderGroupResponse(status=3)
        request.generation += 1
        self.groups[name] = request
        return pb.UpdateReaderGroupResponse(status=0, generation=request.generation)

    async def deleteReaderGroup(self, request, context):
        del self.groups[request.scope, request.readerGroup]
        del self.store.segments[f"{request.scope}/_RG{request.readerGroup}/0.#epoch.0"]
        return pb.DeleteReaderGroupStatus(status=0)

    async def updateSubscriberStreamCut(self, request, context):
        info = request.streamCut.streamInfo
        self.released[info.scope, info.stream] = dict(request.streamCut.cut)
        return pb.UpdateSubscriberStatus(status=0)

    async def pingTransaction(self, request, context):
        self.counts["ping"] += 1
        if self.counts["ping"] == 3:
            self.pinged.set()
        state = self.txns[convert.txn_id_from_message(request.txnId)][3]
        return pb.PingTxnStatus(status={1: 0, 2: 5, 3: 5, 4: 6, 5: 6}[state])


class FakeSystem:
    """A store and a controller that know each other."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.controller = FakeController(self.store)

    @property
    def uri(self) -> str:
        return f"tcp://127.0.0.1:{self.controller.port}"

    async def start(
        self, store_tls: ssl.SSLContext | None = None, credentials: grpc.ServerCredentials | None = None
    ) -> None:
        await self.store.start(tls=store_tls)
        await self.controller.start(credentials)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_) -> None:
        await self.store.stop()
        await self.controller.stop()

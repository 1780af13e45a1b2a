"""Calls that make writers and readers of events, and those that read and write at once."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

from headrace.client.config import ReaderConfig, WriterConfig
from headrace.client.control.writer_times import WriterTimes
from headrace.client.face.core import ClientCore
from headrace.client.face.durable_numbers import find_durable_numbers
from headrace.client.iterators import Each
from headrace.client.opening import Opening
from headrace.client.reader.cuts import Edge, last_of
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_reader import EventReader
from headrace.client.reader.place_questions import PlaceQuestions
from headrace.client.reader.read_loop import ReadLoop
from headrace.client.reader.read_part import ReadPart, Time
from headrace.client.reader.segment_inputs import OnError, check_on_error
from headrace.client.reader.segment_range import SegmentRangeReader
from headrace.client.reader.time_windows import MarkReader, TimeWindows
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import EventForm, PlainForm, RecordForm
from headrace.client.records.event_forms import Time as RecordTime
from headrace.client.scoped_name import named
from headrace.client.segment_address import SegmentAddress
from headrace.client.segment_map import SegmentMap
from headrace.client.serializers import Codec, Serializer, find_codec
from headrace.client.writer.event_writer import EventWriter
from headrace.client.writer.given_events import GivenKey, batches_of
from headrace.client.writer.named_writer import NamedWriter
from headrace.client.writer.numbers import check_name
from headrace.client.writer.txn_writer import TxnWriter
from headrace.errors import StreamSealedError
from headrace.model.watermark import Watermark
from headrace.runtime.clock import SystemClock


class EventFace(ClientCore):
    """Writers and readers of events."""

    @named
    def event_writer(
        self,
        scope: str,
        stream: str,
        config: WriterConfig | None = None,
        *,
        name: str | None = None,
        writer_id: str | None = None,
        serializer: Serializer | str | None = None,
    ) -> Opening[EventWriter]:
        """Open a writer: a context, whose end makes everything durable.

        >>> async with client.event_writer("demo/orders", serializer="json") as writer:
        ...     ack = writer.write({"order": 1}, "customer-7")

        Args:
            scope: of the stream.
            stream: its name.
            config: instead of the client's.
            name: of a writer that outlives its process: its events have numbers, and one that is given again
                under its number is not stored again, as long as the stream retains the segments of the last
                writes. One process at a time uses a name. See :class:`NamedWriter`.
            writer_id: under which times are noted; by default the name, or a random one.
            serializer: what turns events into bytes: ``"json"``, ``"utf8"``, or an object with ``dumps`` and
                ``loads``. None: events are bytes or text.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
        """
        codec = find_codec(serializer)
        if name is not None:
            check_name(name)
        config = config or self.config.writer
        return Opening(self._open_writer(scope, stream, config, name, writer_id, codec))

    async def _open_writer(
        self,
        scope: str,
        stream: str,
        config: WriterConfig,
        name: str | None,
        writer_id: str | None,
        codec: Codec | None,
    ) -> EventWriter:
        services = self._services
        segments = await services.segments.current(scope, stream)
        if not segments:
            raise StreamSealedError(f"stream {scope}/{stream} is sealed")
        form = await self._form_of(scope, stream, codec)
        made = SegmentMap(segments)
        make: Callable[..., EventWriter] = EventWriter
        if name is not None:
            durable = await find_durable_numbers(self._cuts, services, self._calls, scope, stream, made, name)
            make = partial(NamedWriter, name=name, durable=durable)
        times = WriterTimes(self._controller)
        writer = make(
            scope,
            stream,
            services,
            config,
            made,
            calls=self._calls,
            times=times,
            writer_id=writer_id or name,
            form=form,
        )
        return services.open_writers.add(writer)

    async def _form_of(self, scope: str, stream: str, codec: Codec | None) -> EventForm:
        """Return how events of a stream are written."""
        has_records = await self._streams.has_records(scope, stream)
        return (
            RecordForm(SystemClock().now_ms, codec) if has_records else PlainForm(f"{scope}/{stream}", codec)
        )

    @named
    def event_reader(
        self,
        scope: str,
        stream: str,
        *,
        start: Edge = "head",
        end: Edge | None = None,
        since: Time | None = None,
        until: Time | None = None,
        last: int | None = None,
        limit: int | None = None,
        on_error: OnError = "raise",
        config: ReaderConfig | None = None,
        serializer: Serializer | str | None = None,
    ) -> Opening[EventReader]:
        """Open a reader of everything between two cuts, as a context.

        >>> async with client.event_reader("demo/orders", end="tail", serializer="json") as reader:
        ...     async for event in reader:
        ...         print(event.value)
        {'order': 1}

        Args:
            scope: of the stream.
            stream: its name.
            start: a cut (or its text), ``"head"`` or ``"tail"``.
            end: a cut (or its text), ``"tail"`` (as it is now), or None: go on until the stream is sealed.
            since: in place of ``start``, where the stream was at a time: a ``datetime`` (of the local zone
                unless it has one), ms since 1970, a ``timedelta`` (so long ago), or a text such as ``"1h"``
                or ``"2026-11-25T10:00Z"``. As :meth:`cut_at` it is never too late.
            until: in place of ``end``, where it was at a time: nothing that was written later is read.
            last: in place of ``start``, where the last so many events begin; of segments that are written at
                the same time about as many of each.
            limit: end after so many events.
            on_error: of an event that is no record, in a stream with records: ``"raise"`` the error once, or
                ``"skip"`` the event.
            config: instead of the client's.
            serializer: what makes ``event.value`` of the bytes of an event; see :meth:`event_writer`.

        Raises (when opened):
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the present stream does not have a given cut (see :meth:`check_cut`), or the
                part to read is said twice.
            UnsupportedError: the stream has records of a version that this client does not know.
        """
        part = ReadPart(start, end, since, until, last, limit)
        check_on_error(on_error)
        return Opening(self._open_reader(scope, stream, part, config, find_codec(serializer), on_error))

    async def _open_reader(
        self,
        scope: str,
        stream: str,
        part: ReadPart,
        config: ReaderConfig | None,
        codec: Codec | None,
        on_error: OnError,
    ) -> EventReader:
        has_records = await self._streams.has_records(scope, stream)
        questions = PlaceQuestions(
            scope, stream, self._services, self._calls, self._times, self.config.reader
        )
        start, end = await part.edges(questions, SystemClock().now_ms())
        return await EventReader.open(
            scope,
            stream,
            self._services,
            self._calls,
            config or self.config.reader,
            start=start,
            end=end,
            codec=codec,
            limit=part.limit,
            records=has_records,
            on_error=on_error,
        )

    @named
    def read(
        self,
        scope: str,
        stream: str,
        *,
        start: Edge = "head",
        end: Edge | None = "tail",
        since: Time | None = None,
        until: Time | None = None,
        last: int | None = None,
        limit: int | None = None,
        follow: bool = False,
        on_error: OnError = "raise",
        serializer: Serializer | str | None = None,
        config: ReaderConfig | None = None,
    ) -> AsyncIterator[Event]:
        """Iterate over the events between two cuts: by default all there are when the loop begins.

        >>> async for event in client.read("demo/orders", serializer="json"):
        ...     print(event.value)
        {'order': 1}

        Its reader is closed when the loop ends, or is left. A loop that was interrupted, or has met an error,
        may be continued with the same iterator: it goes on right behind the last event. A notebook shows the
        first events of one of the blocking client as a table, and takes none.

        Args:
            scope: of the stream.
            stream: its name.
            start: a cut (or its text), ``"head"`` or ``"tail"``.
            end: a cut (or its text), ``"tail"`` (as it is when the loop begins), or None: as with ``follow``.
            since: in place of ``start``, a time: a ``datetime``, ms since 1970, a ``timedelta`` or a text
                such as ``"1h"``; see :meth:`event_reader`.
            until: in place of ``end``, a time.
            last: in place of ``start``, the last so many events; with ``follow`` those that come as well.
            limit: end after so many events.
            follow: do not end there, but wait for more until the stream is sealed.
            on_error: of an event that is no record; see :meth:`event_reader`.
            serializer: what makes ``event.value`` of the bytes of an event; see :meth:`event_writer`.
            config: instead of the client's.

        Raises (in the loop):
            NoSuchStreamError: there is no such stream.
            InvalidArgumentError: the present stream does not have a given cut; see :meth:`check_cut`.
            HeadraceError: as :meth:`EventReader.next_batch`.
        """

        async def open_reader() -> EventReader:
            return await self.event_reader(
                scope,
                stream,
                start=start,
                end=last_of(end, follow, until),
                since=since,
                until=until,
                last=last,
                limit=limit,
                on_error=on_error,
                serializer=serializer,
                config=config,
            )

        return ReadLoop(f"{scope}/{stream}", open_reader)

    @named
    async def write(
        self,
        scope: str,
        stream: str,
        events: Any,
        *,
        key: GivenKey = None,
        time: RecordTime | None = None,
        headers: Headers | None = None,
        serializer: Serializer | str | None = None,
        config: WriterConfig | None = None,
    ) -> int:
        """Write events and return how many, once all of them are durable.

        >>> orders = [{"order": 2, "customer": "Ada"}, {"order": 3, "customer": "Bob"}]
        >>> await client.write("demo/orders", orders, key=lambda order: order["customer"], serializer="json")
        2

        A writer is opened and closed each time; who has few events at a time, and often, keeps one open: see
        :meth:`event_writer`.

        Args:
            scope: of the stream.
            stream: its name.
            events: any number of them, taken as they are needed, or a ``pyarrow`` array of binary or string
                values, which are written as they are; or one event: bytes, text, a mapping, and what cannot
                be iterated.
            key: one routing key for all, one for each, or what makes one of an event; None: they are spread.
            time: of all of them, if the stream has records; see :meth:`EventWriter.write`.
            headers: of all of them, if the stream has records.
            serializer: what turns events into bytes; see :meth:`event_writer`.
            config: instead of the client's.

        Raises:
            NoSuchStreamError: there is no such stream.
            StreamSealedError: it is sealed.
            InvalidArgumentError: an event is none, empty or too large, or keys and events differ in number;
                events in front of it may have been written.
            HeadraceError: why an event is not durable.
        """
        codec = find_codec(serializer)
        count = 0
        async with self.event_writer(scope, stream, config) as writer:
            for batch, keys in batches_of(events, key, codec):
                await writer.drain()
                writer.write_many(batch, keys, times=time, headers=headers)
                count += len(batch)
        return count

    @named
    def watermarks(self, scope: str, stream: str) -> AsyncIterator[Watermark]:
        """Iterate over the watermarks of a stream that are retained, oldest first, up to the present end.

        Raises:
            NoSuchStreamError: there is no such stream, or it has no watermarks.
        """
        marks = MarkReader(scope, stream, self._services, self._calls, self.config.reader)
        return Each(marks.next)

    @named
    def time_windows(self, scope: str, stream: str) -> TimeWindows:
        """Return what says up to which time a stream is complete at the positions of a reader."""
        marks = MarkReader(scope, stream, self._services, self._calls, self.config.reader)
        return TimeWindows(marks, self._cuts)

    @named
    def txn_writer(
        self,
        scope: str,
        stream: str,
        *,
        writer_id: str | None = None,
        lease_ms: int | None = None,
        config: WriterConfig | None = None,
        serializer: Serializer | str | None = None,
    ) -> TxnWriter:
        """Return a writer of transactions; nothing is sent before the first one begins.

        Args:
            scope: of the stream.
            stream: its name.
            writer_id: reports the times of commits; a random one if not given.
            lease_ms: how long a transaction survives without a ping, at least 10 s.
            config: instead of the client's.
            serializer: what turns events into bytes; see :meth:`event_writer`.
        """
        codec = find_codec(serializer)
        writer = TxnWriter(
            scope,
            stream,
            self._services,
            self.transactions,
            config or self.config.writer,
            writer_id=writer_id or str(uuid.UUID(bytes=self._services.entropy.uuid4_bytes())),
            lease_ms=self.config.transaction_lease_ms if lease_ms is None else lease_ms,
            find_form=lambda: self._form_of(scope, stream, codec),
        )
        return self._services.open_writers.add(writer)

    @named
    def read_segment_range(
        self, scope: str, stream: str, segment_id: int, start: int, end: int | None
    ) -> SegmentRangeReader:
        """Return a reader of the raw bytes (or the events) of one segment between two offsets."""
        address = SegmentAddress(scope, stream, segment_id)
        return SegmentRangeReader(address, start, end, self._services, self.config.reader)

"""Writers and readers of events for threads, and the calls that write and read at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.client.blocking.event_times import TimeWindows
from headrace.client.blocking.named_writer import writer_for_threads
from headrace.client.blocking.process_client import ProcessClient
from headrace.client.blocking.read_loop import ReadLoop
from headrace.client.blocking.readers import EventReader
from headrace.client.blocking.transactions import TxnWriter
from headrace.client.blocking.waits import iterates, like, makes, opens
from headrace.client.config import ReaderConfig, WriterConfig
from headrace.client.connect import Client as LoopClient
from headrace.client.reader.cuts import Edge, last_of
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_rows import ROWS_MAX
from headrace.client.reader.read_part import Time
from headrace.client.reader.segment_inputs import OnError
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time as RecordTime
from headrace.client.scoped_name import named
from headrace.client.serializers import Serializer, find_codec
from headrace.client.writer.given_events import GivenKey, batches_of


class EventClient(ProcessClient):
    """The calls of a client about events."""

    event_writer = opens(LoopClient.event_writer, writer_for_threads, "EventWriter")
    event_reader = opens(LoopClient.event_reader, EventReader)
    txn_writer = makes(LoopClient.txn_writer, TxnWriter)
    watermarks = iterates(LoopClient.watermarks)
    time_windows = makes(LoopClient.time_windows, TimeWindows)

    @named
    @like(LoopClient.read)
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
    ) -> Iterator[Event]:
        def open_reader() -> EventReader:
            return self.event_reader(
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

        def first_events() -> Iterator[Event]:
            few = ROWS_MAX + 1 if limit is None else min(limit, ROWS_MAX + 1)
            return self.read(
                scope,
                stream,
                start=start,
                end="tail" if end is None else end,
                since=since,
                until=until,
                last=last,
                limit=few,
                on_error="skip",
                serializer=serializer,
                config=config,
            )

        return ReadLoop(f"{scope}/{stream}", open_reader, first_events)

    @named
    @like(LoopClient.write)
    def write(
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
        codec = find_codec(serializer)
        count = 0
        with self.event_writer(scope, stream, config) as writer:
            for batch, keys in batches_of(events, key, codec):  # what is iterated runs in its own thread
                writer.write_many(batch, keys, times=time, headers=headers)
                count += len(batch)
        return count

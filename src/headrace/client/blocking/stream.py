"""One stream as an object, for threads: what :class:`headrace.client.stream.Stream` can do, without
``await``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from headrace.client.blocking.event_client import EventClient
from headrace.client.blocking.loop_thread import LoopThread
from headrace.client.blocking.waits import OnLoop, like, waits
from headrace.client.reader.cuts import Edge
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_columns import OnMisfit
from headrace.client.reader.read_part import Time
from headrace.client.reader.segment_inputs import OnError
from headrace.client.reader.stream_table import TABLE_BYTES_MAX, require_frames, to_pandas, to_polars
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time as RecordTime
from headrace.client.serializers import Serializer
from headrace.client.stream import Stream as LoopStream
from headrace.client.writer.given_events import GivenKey


class Stream(OnLoop[LoopStream]):
    """A stream that may or may not exist; every call asks anew.

    >>> orders = client.stream("demo/orders")
    >>> orders.write(["one", "two"], key="customer-7")
    2
    >>> table = orders.to_arrow()
    """

    def __init__(self, client: EventClient, scope: str, stream: str) -> None:
        self._client = client
        self.scope = scope
        self.name = stream

    def __repr__(self) -> str:
        return f"<headrace.Stream {self.scope}/{self.name} of {self._client.uri}>"

    def _start(self) -> tuple[LoopThread, LoopStream]:
        thread, client = self._client._start()  # noqa: SLF001 - a part of the client
        return thread, client.stream(self.scope, self.name)

    info = waits(LoopStream.info)
    exists = waits(LoopStream.exists)
    head = waits(LoopStream.head)
    tail = waits(LoopStream.tail)
    cut_at = waits(LoopStream.cut_at)
    segments = waits(LoopStream.segments)
    to_arrow = waits(LoopStream.to_arrow)
    update = waits(LoopStream.update)
    scale = waits(LoopStream.scale)
    truncate = waits(LoopStream.truncate)
    seal = waits(LoopStream.seal)
    delete = waits(LoopStream.delete)

    @like(LoopStream.read)
    def read(
        self,
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
    ) -> Iterator[Event]:
        return self._client.read(
            self.scope,
            self.name,
            start=start,
            end=end,
            since=since,
            until=until,
            last=last,
            limit=limit,
            follow=follow,
            on_error=on_error,
            serializer=serializer,
        )

    @like(LoopStream.write)
    def write(
        self,
        events: Any,
        *,
        key: GivenKey = None,
        time: RecordTime | None = None,
        headers: Headers | None = None,
        serializer: Serializer | str | None = None,
    ) -> int:
        return self._client.write(
            self.scope, self.name, events, key=key, time=time, headers=headers, serializer=serializer
        )

    @like(LoopStream.to_pandas)
    def to_pandas(
        self,
        *,
        start: Edge = "head",
        end: Edge = "tail",
        since: Time | None = None,
        until: Time | None = None,
        last: int | None = None,
        limit: int | None = None,
        on_error: OnMisfit = "raise",
        serializer: Literal["json", "utf8"] | None = None,
        schema: Any = None,
        max_bytes: int = TABLE_BYTES_MAX,
    ) -> Any:
        require_frames("pandas")
        return to_pandas(
            self.to_arrow(
                start=start,
                end=end,
                since=since,
                until=until,
                last=last,
                limit=limit,
                on_error=on_error,
                serializer=serializer,
                schema=schema,
                max_bytes=max_bytes,
            )
        )

    @like(LoopStream.to_polars)
    def to_polars(
        self,
        *,
        start: Edge = "head",
        end: Edge = "tail",
        since: Time | None = None,
        until: Time | None = None,
        last: int | None = None,
        limit: int | None = None,
        on_error: OnMisfit = "raise",
        serializer: Literal["json", "utf8"] | None = None,
        schema: Any = None,
        max_bytes: int = TABLE_BYTES_MAX,
    ) -> Any:
        require_frames("polars")
        return to_polars(
            self.to_arrow(
                start=start,
                end=end,
                since=since,
                until=until,
                last=last,
                limit=limit,
                on_error=on_error,
                serializer=serializer,
                schema=schema,
                max_bytes=max_bytes,
            )
        )

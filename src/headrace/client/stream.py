"""One stream as an object: ``client.stream("demo/orders")``. It asks the client, and holds nothing open."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

from headrace.client.control.stream_times import TimedCut
from headrace.client.control.streams import StreamInfo
from headrace.client.face.cuts import CutFace
from headrace.client.face.events import EventFace
from headrace.client.face.streams import StreamFace
from headrace.client.forks import OfOneProcess
from headrace.client.reader.cuts import Edge, belongs, parse_edge
from headrace.client.reader.event_batch import Event
from headrace.client.reader.event_columns import OnMisfit, find_parser
from headrace.client.reader.read_part import Time
from headrace.client.reader.segment_inputs import OnError
from headrace.client.reader.stream_table import (
    TABLE_BYTES_MAX,
    read_table,
    require_frames,
    to_pandas,
    to_polars,
)
from headrace.client.records.envelope import Headers
from headrace.client.records.event_forms import Time as RecordTime
from headrace.client.segment_map import SegmentRange
from headrace.client.serializers import Serializer
from headrace.client.stream_options import Retention
from headrace.client.writer.given_events import GivenKey
from headrace.errors import InvalidArgumentError
from headrace.model.key_space import KeyRange
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.model.stream_cut import StreamCut
from headrace.runtime.blocking import SystemThreads
from headrace.runtime.extras import require


async def _beside_the_loop(convert: Callable[..., Any], *arguments: Any) -> Any:
    """Convert in a thread: the imports alone take a second."""
    work = SystemThreads().pool(1, "headrace-frames")
    try:
        return await work.run(convert, *arguments)
    finally:
        work.close()


class StreamClient(StreamFace, CutFace, EventFace):
    """The calls of a client about streams."""


class Stream(OfOneProcess):
    """A stream that may or may not exist; every call asks anew.

    >>> orders = client.stream("demo/orders")
    >>> await orders.write(["one", "two"], key="customer-7")
    2
    >>> table = await orders.to_arrow()
    """

    def __init__(self, client: StreamClient, scope: str, stream: str) -> None:
        self._client = client
        self.scope = scope
        self.name = stream

    def __repr__(self) -> str:
        return f"<headrace.aio.Stream {self.scope}/{self.name} of {self._client.uri}>"

    # ------------------------------------------------------------------------------ what it is

    async def info(self) -> StreamInfo:
        """Return configuration, head and tail. Raises NoSuchStreamError."""
        return await self._client.stream_info(self.scope, self.name)

    async def exists(self) -> bool:
        """Tell whether there is such a stream."""
        return await self._client.stream_exists(self.scope, self.name)

    async def head(self) -> StreamCut:
        """Return the cut at which it begins. Raises NoSuchStreamError."""
        return await self._client.head_cut(self.scope, self.name)

    async def tail(self) -> StreamCut:
        """Return the cut behind the last durable event; without segments if it is sealed."""
        return await self._client.tail_cut(self.scope, self.name)

    async def cut_at(self, time: datetime | int) -> TimedCut:
        """Return where it was at a time; see :meth:`Client.cut_at`."""
        return await self._client.cut_at(self.scope, self.name, time)

    async def segments(self) -> list[SegmentRange]:
        """Return the segments that take events now; none if it is sealed."""
        return await self._client.current_segments(self.scope, self.name)

    # ------------------------------------------------------------------------------ its events

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
    ) -> AsyncIterator[Event]:
        """Iterate over the events between two cuts: by default all there are; see :meth:`Client.read`.

        >>> async for event in orders.read():
        ...     print(event.data)
        b'one'
        b'two'
        """
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

    async def write(
        self,
        events: Any,
        *,
        key: GivenKey = None,
        time: RecordTime | None = None,
        headers: Headers | None = None,
        serializer: Serializer | str | None = None,
    ) -> int:
        """Write events and return how many, once all of them are durable; see :meth:`Client.write`."""
        return await self._client.write(
            self.scope, self.name, events, key=key, time=time, headers=headers, serializer=serializer
        )

    async def to_arrow(
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
        """Return the events between two cuts as a ``pyarrow.Table``, without an object per event.

        Its columns are ``event`` (binary), ``segment_id`` and ``offset``; with records ``event``, ``time``,
        ``key``, ``headers``, ``segment_id`` and ``offset``. Events of one key are in order.

        >>> table = await orders.to_arrow(serializer="json")
        >>> table.column_names
        ['order', 'segment_id', 'offset']

        Args:
            start: a cut, ``"head"`` or ``"tail"``.
            end: a cut or ``"tail"``, as it is now.
            since: in place of ``start``, a time, such as ``"1h"`` (ago); see :meth:`Client.event_reader`.
            until: in place of ``end``, a time.
            last: in place of ``start``, the last so many events.
            limit: end after so many events.
            on_error: of an event that is no record, or that ``serializer`` does not take: ``"raise"``;
                ``"skip"`` it; or ``"null"``: if the serializer does not take it, its row has no values.
            serializer: None: bytes. ``"utf8"``: ``event`` is text. ``"json"``: in place of ``event`` there is
                a column for each member of the events, which are objects; what a member is called like
                replaces the other columns as well. Texts that are all dates or times, as ISO 8601 writes
                them, become timestamps.
            schema: of JSON, the members that are columns, with their types, as a ``pyarrow.Schema``; others
                are left out. None: all members, of the types that they have.
            max_bytes: how many there may be, with 8 for each event; by default 1 GiB.

        Raises:
            AnswerTooLargeError: there are more.
            EventNotDecodedError: an event is not what ``serializer`` says; it names the place.
            InvalidArgumentError: members of JSON differ in their types, or a cut is none of this stream.
            NoSuchStreamError: there is no such stream.
            UnsupportedError: pyarrow is not installed; it names the extra.
        """
        require("to_arrow", "arrow", "pyarrow", "numpy")
        parse = find_parser(serializer, on_error, schema)
        behind = parse_edge(end)
        if isinstance(behind, StreamCut) and behind.is_unbounded:
            raise InvalidArgumentError("a table ends somewhere: at a cut, or at the tail as it is now")
        opening = self._client.event_reader(
            self.scope,
            self.name,
            start=start,
            end=behind,
            since=since,
            until=until,
            last=last,
            limit=limit,
            on_error="skip" if on_error == "skip" else "raise",
        )
        async with opening as reader:
            table = await read_table(reader, max_bytes)
        if serializer is None:
            return table
        return await _beside_the_loop(parse, table, f"{self.scope}/{self.name}")

    async def to_pandas(
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
        """Return the events between two cuts as a ``pandas.DataFrame`` of Arrow types; see :meth:`to_arrow`.

        >>> frame = await orders.to_pandas(serializer="json")
        >>> frame["order"].tolist()
        [1]

        Raises:
            UnsupportedError: pandas or pyarrow is not installed; it names the extra.
            HeadraceError: as :meth:`to_arrow`.
        """
        require_frames("pandas")
        table = await self.to_arrow(
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
        return await _beside_the_loop(to_pandas, table)

    async def to_polars(
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
        """Return the events between two cuts as a ``polars.DataFrame``; see :meth:`to_arrow`.

        >>> frame = await orders.to_polars(serializer="json")
        >>> frame["order"].to_list()
        [1]

        Raises:
            UnsupportedError: polars or pyarrow is not installed; it names the extra.
            HeadraceError: as :meth:`to_arrow`.
        """
        require_frames("polars")
        table = await self.to_arrow(
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
        return await _beside_the_loop(to_polars, table)

    # ------------------------------------------------------------------------------ its life

    async def update(
        self,
        configuration: StreamConfiguration | None = None,
        *,
        segments: int | None = None,
        tags: Iterable[str] | None = None,
        retention: Retention | None = None,
        scaling: ScalingPolicy | None = None,
    ) -> None:
        """Replace the whole configuration, or what keywords name of it; see :meth:`Client.update_stream`."""
        await self._client.update_stream(
            self.scope,
            self.name,
            configuration,
            segments=segments,
            tags=tags,
            retention=retention,
            scaling=scaling,
        )

    async def scale(
        self, sealed: Sequence[int], new_ranges: Iterable[KeyRange], *, wait: bool = True
    ) -> list[SegmentRange]:
        """Seal segments and continue them with new ones; see :meth:`Client.scale_stream`."""
        return await self._client.scale_stream(self.scope, self.name, sealed, new_ranges, wait=wait)

    async def truncate(self, cut: Edge) -> None:
        """Drop everything in front of a cut (or its text), or of the present ``"tail"``.

        Raises:
            InvalidArgumentError: it is no cut of this stream; nothing was dropped.
            HeadraceError: as :meth:`Client.truncate_stream`.
        """
        edge = parse_edge(cut)
        if isinstance(edge, str):
            edge = await (self.tail() if edge == "tail" else self.head())
        await self._client.truncate_stream(belongs(edge, self.scope, self.name))

    async def seal(self) -> None:
        """Allow no more writes. Raises NoSuchStreamError."""
        await self._client.seal_stream(self.scope, self.name)

    async def delete(self) -> bool:
        """Remove the sealed stream with all its data; False if there is none. Raises StreamNotSealedError."""
        return await self._client.delete_stream(self.scope, self.name)

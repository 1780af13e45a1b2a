"""Streaming reads: offsets that survive restarts, batches that follow scaling, limits, AvailableNow.

Spark plans in one process per query and reads in workers; nothing passes between them but
partitions. The first batch of a query is empty where it begins at "latest" or "earliest": it only writes the
position that this meant into the checkpoint, because Spark asks for the initial offset twice and again after
a crash. The same goes for a stream that appears later: one batch notes its head, the next one reads.
Where the next batch ends is found out while this one is read, if a limit makes that dear.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, repeat
from time import monotonic  # noqa: TID251 - no loop runs here that has a clock
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    SupportsTriggerAvailableNow,
)

from headrace.errors import HeadraceError, InvalidArgumentError, NoSuchStreamError
from headrace.limits import INT64_MAX
from headrace.runtime.clock import SystemClock
from headrace.spark.client_cache import client_for
from headrace.spark.creation import ensure_stream
from headrace.spark.followed_stream import FollowedStream
from headrace.spark.lag import Lag, time_behind
from headrace.spark.look_ahead import LookAhead
from headrace.spark.offsets import cuts_offset, is_symbolic, is_word, parse_cuts, symbolic_offset
from headrace.spark.options import SourceOptions
from headrace.spark.partition_reader import PartitionReader, lost
from headrace.spark.partitioning import Position, shares_of
from headrace.spark.planned_partitions import make_partitions, present_ranges
from headrace.spark.presence import chosen_streams
from headrace.spark.questions import ask_all
from headrace.spark.range_groups import SegmentRange
from headrace.spark.stream_choice import split_name
from headrace.spark.stream_graph import ClientStreamGraph
from headrace.spark.subscription import Subscription, connect_groups

Offset = dict[str, Any]

_log: Final = logging.getLogger(__name__)

_POLL_S: Final = (0.005, 0.01, 0.02, 0.04, 0.08)


class HeadraceStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One instance per query plans; copies of it read."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._streams: dict[str, FollowedStream] = {}
        """Those that are there, by full name, as the last look saw them."""
        self._latest: Offset | None = None
        self._limit: ReadLimit | None = None
        """That of the last batch, if it had one."""
        self._ahead = LookAhead()
        self._lag_ms: int | None = None
        self._subscription: Subscription | None = None
        self._target: list[str] | None = None
        """The streams of AvailableNow: those of its beginning."""

    def __reduce__(self) -> tuple[Callable[..., PartitionReader], tuple[SourceOptions]]:
        return PartitionReader, (self._options,)

    # ------------------------------------------------------------------------------ planning

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's name
        return symbolic_offset(self._options.start)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Not ReadAllAvailable: that is what Trigger.Once sends, and then there is no second batch.
        return ReadMaxBytes(self._options.bytes_per_trigger or INT64_MAX)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        self._target = self._chosen()
        for name in self._target:
            self._follow(name)  # what is missing is judged when the query says what it has read

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802 - Spark's name
        known = None if is_symbolic(start) else parse_cuts(start)
        ahead = self._ahead.take(start)
        self._look(known)
        if ahead is not None and limit == self._limit and parse_cuts(ahead).keys() == self._streams.keys():
            latest = ahead
        else:
            latest = self._next(start, known, limit)
        self._limit = limit if self._is_limit(limit) else None
        if latest == start and self._target is None:
            latest = self._wait_for_news(start, known, limit)
        self._hold(start, known)
        self._latest = self._tails()
        with contextlib.suppress(HeadraceError):  # what is only shown stops nothing
            self._latest.update(self._lag(parse_cuts(latest)).as_json())
        return latest

    def _lag(self, reached: Mapping[str, Position]) -> Lag:
        behind = {
            name: stream.bytes_behind(reached[name])
            for name, stream in self._streams.items()
            if name in reached
        }
        segments = sum(len(stream.graph.tail()) for stream in self._streams.values())
        if not any(behind.values()):
            return Lag(0, 0, 0, segments)
        name = max(behind, key=lambda each: behind[each])
        size = self._streams[name].graph.event_size(reached[name])
        now = SystemClock().now_ms()
        self._lag_ms = time_behind(
            lambda age: self._streams[name].was_read(reached[name], now - age), self._lag_ms
        )
        return Lag(sum(behind.values()), sum(behind.values()) // size, self._lag_ms, segments)

    def _hold(self, start: Offset, known: Mapping[str, Position] | None) -> None:
        """Register the query as a subscriber before it has read anything."""
        options = self._options
        if options.consumer and self._subscription is None:
            if known is None:
                known = {name: each.resolve(start["start"]) for name, each in self._streams.items()}
            self._subscription = Subscription(
                connect_groups(options.connection), *split_name(options.consumer)
            )
            self._subscription.hold(known)

    def _tails(self) -> Offset:
        return cuts_offset({name: each.graph.tail() for name, each in self._streams.items()})

    def _is_limit(self, limit: ReadLimit) -> bool:
        return isinstance(limit, ReadMaxBytes) and (
            limit.max_bytes < INT64_MAX or self._options.events_per_trigger > 0
        )

    def _find_ahead(self, start: Offset, limit: ReadLimit) -> Offset | None:
        """Return where the batch behind ``start`` ends, if it is a full one; else the tail is looked at when
        it is wanted.
        """
        found = self._next(start, parse_cuts(start), limit)
        return None if found in (start, self._tails()) else found

    def reportLatestOffset(self) -> Offset | None:  # noqa: N802 - Spark's name
        return self._latest

    def _wait_for_news(self, start: Offset, known: dict[str, Position] | None, limit: ReadLimit) -> Offset:
        """Look again for a while, so that an idle query does not ask a hundred times a second."""
        until = (
            monotonic() + self._options.offset_wait_ms / 1000
        )  # a look at many streams takes its time, too
        pause = threading.Event()
        for wait_s in chain(_POLL_S, repeat(_POLL_S[-1])):
            left_s = until - monotonic()
            if left_s <= 0:
                break
            pause.wait(min(wait_s, left_s))
            if not all(ask_all(self._follow, list(self._streams))):
                break  # one disappeared: the next call judges
            latest = self._next(start, known, limit)
            if latest != start:
                return latest
        return start

    def _next(self, start: Offset, known: dict[str, Position] | None, limit: ReadLimit) -> Offset:
        everything = isinstance(limit, ReadAllAvailable)
        bytes_max = limit.max_bytes if isinstance(limit, ReadMaxBytes) else 0
        events_max = 0 if everything else self._options.events_per_trigger
        noted: dict[str, Position] = {}
        reached: dict[str, Position] = {}
        for name, stream in self._streams.items():
            if known is None and is_word(start["start"]):
                noted[name] = stream.resolve(start["start"])
            elif known is None:
                reached[name] = stream.resolve(start["start"])
            elif name in known:
                reached[name] = stream.within(known[name])
            else:
                noted[name] = stream.graph.head()
        if everything:
            reached, noted = {**reached, **noted}, {}
        for name, (size, events) in self._shares(reached, bytes_max, events_max).items():
            noted[name] = self._streams[name].next(reached[name], size, events, everything=everything)
        return cuts_offset(noted)

    def _shares(
        self, positions: Mapping[str, Position], bytes_max: int, events_max: int
    ) -> dict[str, tuple[int, int]]:
        if len(positions) < 2 or (bytes_max in {0, INT64_MAX} and not events_max):
            return dict.fromkeys(positions, (bytes_max, events_max))
        available = {name: self._streams[name].available(each) for name, each in positions.items()}
        sizes = shares_of(bytes_max, available)
        total = sum(available.values()) or 1
        return {
            name: (sizes[name], events_max and max(1, -(-size * events_max // total)))
            for name, size in available.items()
        }

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        if is_symbolic(start) and start["start"] == "latest":
            return []  # the first batch only notes the position
        self._ahead.take(start)
        known = {} if is_symbolic(start) else parse_cuts(start)
        ranges: list[SegmentRange] = []
        graphs: dict[str, ClientStreamGraph] = {}
        for name, last in parse_cuts(end).items():
            try:
                stream = self._streams.get(name) or self._open(name)
                first = known.get(name)
                if first is None:
                    first = stream.resolve(start["start"]) if is_symbolic(start) else stream.graph.head()
                wanted = stream.ranges(first, last)
            except NoSuchStreamError as error:
                self._report_gone([name], error)
                continue
            graphs[name] = stream.graph
            ranges += present_ranges(wanted, stream.graph, self._options)
        partitions = make_partitions(ranges, graphs, self._options.partitions)
        limit = self._limit
        if limit is not None:
            self._ahead.begin(end, lambda: self._find_ahead(end, limit))
        return partitions

    # ------------------------------------------------------------------------------ which streams there are

    def _chosen(self) -> list[str]:
        if self._target is not None:
            return self._target
        return chosen_streams(client_for(self._options.connection), self._options.choice)

    def _look(self, known: Mapping[str, Position] | None) -> None:
        """Find the streams that there are, and judge those that there were.

        Raises:
            InvalidArgumentError: the checkpoint is about streams of which none was chosen.
            NoSuchStreamError: a stream that was chosen by name has never been there.
            PreconditionError: one disappeared and that is not to be tolerated.
        """
        options = self._options
        chosen = self._chosen()
        if known and options.choice.names and not known.keys() & set(chosen):
            raise InvalidArgumentError(
                f"the checkpoint belongs to stream {', '.join(known)}, the query reads {options.choice}: use "
                "another checkpoint location"
            )
        present = [
            name for name, is_there in zip(chosen, ask_all(self._follow, chosen), strict=True) if is_there
        ]
        if known is not None:
            self._report_gone([name for name in known if name not in present])
        for name in chosen:
            is_new = known is None or (options.fail_on_data_loss and name not in known)
            if name not in present and options.choice.names and is_new:
                ensure_stream(client_for(options.connection), *split_name(name), options.creation)
                self._follow(name)
        for name in self._streams.keys() - set(chosen):
            del self._streams[name]

    def _report_gone(self, names: list[str], cause: Exception | None = None) -> None:
        if not names:
            return
        what = f"stream {', '.join(names)} does not exist any more, or is not chosen any more"
        if self._options.fail_on_data_loss:
            raise lost(what) from cause
        _log.warning("%s: the query goes on without", what)

    def _follow(self, name: str) -> bool:
        """Look at the tail of a stream; tell whether there is one."""
        stream = self._streams.get(name)
        try:
            if stream is None:
                stream = self._open(name)
            else:
                stream.graph.refresh()
        except NoSuchStreamError:
            self._streams.pop(name, None)
            return False
        self._streams[name] = stream
        return True

    def _open(self, name: str) -> FollowedStream:
        client = client_for(self._options.connection)
        stream = FollowedStream(ClientStreamGraph(client, *split_name(name)), self._options)
        if self._target is None:
            stream.graph.refresh()
        else:
            stream.stop_at_tail()
        return stream

    # ------------------------------------------------------------------------------ reading

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return PartitionReader(self._options).read(partition)

    def commit(self, end: Offset) -> None:
        """Release what a batch has read, if the query is a subscriber."""
        if self._subscription is not None and not is_symbolic(end):
            self._subscription.hold(parse_cuts(end))

    def stop(self) -> None:
        """Nothing to release; Spark does not call this reliably."""

"""A client over a :class:`StreamModel`: what the connector calls, with real bytes."""

import struct
from contextlib import contextmanager
from types import SimpleNamespace

from headrace.client.control.stream_times import TimedCut
from headrace.client.control.transactions import BatchOutcome, BatchStatus, SinkWatermark
from headrace.errors import InvalidArgumentError, NoSuchSegmentError, SegmentTruncatedError
from headrace.model.key_space import KeyRange
from headrace.model.stream_cut import StreamCut
from tests.unit.spark.stream_model import StreamModel


class FakeClient:
    """Events of the model become frames; ``truncate`` drops what lies in front of a position."""

    def __init__(self, model, scope="s", stream="t"):
        self.model, self.scope, self.stream = model, scope, stream
        self.starts = {}
        self.gone = set()
        self.block_bytes = 1 << 20
        self.tags = set()
        self.times = {}
        """Where the stream was, by time in ms."""

    def data(self, segment_id):
        parts = []
        for key, number, size in self.model.events[segment_id]:
            payload = f"{key}:{number}".encode().ljust(size - 8, b".")
            parts.append(struct.pack(">q", len(payload)) + payload)
        return b"".join(parts)

    def truncate(self, position):
        self.starts.update(position)
        oldest = {segment_id: self.model.ranges[segment_id] for segment_id in position}
        for segment_id, (low, high) in self.model.ranges.items():
            if segment_id not in position and any(
                segment_id < each and low < bounds[1] and high > bounds[0] for each, bounds in oldest.items()
            ):
                self.gone.add(segment_id)

    def stream_exists(self, scope, stream):
        return (scope, stream) == (self.scope, self.stream)

    def stream_configuration(self, scope, stream):
        return SimpleNamespace(tags=self.tags)

    def tail_cut(self, scope, stream):
        return StreamCut(scope, stream, self.model.tail())

    def head_cut(self, scope, stream):
        return StreamCut(scope, stream, self.starts or self.model.first)

    def cut_at(self, scope, stream, time_ms):
        known = [each for each in self.times if each <= time_ms]
        if not known:
            return TimedCut(self.head_cut(scope, stream), None, is_head=True)
        return TimedCut(StreamCut(scope, stream, self.times[max(known)]), max(known), is_head=False)

    def check_cut(self, cut):
        for segment_id, offset in cut.offsets.items():
            if offset > self.model.length(segment_id):
                raise InvalidArgumentError(f"segment {segment_id} ends at {self.model.length(segment_id)}")

    def create_anew(self, segments=1):
        """Another stream of the same name: its segments are numbered on."""
        numbers = [segment_id & 0xFFFF_FFFF for segment_id in self.model.events]
        self.model = StreamModel(self.model.width, segments, first=1 + max(numbers))
        self.starts, self.gone = {}, set()

    def segment_info(self, scope, stream, segment_id):
        if segment_id in self.gone or segment_id not in self.model.events:
            raise NoSuchSegmentError(f"{scope}/{stream}/{segment_id}")
        return SimpleNamespace(
            start_offset=self.starts.get(segment_id, 0),
            length=self.model.length(segment_id),
            sealed=segment_id in self.model.sealed,
        )

    def successors(self, scope, stream, segment_id):
        if segment_id not in self.model.events:
            raise NoSuchSegmentError(f"{scope}/{stream}/{segment_id}")
        return [
            SimpleNamespace(segment_id=child, predecessors=parents)
            for child, parents in self.model.heirs[segment_id].items()
        ]

    def key_ranges(self, scope, stream, ids):
        width = self.model.width
        known = {each: self.model.ranges[each] for each in ids if each in self.model.ranges}
        return {each: KeyRange(low / width, high / width) for each, (low, high) in known.items()}

    @contextmanager
    def read_segment_range(self, scope, stream, segment_id, start, end):
        if segment_id in self.gone:
            raise NoSuchSegmentError(f"{scope}/{stream}/{segment_id}")
        if start < self.starts.get(segment_id, 0):
            raise SegmentTruncatedError(f"{scope}/{stream}/{segment_id}", self.starts[segment_id], start)
        data = memoryview(self.data(segment_id))[start:end]
        step = self.block_bytes
        yield SimpleNamespace(blocks=lambda: (data[at : at + step] for at in range(0, len(data), step)))


class FakeStore:
    """Tagged transactions and batch commits with a watermark per sink, as the service promises them."""

    def __init__(self):
        self.open = {}
        self.visible = []
        self.watermarks = {}
        self.next_id = 1
        self.lose_answer = False
        self.aborted_batches = []
        self.tags = set()

    def stream_configuration(self, scope, stream):
        return SimpleNamespace(tags=self.tags)

    def stream_exists(self, scope, stream):
        return True

    # writer of transactions
    def begin_tagged(self, tag):
        mark = self.watermarks.get(tag.sink)
        if mark is not None and mark.query == tag.query and mark.batch >= tag.batch:
            return mark
        txn = FakeTransaction(self, self.next_id, tag)
        self.next_id += 1
        self.open[txn.txn_id] = txn
        return txn

    # client
    def commit_batch(
        self, scope, stream, *, sink, query, batch, txn_ids, takeover=False, wait_until_visible=False
    ):
        outcome = self._decide(sink, query, batch, txn_ids, takeover)
        if self.lose_answer:
            self.lose_answer = False
            raise ConnectionError("the answer was lost")
        return outcome

    def _decide(self, sink, query, batch, txn_ids, takeover):
        mark = self.watermarks.get(sink)
        if mark is not None and mark.query != query and not takeover:
            return BatchOutcome(BatchStatus.FOREIGN, mark, None)
        if mark is not None and mark.query == query and mark.batch >= batch:
            for txn_id in txn_ids:
                self.open.pop(txn_id, None)
            return BatchOutcome(BatchStatus.ALREADY, mark, None)
        for txn_id in txn_ids:
            if txn_id not in self.open:
                return BatchOutcome(BatchStatus.MISSING, mark, txn_id)
        for txn_id in txn_ids:
            self.visible += self.open.pop(txn_id).rows
        mark = self.watermarks[sink] = SinkWatermark(sink, query, batch, True, (), 0)
        return BatchOutcome(BatchStatus.COMMITTED, mark, None)

    def abort_batch(self, scope, stream, *, sink, query, batch):
        self.aborted_batches.append((sink, query, batch))
        gone = [
            txn_id
            for txn_id, txn in self.open.items()
            if (txn.tag.sink, txn.tag.query) == (sink, query) and txn.tag.batch <= batch
        ]
        for txn_id in gone:
            del self.open[txn_id]
        return len(gone)


class FakeTransaction:
    def __init__(self, store, txn_id, tag):
        self.store, self.txn_id, self.tag = store, txn_id, tag
        self.rows, self.parts, self.is_open, self.flushed = [], [], True, 0

    def write_many(self, events, keys=None, times=None, headers=None):
        self.parts.append((times, headers))
        keys = [None] * len(events) if keys is None else keys.to_pylist()
        self.rows += list(zip(events.cast("binary").to_pylist(), keys, strict=True))

    def flush(self):
        self.flushed = len(self.rows)

    def detach(self, *, keep_alive):
        assert keep_alive, "the slowest task of the batch may take longer than the lease"
        assert self.flushed == len(self.rows), "detached before everything was durable"
        self.is_open = False
        return self.txn_id

    def abort(self):
        self.is_open = False
        self.store.open.pop(self.txn_id, None)

"""A segment store in dictionaries. Appends become durable at the end of the turn, or when a test says so."""

import asyncio
from collections import deque

from headrace.errors import (
    AnswerTooLargeError,
    AttributeMismatchError,
    InvalidArgumentError,
    NoSuchSegmentError,
    OffsetMismatchError,
    SegmentExistsError,
    SegmentSealedError,
    SegmentTruncatedError,
    TableKeyMissingError,
    TableKeyVersionError,
    TableNotEmptyError,
)
from headrace.limits import TABLE_ITEM_BYTES
from headrace.model.attributes import ATTRIBUTE_NULL, EVENT_COUNT, UpdateKind
from headrace.model.names import transient_segment_name
from headrace.model.tables import NO_VERSION, NOT_EXISTS, TableDelta, TableEntry, TableInfo, TableKey
from headrace.segmentstore.contract import ReadResult, SegmentInfo
from headrace.segmentstore.state.segment_state import SegmentState


class FakeTarget:
    def __init__(self, store, state):
        self.store = store
        self.state = state
        self.data = bytearray()
        self.users = 0

    def last_event_number(self, writer_id):
        return self.state.attributes.durable.get(writer_id, ATTRIBUTE_NULL)

    def accepted_event_number(self, writer_id):
        return self.state.attributes.accepted.get(writer_id, ATTRIBUTE_NULL)

    def may_answer(self):
        return True

    def is_settled(self, writer_id):
        return self.last_event_number(writer_id) == self.accepted_event_number(writer_id)

    def check_writer(self, writer_id):
        if self.store.writers_refused is not None and writer_id not in self.state.attributes.accepted:
            raise self.store.writers_refused

    async def settle(self, writer_id):
        while not self.is_settled(writer_id):
            await self.store.changed.wait()

    def can_accept(self, size_bytes, expected_offset=-1):
        if self.state.durable_length <= expected_offset < self.state.accepted_length:
            return self.store.offline is not None
        return self.store.capacity is None or size_bytes <= self.store.capacity

    def wait_capacity(self, size_bytes, resume):
        self.store.capacity_waiters.append(resume)

    def stop_waiting(self, resume):
        if resume in self.store.capacity_waiters:
            self.store.capacity_waiters.remove(resume)

    def append_block(
        self,
        owner,
        pieces,
        size,
        *,
        previous_event_number,
        last_event_number,
        event_count,
        request_id,
        expected_offset=-1,
    ):
        self.store.append_calls += 1
        state = self.state
        if self.store.offline is not None:
            raise self.store.offline
        if state.accepted_deleted:
            raise NoSuchSegmentError(state.name)
        if state.accepted_sealed:
            raise SegmentSealedError(state.name)
        existing = state.attributes.accepted.get(owner.writer_id, ATTRIBUTE_NULL)
        if existing != previous_event_number:
            raise AttributeMismatchError(state.name, owner.writer_id, previous_event_number, existing)
        if expected_offset >= 0 and expected_offset != state.accepted_length:
            raise OffsetMismatchError(state.name, expected_offset, state.accepted_length)
        assert size == sum(len(piece) for piece in pieces)
        assert last_event_number > previous_event_number
        self.data += b"".join(pieces)
        state.accepted_length += size
        state.attributes.accepted[owner.writer_id] = last_event_number
        events = state.attributes.accepted.get(EVENT_COUNT, 0) + event_count
        state.attributes.accepted[EVENT_COUNT] = events
        if self.store.capacity is not None:
            self.store.capacity -= size
        pending = self.store.pending
        last = pending[-1] if pending else None
        if (
            expected_offset < 0
            and last is not None
            and last["open"]
            and last["owner"] is owner
            and last["target"] is self
        ):
            last.update(number=last_event_number, request_id=request_id, length=state.accepted_length)
        else:
            self.close_run()
            pending.append(
                {
                    "target": self,
                    "owner": owner,
                    "number": last_event_number,
                    "request_id": request_id,
                    "length": state.accepted_length,
                    "open": expected_offset < 0,
                }
            )
        self.store.on_change()

    def close_run(self):
        if self.store.pending:
            self.store.pending[-1]["open"] = False

    def end_of_read(self):
        self.store.reads_ended += 1
        self.close_run()

    def close(self):
        self.users -= 1


class FakeStore:
    def __init__(self, *, durable_at_once=True):
        self.loop = asyncio.get_running_loop()
        self.segments = {}
        self.inactive = set()
        self.tables = {}
        self.begun = None
        self.pending = deque()
        self.durable_at_once = durable_at_once
        self.scheduled = False
        self.capacity = None
        self.capacity_waiters = []
        self.offline = None
        self.writers_refused = None
        self.append_calls = 0
        self.reads_ended = 0
        self.changed = asyncio.Event()
        self.results_out = 0
        self.results_taken = 0
        self.calls = []
        self.gate = None
        self.refusal = None
        self.transients = 0
        self.cold = set()
        """Segments whose bytes have to be waited for, until ``storage`` is set."""
        self.storage = asyncio.Event()
        self.storage_failure = None
        self.reads = []

    # ---- for tests

    def add(self, segment, data=b"", **attributes):
        target = FakeTarget(self, SegmentState(len(self.segments), segment))
        self.segments[segment] = target
        state = target.state
        target.data += data
        state.accepted_length = state.durable_length = len(data)
        return target

    def on_change(self):
        if self.durable_at_once and not self.scheduled:
            self.scheduled = True
            self.loop.call_soon(self.commit)

    def commit(self, count=None):
        self.scheduled = False
        while self.pending and count != 0:
            run = self.pending.popleft()
            if count is not None:
                count -= 1
            target = run["target"]
            target.state.durable_length = run["length"]
            target.state.attributes.durable[run["owner"].writer_id] = run["number"]
            run["owner"].on_durable(run["number"], run["request_id"], run["length"])
        self.wake()
        self.give_capacity(self.capacity)

    def fail(self, error):
        owners = {id(run["owner"]): run["owner"] for run in self.pending}
        self.pending.clear()
        self.offline = error
        for owner in owners.values():
            owner.on_failed(error)

    def give_capacity(self, capacity):
        self.capacity = capacity
        waiters, self.capacity_waiters = self.capacity_waiters, []
        for resume in waiters:
            resume()

    def wake(self):
        self.changed.set()
        self.changed = asyncio.Event()

    def _get(self, segment):
        if self.offline is not None:
            raise self.offline
        target = self.segments.get(segment)
        if target is None:
            raise NoSuchSegmentError(segment)
        return target

    async def _enter(self, name, *arguments):
        self.calls.append((name, *arguments))
        if self.gate is not None:
            await self.gate.wait()
        if self.refusal is not None:
            raise self.refusal

    # ---- segments

    async def create_segment(self, segment, *, scale_type=0, target_rate=0, rollover_bytes=0):
        await self._enter("create_segment", segment, scale_type, target_rate, rollover_bytes)
        if segment in self.segments:
            raise SegmentExistsError(segment)
        self.add(segment)

    async def create_transient_segment(self, parent, writer_id):
        await self._enter("create_transient_segment", parent)
        self.transients += 1
        name = transient_segment_name(parent, writer_id, self.transients.to_bytes(16, "big"))
        self.add(name)
        return name

    async def update_policy(self, segment, scale_type, target_rate):
        await self._enter("update_policy", segment, scale_type, target_rate)
        if self._get(segment).state.sealed:
            raise SegmentSealedError(segment)

    async def segment_info(self, segment):
        await self._enter("segment_info", segment)
        state = self._get(segment).state
        return SegmentInfo(segment, state.start_offset, state.durable_length, state.sealed, 1234, 0, {})

    async def seal_segment(self, segment):
        await self._enter("seal_segment", segment)
        state = self._get(segment).state
        if state.sealed:
            raise SegmentSealedError(segment)
        state.sealed = state.accepted_sealed = True
        self.wake()
        return state.durable_length

    async def truncate_segment(self, segment, offset):
        await self._enter("truncate_segment", segment, offset)
        state = self._get(segment).state
        if not state.start_offset <= offset <= state.durable_length:
            raise SegmentTruncatedError(segment, state.start_offset, offset)
        state.start_offset = offset

    async def delete_segment(self, segment):
        await self._enter("delete_segment", segment)
        target = self._get(segment)
        target.state.deleted = target.state.accepted_deleted = True
        del self.segments[segment]
        self.wake()

    async def merge_segments(self, target, source, updates=()):
        await self._enter("merge_segments", target, source)
        into, state = self._get(target), self._get(target).state
        if source not in self.segments:
            raise NoSuchSegmentError(source)
        if state.sealed:
            raise SegmentSealedError(source)
        for update in updates:
            existing = state.attributes.durable.get(update.attribute_id, ATTRIBUTE_NULL)
            if update.kind is UpdateKind.REPLACE_IF_EQUALS and existing != update.expected:
                raise AttributeMismatchError(target, update.attribute_id, update.expected, existing)
        into.data += self.segments.pop(source).data
        state.accepted_length = state.durable_length = len(into.data)
        for update in updates:
            state.attributes.durable[update.attribute_id] = update.value
        self.wake()
        return state.durable_length

    async def merge_batch(self, target, sources):
        await self._enter("merge_batch", target)
        self._get(target)
        lengths = []
        for source in sources:
            if source in self.segments:
                lengths.append(await self.merge_segments(target, source))
            else:
                lengths.append(self._get(target).state.durable_length)
        return lengths

    async def get_attribute(self, segment, attribute_id):
        await self._enter("get_attribute", segment)
        return self._get(segment).state.attributes.durable.get(attribute_id, ATTRIBUTE_NULL)

    async def update_attribute(self, segment, attribute_id, value, expected):
        await self._enter("update_attribute", segment)
        state = self._get(segment).state
        if state.sealed:
            raise SegmentSealedError(segment)
        if state.attributes.durable.get(attribute_id, ATTRIBUTE_NULL) != expected:
            return False
        state.attributes.durable[attribute_id] = value
        return True

    # ---- reads

    def read_nowait(self, segment, offset, length_max):
        if segment in self.cold or segment in self.inactive:
            return None
        return self._read(segment, offset, length_max)

    def is_at_tail(self, segment, offset):
        target = self.segments.get(segment)
        if target is None or segment in self.inactive:
            return None
        return not target.state.sealed and offset >= target.state.durable_length

    def _read(self, segment, offset, length_max):
        target = self._get(segment)
        state = target.state
        if offset < 0:
            raise InvalidArgumentError("negative offset")
        if offset < state.start_offset:
            raise SegmentTruncatedError(segment, state.start_offset, offset)
        length = state.durable_length
        if offset >= length:
            if not state.sealed:
                return None
            if offset > length:
                raise InvalidArgumentError("beyond the end")
            return ReadResult(offset, end_of_segment=True)
        data = bytes(target.data[offset : min(length, offset + length_max)])
        end = offset + len(data)
        step = 40_000
        pieces = [memoryview(data)[at : at + step] for at in range(0, len(data), step)]
        self.results_out += 1
        self.results_taken += 1
        return ReadResult(offset, pieces, end == length and not state.sealed, False, self._on_release)

    def _on_release(self):
        self.results_out -= 1

    async def read(self, segment, offset, length_max, *, wait):
        waited = False
        self.reads.append(wait)
        while segment in self.inactive:
            await self.changed.wait()
        while True:
            if segment in self.cold and offset < self._get(segment).state.durable_length:
                await self.storage.wait()
                if self.storage_failure is not None:
                    raise self.storage_failure
            result = self._read(segment, offset, length_max)
            if result is not None:
                if waited and result.end_of_segment:
                    raise SegmentSealedError(segment)
                return result
            if not wait:
                return ReadResult(offset, at_tail=True)
            waited = True
            await self.changed.wait()

    async def open_target(self, segment):
        await self._enter("open_target", segment)
        self.inactive.discard(segment)
        return self.append_target(segment)

    def append_target(self, segment):
        target = self._get(segment)
        if segment in self.inactive:
            return None
        target.users += 1
        return target

    # ---- tables

    def _table(self, segment):
        if segment not in self.tables:
            raise NoSuchSegmentError(segment)
        return self.tables[segment]

    async def create_table(self, segment, *, key_length=0, rollover_bytes=0):
        await self._enter("create_table", segment, key_length, rollover_bytes)
        if segment in self.tables:
            raise SegmentExistsError(segment)
        self.tables[segment] = {"entries": {}, "length": 0, "key_length": key_length}

    async def delete_table(self, segment, *, must_be_empty):
        await self._enter("delete_table", segment, must_be_empty)
        if must_be_empty and self._table(segment)["entries"]:
            raise TableNotEmptyError(segment)
        self._table(segment)
        del self.tables[segment]

    async def table_info(self, segment):
        await self._enter("table_info", segment)
        table = self._table(segment)
        return TableInfo(0, table["length"], len(table["entries"]), table["key_length"])

    def _check(self, segment, items, expected_length):
        table = self._table(segment)
        if expected_length not in {-1, table["length"]}:
            raise OffsetMismatchError(segment, expected_length, table["length"])
        for item in items:
            existing = table["entries"].get(item.key)
            if item.version == NO_VERSION:
                continue
            if item.version == NOT_EXISTS:
                if existing is not None:
                    raise TableKeyVersionError(segment)
            elif existing is None:
                raise TableKeyMissingError(segment)
            elif existing.version != item.version:
                raise TableKeyVersionError(segment)
        return table

    async def table_update(self, segment, entries, expected_length=-1):
        await self._enter("table_update", segment)
        table = self._check(segment, entries, expected_length)
        versions = []
        for entry in entries:
            versions.append(table["length"])
            table["entries"][entry.key] = TableEntry(entry.key, entry.value, table["length"])
            table["length"] += 17 + len(entry.key) + len(entry.value)
        return versions

    def begin_table_update(self, segment, entries, expected_length, on_updated):
        """Begin updates only while told to; they wait in ``begun``, in order, for whoever ends them."""
        if self.begun is None:
            return False
        self.begun.append((segment, entries, expected_length, on_updated))
        return True

    def table_get_nowait(self, segment, keys, bytes_max):
        """Answer nothing at once."""

    async def table_remove(self, segment, keys, expected_length=-1):
        await self._enter("table_remove", segment)
        table = self._check(segment, keys, expected_length)
        for key in keys:
            table["entries"].pop(key.key, None)

    async def table_get(self, segment, keys, bytes_max):
        await self._enter("table_get", segment)
        table = self._table(segment)
        found = [table["entries"].get(key) for key in keys]
        total = sum(TABLE_ITEM_BYTES + len(key) for key in keys)
        total += sum(len(entry.value) for entry in found if entry is not None)
        if total > bytes_max:
            raise AnswerTooLargeError(total, bytes_max)
        return found

    async def table_keys(self, segment, token, count, from_key, to_key, bytes_max):
        entries, token = await self.table_entries(segment, token, count, from_key, to_key, bytes_max)
        return [TableKey(entry.key, entry.version) for entry in entries], token

    async def table_entries(self, segment, token, count, from_key, to_key, bytes_max):
        await self._enter("table_entries", segment, token, count, from_key, to_key)
        entries = self._table(segment)["entries"]
        keys = sorted(key for key in entries if key > token)[:count]
        page = _fitting([entries[key] for key in keys], bytes_max)
        return page, page[-1].key if page else b""

    async def table_delta(self, segment, position, count, bytes_max):
        await self._enter("table_delta", segment, position, count)
        table = self._table(segment)
        changed = [entry for entry in table["entries"].values() if entry.version >= position][:count]
        page = _fitting(changed, bytes_max)
        end = table["length"] if page == changed else page[-1].version + 1
        return TableDelta(page, False, page == changed, end)


def _fitting(entries, bytes_max):
    """Return the first of them, as many as an answer may have."""
    page, total = [], 0
    for entry in entries:
        total += TABLE_ITEM_BYTES + len(entry.key) + len(entry.value)
        if total > bytes_max and page:
            break
        if total > bytes_max:
            raise AnswerTooLargeError(total, bytes_max)
        page.append(entry)
    return page

"""Segments leave memory and come back: same id, same bytes, same writers, whatever ends in between."""

import asyncio
import dataclasses
from unittest.mock import AsyncMock

import pytest

from headrace.errors import (
    AttributeMismatchError,
    ContainerOfflineError,
    DataCorruptionError,
    NoSuchSegmentError,
    SegmentExistsError,
    SegmentSealedError,
    ThrottledError,
    TooManyActiveSegmentsError,
)
from headrace.model import attributes as attr
from headrace.model.attributes import ATTRIBUTE_NULL, AttributeUpdate, UpdateKind
from headrace.model.tables import TableEntry
from headrace.segmentstore.container.catalogue_row import decode_row, encode_row
from headrace.segmentstore.container.evictions import Evictions
from headrace.segmentstore.segment_names import is_internal, storage_table_name
from headrace.segmentstore.state.segment_state import SegmentState
from tests.unit.segmentstore.container.container_bench import Bench, Owner, append, read_all, until

A, B = "s/a", "s/b"
KEY = bytes(15) + b"\x09"
CATALOGUE = "_system/containers/metadata_0"


@pytest.fixture
async def bench():
    bench = Bench()
    await bench.start()
    yield bench
    if bench.container is not None:
        bench.container.check()
        await bench.stop()


async def test_an_evicted_segment_comes_back_with_its_id_its_bytes_and_its_attributes(bench):
    container = bench.container
    first = await container.create(A, {})
    await append(container, A, b"hello ")
    await append(container, A, b"world", [AttributeUpdate(KEY, UpdateKind.REPLACE, 7)])
    await container.truncate(first, 3)
    await bench.evict(A)
    assert first.evicted
    assert first.segment_id not in container.state.by_id
    info = await container.read_info(A)
    assert (info.start_offset, info.length, info.sealed, info.stored_length) == (3, 11, False, 11)
    assert info.attributes[KEY] == 7
    assert A not in container.state.by_name, "asking for facts does not bring it back"
    again = await container.resolve(A)
    assert again is not first
    assert again.segment_id == first.segment_id
    assert await read_all(container, A) == b"lo world"
    assert await append(container, A, b"!") == 11
    await bench.evict(A)
    assert await read_all(container, A) == b"lo world!"
    assert container.segment_statistics().activations == 2


async def test_a_sealed_segment_stays_sealed_out_of_memory_and_after_it(bench):
    container = bench.container
    for name, data in ((A, b"x"), (B, b"")):
        segment = await container.create(name, {})
        if data:
            await append(container, name, data)
        await container.seal(segment)
    await bench.evict(A, B)
    assert (await container.read_info(B)).sealed
    for name in (A, B):
        with pytest.raises(SegmentSealedError):
            await append(container, name, b"y")
        with pytest.raises(SegmentSealedError):
            await container.seal(await container.resolve(name))
    await bench.start()
    for name in (A, B):
        assert (await bench.container.read_info(name)).sealed


async def test_a_writer_is_known_again_after_eviction_and_its_repetitions_are_refused(bench):
    container, owner = bench.container, Owner(5)
    await container.create(A, {})
    target = container.append_target(A)
    target.append_block(
        owner, [memoryview(b"12")], 2, previous_event_number=ATTRIBUTE_NULL, last_event_number=41,
        event_count=2, request_id=1,
    )  # fmt: skip
    target.end_of_read()
    await until(lambda: owner.acks == [41])
    await bench.evict()
    assert A in container.state.by_name, "a writer that is set up keeps its segment"
    target.close()
    await bench.evict(A)
    for _ in range(2):  # once from the catalogue, once after recovery
        assert container.append_target(A) is None
        target = container.target_of(await container.resolve(A))
        assert target.last_event_number(owner.writer_id) == 41
        with pytest.raises(AttributeMismatchError):
            target.append_block(
                owner, [memoryview(b"12")], 2, previous_event_number=ATTRIBUTE_NULL, last_event_number=41,
                event_count=2, request_id=1,
            )  # fmt: skip
        target.close()
        await bench.evict(A)
        container = await bench.start()
        await bench.evict()
    assert await read_all(container, A) == b"12"


async def test_what_the_log_holds_of_a_segment_keeps_it_in_memory(bench):
    """However long nobody has used it: recovery would bring it back, and storage meet it again."""
    await bench.container.create(A, {})
    await append(bench.container, A, b"stored")
    for _ in range(2):
        await bench.container.flush_storage()
        assert bench.container.state.by_name[A].is_settled
        for _ in range(3):
            assert await bench.container.evictions.evict() == 0
        await bench.start()


async def test_a_segment_was_used_as_long_as_a_writer_was_set_up_on_it(bench):
    container, owner = bench.container, Owner(5)
    await container.create(A, {})
    target = container.append_target(A)
    await bench.evict()
    target.append_block(
        owner, [memoryview(b"12")], 2, previous_event_number=ATTRIBUTE_NULL, last_event_number=1,
        event_count=1, request_id=1,
    )  # fmt: skip
    await until(lambda: owner.acks)
    await container.flush_storage()
    target.close()
    await container.evictions.evict()
    assert A in container.state.by_name, "the log holds what was appended"


async def test_a_name_of_an_inactive_segment_is_taken(bench):
    await bench.container.create(A, {})
    await bench.evict(A)
    with pytest.raises(SegmentExistsError):
        await bench.container.create(A, {})
    with pytest.raises(SegmentExistsError):
        await bench.container.tables.create(A)
    await bench.start()
    with pytest.raises(SegmentExistsError):
        await bench.container.create(A, {})


async def test_an_evicted_segment_is_deleted_for_good_and_its_name_is_free_at_once(bench):
    container = bench.container
    first = await container.create(A, {})
    await append(container, A, b"old")
    await bench.evict(A)
    await container.delete(await container.resolve(A))
    with pytest.raises(NoSuchSegmentError):
        await container.resolve(A)
    with pytest.raises(NoSuchSegmentError):
        await container.read_info(A)
    second = await container.create(A, {})
    assert second.segment_id != first.segment_id
    await append(container, A, b"new")
    await bench.evict(A)
    assert first.segment_id not in container.state.by_id
    assert await read_all(container, A) == b"new"
    await container.delete(await container.resolve(A))
    await bench.evict()
    assert container.segment_statistics().catalogue_rows == 0
    await bench.start()
    with pytest.raises(NoSuchSegmentError):
        await bench.container.resolve(A)


async def test_a_row_goes_when_its_segment_was_merged(bench):
    container = bench.container
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, name.encode())
    await bench.evict(A, B)
    target = await container.resolve(A)
    assert await container.merge(target, B) == 6
    assert await container.merge(target, B) == 6, "a repetition is answered with success"
    await bench.evict()
    with pytest.raises(NoSuchSegmentError):
        await container.resolve(B)
    assert await read_all(container, A) == b"s/as/b"
    await bench.start()
    assert await read_all(bench.container, A) == b"s/as/b"
    assert await bench.container.create(B, {})


async def test_a_batch_of_sources_out_of_memory_is_merged_in_order(bench):
    container = bench.container
    names = [f"s/source{n}" for n in range(20)]
    await container.create(A, {})
    for name in names:
        await container.create(name, {})
        await append(container, name, name[-1].encode())
    await bench.evict(A, *names)
    target = await container.resolve(A)
    lengths = await container.merge_batch(target, [*names[:7], "s/unknown", *names[7:]])
    assert lengths == [1, 2, 3, 4, 5, 6, 7, 7, *range(8, 21)]
    assert await read_all(container, A) == b"".join(name[-1].encode() for name in names)
    assert target.users == 0


async def test_a_table_is_evicted_and_opened_again(bench):
    tables = bench.container.tables
    await tables.create("s/table")
    await tables.update("s/table", [TableEntry(b"k", b"v")])
    await bench.evict("s/table")
    assert tables.statistics().tables_open == 2, "the container's own"
    [entry] = await tables.get("s/table", [b"k"])
    assert entry.value == b"v"
    await tables.update("s/table", [TableEntry(b"k", b"w", entry.version)])
    await bench.evict("s/table")
    await bench.start()
    await bench.evict("s/table")
    [entry] = await bench.container.tables.get("s/table", [b"k"])
    assert entry.value == b"w"


async def test_the_catalogue_is_made_once_and_never_leaves(bench):
    container = bench.container
    identity = container.state.by_name[CATALOGUE].segment_id
    await container.create(A, {})
    await bench.evict(A)
    await bench.evict()
    assert container.state.by_name[CATALOGUE].pinned
    await bench.start()
    await bench.evict()
    assert bench.container.state.by_name[CATALOGUE].segment_id == identity


async def test_every_segment_that_a_container_keeps_for_itself_never_leaves(bench):
    for name in (A, B):
        container = bench.container
        own = {each: state for each, state in container.state.by_name.items() if is_internal(each)}
        assert own.keys() == {CATALOGUE, storage_table_name(container.container_id)}
        await container.create(name, {})
        await bench.evict()
        await bench.evict()
        assert set(container.state.by_name) == own.keys(), "the others have left"
        assert not any(state.evicted for state in own.values())
        await bench.start()


@pytest.mark.slow
@pytest.mark.parametrize("use", ["append", "read", "seal", "delete", "attribute", "merge", "look-up"])
async def test_a_segment_used_while_its_row_is_written_stays(bench, use):
    container = bench.container
    await container.create(A, {})
    await container.create(B, {})
    await append(container, A, b"abc")
    await append(container, B, b"b")
    await container.log.write_checkpoint()
    await container.flush_storage()
    await container.evictions.evict()
    state = container.state.by_name[A]
    put = container._catalogue.put

    async def put_and_use(rows):
        await put(rows)
        if use == "append":
            await append(container, A, b"d")
        elif use == "read":
            assert (await container.read(state, 0, 10, wait=False)).to_bytes() == b"abc"
            container.find_segment(A)
        elif use == "seal":
            await container.seal(state)
        elif use == "delete":
            await container.delete(state)
        elif use == "attribute":
            await container.update_attributes(state, [AttributeUpdate(KEY, UpdateKind.REPLACE, 1)])
        elif use == "merge":
            await container.merge(container.state.by_name[B], A)
        else:
            container.find_segment(A)

    container._catalogue.put = put_and_use
    await container.evictions.evict()
    container._catalogue.put = put
    assert not state.evicted
    container.check()
    container = await bench.start()  # its row is there and says nothing
    if use in {"delete", "merge"}:
        with pytest.raises(NoSuchSegmentError):
            await container.resolve(A)
        await bench.evict()
        await container.create(A, {})
        assert await read_all(container, A) == b""
    else:
        assert container.state.by_name[A].segment_id == state.segment_id
        assert await read_all(container, A) == (b"abcd" if use == "append" else b"abc")
        assert (await container.read_info(A)).sealed == (use == "seal")


async def test_a_reader_at_the_tail_keeps_its_segment(bench):
    container = bench.container
    segment = await container.create(A, {})
    reading = asyncio.ensure_future(container.read(segment, 0, 10, wait=True))
    await until(lambda: segment.users)
    await bench.evict()
    assert not segment.evicted
    await append(container, A, b"x")
    assert (await reading).to_bytes() == b"x"
    await bench.evict(A)


async def test_who_holds_an_evicted_object_is_told_to_look_again(bench):
    container = bench.container
    segment = await container.create(A, {})
    await append(container, A, b"abc")
    await bench.evict(A)
    for call in (
        lambda: container.append(segment, b"x"),
        lambda: container.seal(segment),
        lambda: container.truncate(segment, 1),
        lambda: container.delete(segment),
        lambda: container.read(segment, 0, 1, wait=False),
        lambda: container.update_attributes(segment, [AttributeUpdate(KEY, UpdateKind.REPLACE, 1)]),
    ):
        with pytest.raises(ContainerOfflineError, match="look it up again"):
            await call()
    assert await read_all(container, A) == b"abc"


@pytest.mark.parametrize("damage", ["bit", "short", "other", "longer"])
async def test_a_damaged_row_is_corruption_and_not_an_absent_segment(bench, damage):
    container = bench.container
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"abc")
    await bench.evict(A, B)
    [entry, other] = await container.tables.get(CATALOGUE, [A.encode(), B.encode()])
    value = bytes(entry.value)
    if damage == "longer":
        row = decode_row(A, value)
        row.segment.accepted_length += 1
        value = encode_row(row.segment)
    else:
        flipped = value[:9] + bytes((value[9] ^ 4,)) + value[10:]
        value = {"bit": flipped, "short": value[:-5], "other": bytes(other.value)}[damage]
    await container.tables.update(CATALOGUE, [TableEntry(A.encode(), value)])
    with pytest.raises(DataCorruptionError):
        await container.resolve(A)
    if damage != "longer":
        with pytest.raises(DataCorruptionError):
            await container.read_info(A)
        with pytest.raises(DataCorruptionError):
            await container.create(A, {})


@pytest.mark.slow
async def test_hundreds_of_segments_go_through_a_bound_of_a_hundred(bench):
    container = bench.container
    names = [f"s/{n}" for n in range(600)]
    for name in names:
        await container.create(name, {})
        await append(container, name, name.encode(), [AttributeUpdate(KEY, UpdateKind.REPLACE, len(name))])
        assert len(container.state.by_name) <= 100
    container.check()
    for name in names[::7]:
        assert await read_all(container, name) == name.encode()
        assert (await container.read_info(name)).attributes[KEY] == len(name)
    container = await bench.start()
    for name in names[::5]:
        assert await read_all(container, name) == name.encode()
    await asyncio.gather(*(append(container, name, b"!") for name in names[::3]))
    for name in names[::3]:
        assert await read_all(container, name) == name.encode() + b"!"
    assert container.segment_statistics().evicted > 400
    assert not bench.failures


async def test_when_nothing_can_leave_the_answer_says_what_to_do():
    bench = Bench(active_segments_max=5)
    container = await bench.start()
    targets = []
    for name in ("s/1", "s/2", "s/3"):
        await container.create(name, {})
        targets.append(container.append_target(name))
    for _ in range(2):
        with pytest.raises(TooManyActiveSegmentsError, match="active_segments_max"):
            await container.create(A, {})
    targets.pop().close()
    await container.create(A, {})
    target = container.append_target(A)
    with pytest.raises(TooManyActiveSegmentsError):
        await container.resolve("s/3")
    target.close()
    assert (await container.resolve("s/3")).name == "s/3"
    container.check()
    await bench.stop()


async def test_recovery_may_exceed_the_bound_and_evictions_bring_it_back(bench):
    for n in range(90):
        await bench.container.create(f"s/{n}", {})
    bench.config = Bench(active_segments_max=10).config
    container = await bench.start()
    assert len(container.state.by_name) == 92
    for n in range(40):
        await container.create(f"t/{n}", {})
    assert len(container.state.by_name) <= 92
    assert await container.resolve("s/0")


async def test_concurrent_activations_of_a_name_are_one_and_go_on_in_order(bench):
    container = bench.container
    await container.create(A, {})
    await bench.evict(A)
    done = []

    async def write(number):
        segment = await container.resolve(A)
        done.append(number)
        await container.append(segment, b"%d " % number)

    await asyncio.gather(*(write(number) for number in range(50)))
    assert done == list(range(50))
    assert await read_all(container, A) == b"".join(b"%d " % number for number in range(50))
    assert container.segment_statistics().activations == 1


async def test_who_brought_a_segment_back_finds_it_without_waiting_again(bench):
    await bench.container.create(A, {})
    await bench.evict(A)
    assert bench.container.append_target(A) is None

    async def open_target():
        segment = await bench.container.resolve(A)
        target = bench.container.append_target(A)
        assert target.state is segment
        target.close()

    await asyncio.gather(*(open_target() for _ in range(5)))


async def test_a_row_that_is_too_large_keeps_its_segment_in_memory(bench):
    container = bench.container
    segment = await container.create(A, {})
    updates = [AttributeUpdate(n.to_bytes(16, "big"), UpdateKind.REPLACE, n) for n in range(1, 2600)]
    await container.update_attributes(segment, updates)
    await container.create(B, {})
    await bench.evict(B)
    assert not segment.evicted


LARGE = [AttributeUpdate(n.to_bytes(16, "big"), UpdateKind.REPLACE, n) for n in range(1, 2600)]


async def create_large(container, count):
    """Segments whose rows are too large for them to leave memory."""
    names = [f"large/{number}" for number in range(count)]
    for name in names:
        await container.update_attributes(await container.create(name, {}), LARGE)
    return names


async def test_segments_that_cannot_leave_keep_no_others_in_memory():
    """Used longest ago, they are the first to be looked at, in every run."""
    bench = Bench(eviction_batch=2)
    container = await bench.start()
    large = await create_large(container, 3)
    await container.create(A, {})
    await container.create(B, {})
    await bench.evict(A, B)
    assert all(name in container.state.by_name for name in large)
    await bench.stop()


async def test_segments_that_cannot_leave_do_not_hide_those_that_make_room():
    bench = Bench(active_segments_max=16)
    container = await bench.start()
    large = await create_large(container, 6)
    for n in range(40):
        await container.create(f"small/{n}", {})
    assert all(name in container.state.by_name for name in large)
    container.check()
    await bench.stop()


async def test_stale_scratch_segments_go_and_live_ones_stay(bench):
    attributes = {attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT}
    old = await bench.container.create("s/a#transient.1", attributes)
    await bench.evict()
    assert not old.evicted
    container = await bench.start()
    assert container.find_segment("s/a#transient.1") is None
    await container.create("s/a#transient.2", attributes)
    await bench.evict()
    assert container.find_segment("s/a#transient.2") is not None


async def test_a_stale_scratch_segment_that_somebody_else_deletes_does_not_keep_the_others(bench):
    attributes = {attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT}
    for number in range(40):
        await bench.container.create(f"s/a#transient.{number}", attributes)
    await bench.stop()
    bench.container = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Evictions, "delete_stale_transients", AsyncMock())
        container = await bench.start()
    stale = [container.find_segment(f"s/a#transient.{number}") for number in range(40)]
    outcomes = await asyncio.gather(
        container.evictions.delete_stale_transients(), container.delete(stale[20]), return_exceptions=True
    )
    assert outcomes == [None, None]
    assert all(segment.deleted for segment in stale)


@pytest.mark.slow
async def test_a_start_does_not_wait_for_the_log_once_for_each_scratch_segment_that_is_left():
    bench = Bench(active_segments_max=2000)
    await bench.start()
    attributes = {attr.SEGMENT_TYPE: attr.TYPE_TRANSIENT}
    names = [f"s/a#transient.{number}" for number in range(1000)]
    await asyncio.gather(*(bench.container.create(name, attributes) for name in names))
    container = await bench.start()
    assert not any(name in container.state.by_name for name in names)
    assert container.log.processor.statistics().frames_durable < 100
    await bench.stop()


@pytest.mark.parametrize("call", ["delete", "merge"])
async def test_a_cancelled_caller_does_not_keep_a_departed_segment_in_memory(bench, call):
    container = bench.container
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"x")
    source = await container.resolve(B)
    if call == "delete":
        calling = asyncio.ensure_future(container.delete(source))
    else:
        calling = asyncio.ensure_future(container.merge(await container.resolve(A), B))
    await until(lambda: source.accepted_deleted or source.accepted_merged)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await bench.evict()
    assert source.segment_id not in container.state.by_id
    assert not container.state.retired


@pytest.mark.parametrize("error", [ThrottledError("too many"), DataCorruptionError("the catalogue")])
async def test_a_run_that_fails_is_put_off_not_given_up(bench, caplog, error):
    """Only the end of the container ends its evictions: "send again" is no such end, nor is damage."""
    container = bench.container
    refused = asyncio.Event()

    async def evict():
        if not refused.is_set():
            refused.set()
            raise error
        evicted.set()
        return 0

    evicted = asyncio.Event()
    container.evictions.evict = evict
    container.evictions._config = dataclasses.replace(container.evictions._config, eviction_interval_s=0.001)
    running = asyncio.ensure_future(container.evictions.run())
    await asyncio.wait_for(evicted.wait(), 120)
    assert refused.is_set()
    assert "postponed" in caplog.text
    running.cancel()


async def test_no_row_is_written_for_a_segment_that_was_forgotten_while_it_was_about_to_leave(
    bench, monkeypatch
):
    container = bench.container
    state = await container.create(A, {})
    await append(container, A, b"x")
    await container.log.write_checkpoint()
    await container.flush_storage()
    await container.evictions.evict()
    made = []
    make_candidate = Evictions._make_candidate
    monkeypatch.setattr(
        Evictions, "_make_candidate", lambda self, each: made.append(each) or make_candidate(self, each)
    )
    async with container._catalogue.changing:  # as whoever forgets it
        evicting = asyncio.ensure_future(container.evictions.evict())
        await until(lambda: state in made)
        await container.delete(state)
        await until(lambda: state.stored_deleted)
        container.state.forget(state)
    assert await evicting == 0
    with pytest.raises(NoSuchSegmentError):
        await container.read_info(A)
    assert container.segment_statistics().catalogue_rows == 0


async def test_a_segment_that_is_used_while_others_are_looked_at_stays(bench, monkeypatch):
    monkeypatch.setattr("headrace.segmentstore.container.evictions._MADE_AT_ONCE", 1)
    container = bench.container
    for name in (A, B):
        await container.create(name, {})
        await append(container, name, b"x")
    await container.log.write_checkpoint()
    await container.flush_storage()
    await container.evictions.evict()
    made = []
    make_candidate = Evictions._make_candidate

    def make_and_use(self, each):
        made.append(each.name)
        container.find_nowait(B)
        return make_candidate(self, each)

    monkeypatch.setattr(Evictions, "_make_candidate", make_and_use)
    assert await container.evictions.evict() == 1
    assert made == [A]
    assert B in container.state.by_name


@pytest.mark.slow
async def test_that_many_segments_are_looked_at_holds_up_nobody(monkeypatch):
    bench = Bench(active_segments_max=10_000)
    container = await bench.start()
    names = [f"s/{number}" for number in range(3500)]
    for begin in range(0, len(names), 500):
        await asyncio.gather(*(container.create(name, {}) for name in names[begin : begin + 500]))
    looked_at = 0
    is_transient = SegmentState.is_transient

    def count(self):
        nonlocal looked_at
        looked_at += 1
        return is_transient.fget(self)

    await container.log.write_checkpoint()
    await container.flush_storage()
    monkeypatch.setattr(SegmentState, "is_transient", property(count))
    most = looked_at = 0
    evicting = asyncio.ensure_future(container.evictions._evict_before(container.state.sequence, 1))
    deleting = asyncio.ensure_future(container.evictions.delete_stale_transients())
    while not (evicting.done() and deleting.done()):
        before = looked_at
        await asyncio.sleep(0)
        most = max(most, looked_at - before)
    assert looked_at >= 2 * 3500
    assert most <= 2 * 1000, "each of the two"
    monkeypatch.undo()
    await bench.stop()

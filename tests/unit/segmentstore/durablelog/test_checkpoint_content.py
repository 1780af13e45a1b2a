"""A checkpoint describes the state at its beginning: the log may be cut in front of it."""

import asyncio
from functools import partial

from headrace.model.attributes import AttributeUpdate, UpdateKind
from headrace.segmentstore.operations import catalogue as ops
from headrace.segmentstore.state import transitions
from headrace.segmentstore.state.metadata_checkpoint import decode_segment_row, encode_segment_row
from tests.unit.segmentstore.durablelog.log_bench import Bench, Owner


async def settled(bench, work):
    work = asyncio.ensure_future(work)
    while not work.done():
        await bench.settle()
    return work.result()


async def test_a_checkpoint_has_what_was_accepted_right_before_it_durable_or_not():
    bench = await Bench(frame_bytes=300, frames=40).start()
    names = "appended", "requested", "sealed", "cut", "deleted", "target", "source"
    segments = {name: await bench.map(name) for name in names}
    owner = Owner(1)
    for number, segment in enumerate(segments.values(), 1):
        bench.append(segment, owner, b"x" * number, last=1)
    bench.log.submit(partial(transitions.propose_seal, segments["source"]))
    bench.log.submit(lambda seq: ops.StorageRows(seq, {"old": b"1", "new": b"1"}), critical=True)
    await bench.settle()
    await settled(bench, bench.log.write_checkpoint())  # every row is made, and kept
    bench.append(segments["appended"], owner, b"behind", last=7)
    update = AttributeUpdate(b"k" * 16, UpdateKind.REPLACE, 5)
    target, source = segments["target"], segments["source"]
    for propose in (
        lambda seq: transitions.propose_append(segments["requested"], seq, b"behind", [update], -1),
        partial(transitions.propose_seal, segments["sealed"]),
        lambda seq: transitions.propose_truncate(segments["cut"], seq, 2),
        partial(transitions.propose_delete, segments["deleted"]),
        lambda seq: transitions.propose_merge(target, source, seq, [update]),
        lambda seq: ops.StorageRows(seq, {"old": None, "new": b"2"}),
    ):
        bench.log.submit(propose)
    writing = asyncio.ensure_future(bench.log.write_checkpoint())
    await asyncio.sleep(0)
    assert segments["appended"].durable_length == 1, "nothing of it is durable when the checkpoint begins"
    await settled(bench, writing)
    begin = bench.log._truncation.newest.begin_address
    bench.wal.stored = [item for item in bench.wal.stored if item[0] >= begin]
    again = await bench.recover()

    def known(state):
        return {
            each.name: (
                *(each.segment_id, each.start_offset, each.durable_length, each.accepted_length),
                *(each.sealed, each.merged, each.deleted, each.attributes.durable),
            )
            for each in state.by_id.values()
        }

    assert known(again.state) == known(bench.state)
    assert again.state.storage_rows == again.state.accepted_storage_rows == {"new": b"2"}
    assert {each.name for each in again.state.retired} == {"deleted", "source"}


async def test_a_row_that_is_made_while_its_change_is_on_its_way_is_made_again_with_its_time():
    bench = await Bench().start()
    segment = await bench.map("s")
    segment.last_modified_ms = 1
    bench.append(segment, Owner(1), b"x", last=1)
    encode_segment_row(segment)
    await bench.settle()
    assert decode_segment_row(encode_segment_row(segment)).last_modified_ms == segment.last_modified_ms > 1

"""Marks of more writers, at more segments, than one row may hold."""

from contextlib import suppress

import grpc
import pytest

from headrace.controller.store.layout import details_table, marks_key
from headrace.controller.store.rows.marks_row import decode_marks
from headrace.errors import InvalidArgumentError
from headrace.limits import TABLE_VALUE_BYTES_MAX
from headrace.rpc.generated import controller_pb2 as pb
from tests.effort import examples
from tests.unit.controller.calls import State, begin, commit, info, refused, settled
from tests.unit.controller.conftest import World, serve


@pytest.mark.slow
async def test_the_times_of_many_writers_at_many_segments_hold_up_no_commit():
    async with serve(World(in_tables=True)) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        context = service.controller.context
        stream = await context.directory.get("s", "t")
        for segments in (10_000, 1_000, 100, 10):
            position = dict.fromkeys(range(segments), 1 << 40)
            for number in range(examples(8)):
                with suppress(InvalidArgumentError):
                    await context.marks.note(stream, f"{segments}-{number}", number, position)
        txn = await begin(service)
        assert await commit(service, txn, writer="w" * 200, timestamp=1_000) == pb.TxnStatus.SUCCESS
        assert await settled(service, txn) == State.COMMITTED
        row = await context.store.get(details_table(stream.uid), marks_key(stream.uid))
        writers = decode_marks(row.value).writers
        assert writers["w" * 200].time == 1_000
        assert len(writers) > 1


async def test_a_mark_that_no_row_could_hold_is_refused_and_does_not_hold_up_a_commit():
    async with serve(World(in_tables=True)) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream()
        writer = "w" * (TABLE_VALUE_BYTES_MAX - 1_000)
        request = pb.TimestampFromWriter(
            writer=writer, timestamp=1, position=pb.StreamCut(streamInfo=info(), cut={0: 0})
        )
        await service.stub.noteTimestampFromWriter(
            pb.TimestampFromWriter(
                writer="other", timestamp=1, position=pb.StreamCut(streamInfo=info(), cut={0: 0})
            )
        )
        async with refused(grpc.StatusCode.INVALID_ARGUMENT):
            await service.stub.noteTimestampFromWriter(request)
        txn = await begin(service)
        assert await commit(service, txn, writer=writer, timestamp=2) == pb.TxnStatus.SUCCESS
        assert await settled(service, txn) == State.COMMITTED

"""Short ways to say what tests of the controller's calls say again and again."""

import asyncio
from contextlib import asynccontextmanager

import grpc
import pytest

from headrace.controller.api.call_front import snake_case
from headrace.errors import HeadraceError
from headrace.limits import INT64_MIN
from headrace.rpc.convert import txn_id_from_message
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.refusals import STATUSES, refusing_reply

_METHODS = {snake_case(name): name for name in STATUSES}
State, Scale, Check = pb.TxnState, pb.ScaleResponse, pb.ScaleStatusResponse
LEASE = 30_000


async def ask(controller, name, request):
    """Call a handler (in snake case) as the gRPC server does: a refusal may be a status of the reply."""
    try:
        return await controller.handlers[name](request)
    except HeadraceError as error:
        reply = refusing_reply(_METHODS.get(name, name), error)
        if reply is None:
            raise
        return reply


async def eventually(condition, timeout_s=10):
    """Ask ``condition`` until it answers something true, and return that."""
    async with asyncio.timeout(timeout_s):
        while not (found := await condition()):  # noqa: ASYNC110 - it is asked over the network
            await asyncio.sleep(0.003)
        return found


def info(stream="t", scope="s"):
    return pb.StreamInfo(scope=scope, stream=stream)


async def begin(service, stream="t", lease=LEASE, scope="s"):
    request = pb.CreateTxnRequest(streamInfo=info(stream, scope), lease=lease)
    return await service.stub.createTransaction(request)


async def commit(service, txn, stream="t", writer="", timestamp=INT64_MIN):
    request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId, writerId=writer, timestamp=timestamp)
    return (await service.stub.commitTransaction(request)).status


async def abort(service, txn, stream="t"):
    request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId)
    return (await service.stub.abortTransaction(request)).status


async def state(service, txn, stream="t"):
    request = pb.TxnRequest(streamInfo=info(stream), txnId=txn.txnId)
    return (await service.stub.checkTransactionState(request)).state


async def ping(service, txn, lease=LEASE, stream="t"):
    request = pb.PingTxnRequest(streamInfo=info(stream), txnId=txn.txnId, lease=lease)
    return (await service.stub.pingTransaction(request)).status


async def settled(service, txn, stream="t"):
    """Wait until the transaction is finished and return how."""

    async def finished():
        found = await state(service, txn, stream)
        return None if found in {State.COMMITTING, State.ABORTING} else found

    return await eventually(finished)


def shadow(txn, index=0, stream="t"):
    segment = txn.activeSegments[index].segmentId.segmentId
    txn_id = txn_id_from_message(txn.txnId)
    return f"s/{stream}/{segment & 0xFFFFFFFF}.#epoch.{segment >> 32}#transaction.{txn_id:032x}"


def write(service, txn, data, index=0, stream="t"):
    service.world.segments.write(shadow(txn, index, stream), data)


def content(service, segment, stream="t"):
    name = f"s/{stream}/{segment & 0xFFFFFFFF}.#epoch.{segment >> 32}"
    return bytes(service.world.segments.segments[name].data)


@asynccontextmanager
async def refused(code):
    with pytest.raises(grpc.aio.AioRpcError) as error:
        yield
    assert error.value.code() == code


def seg(number, epoch=0):
    return epoch << 32 | number


async def scale(service, sealed, ranges, time=0, stream="t"):
    entries = [pb.ScaleRequest.KeyRangeEntry(start=low, end=high) for low, high in ranges]
    return await service.stub.scale(
        pb.ScaleRequest(
            streamInfo=info(stream), sealedSegments=sealed, newKeyRanges=entries, scaleTimestamp=time
        )
    )


async def check(service, epoch, stream="t"):
    return (await service.stub.checkScale(pb.ScaleStatusRequest(streamInfo=info(stream), epoch=epoch))).status


async def scaled(service, sealed, ranges, stream="t"):
    """Scale, wait until it is done and return the ids of the new segments."""
    answer = await scale(service, sealed, ranges, stream=stream)
    assert answer.status == Scale.STARTED
    await scale_done(service, answer.epoch, stream)
    return [each.segmentId.segmentId for each in answer.segments]


async def scale_done(service, epoch, stream="t"):
    async def done():
        status = await check(service, epoch, stream)
        assert status in {Check.IN_PROGRESS, Check.SUCCESS}
        return status == Check.SUCCESS

    await eventually(done)


async def successors(service, segment, stream="t"):
    """Return {successor: (range, predecessors)}."""
    request = pb.SegmentId(streamInfo=info(stream), segmentId=segment)
    answer = await service.stub.getSegmentsImmediatelyFollowing(request)
    assert answer == await service.stub.getSegmentsImmediatlyFollowing(request)
    return {
        each.segment.segmentId.segmentId: (
            (each.segment.minKey, each.segment.maxKey),
            sorted(each.value),
        )
        for each in answer.segments
    }


async def idle_controller(controller):
    """Wait until the controller has nothing left to do."""

    async def idle():
        return controller.is_idle()

    await eventually(idle)

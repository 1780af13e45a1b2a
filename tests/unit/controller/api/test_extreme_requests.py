"""No field of any call, at whatever value, is a bug of ours; and what is refused changes nothing."""

import uuid

import grpc
import pytest
from google.protobuf.message_factory import GetMessageClass

from headrace.rpc.generated import controller_pb2 as pb
from tests.unit.controller.api.extreme_requests import GARBAGE, METHODS, valid_request, variants
from tests.unit.controller.api.test_reader_group_calls import config as group_config
from tests.unit.controller.calls import abort, begin, commit, eventually, state
from tests.unit.controller.conftest import World, serve

NEVER = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
REFUSALS = {
    "CommitTransactionBatchResponse": {"FOREIGN", "MISSING"},
    "CreateTaggedTransactionResponse": {"UNKNOWN"},
}


async def prepare(service, scope="s"):
    """Make what valid requests name, in a scope of their own; return the id of an open transaction."""
    await service.stub.createScope(pb.ScopeInfo(scope=scope))
    await service.create_stream(segments=2, scope=scope)
    table = pb.KeyValueTableConfig(scope=scope, kvtName="k", partitionCount=1, primaryKeyLength=8)
    await service.stub.createKeyValueTable(table)
    group = group_config("g", ["t"], retention=1, group_id=str(uuid.UUID(int=1)), scope=scope)
    await service.stub.createReaderGroup(group)
    return (await begin(service, scope=scope)).txnId


def watch_effects(service):
    """Return a list that grows with everything that becomes durable."""
    effects = []

    async def note(call, segment):
        effects.append(f"{call} {segment}")

    service.world.segments.after = note
    return effects


async def idle(service):
    async def is_idle():
        return service.controller.is_idle()

    await eventually(is_idle)


def is_refusal(reply):
    for field in reply.DESCRIPTOR.fields:
        if field.name in {"status", "result"} and field.enum_type is not None:
            value = getattr(reply, field.name)
            refusals = REFUSALS.get(reply.DESCRIPTOR.name)
            if refusals is None:
                return value != 0
            return field.enum_type.values_by_number[value].name in refusals
    return False


async def send(service, name, data):
    """Send bytes; return the code and whether the call was refused."""
    method = METHODS[name]
    service_name = method.containing_service.full_name
    call = service.channel.unary_unary(f"/{service_name}/{name}")
    try:
        raw = await call(data)
    except grpc.aio.AioRpcError as error:
        return error.code(), True
    return grpc.StatusCode.OK, is_refusal(GetMessageClass(method.output_type).FromString(raw))


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
async def test_a_field_at_its_extremes_is_refused_or_served_and_never_a_bug(name):
    faults = []
    done, count = 0, 1
    async with serve(World(in_tables=True)) as service:
        effects = watch_effects(service)
        while done < count:  # a call that was served may have removed what the next one needs: begin anew
            scope = f"s{done}"
            request = valid_request(name, await prepare(service, scope), scope)
            cases = [*((what, each.SerializeToString()) for what, each in variants(request))]
            cases += [(f"garbage {raw!r}", raw) for raw in GARBAGE]
            count = len(cases)
            await idle(service)
            effects.clear()
            for what, data in cases[done:]:
                done += 1
                code, refused = await send(service, name, data)
                await idle(service)
                if code in NEVER:
                    faults.append(f"{what}: {code.name}")
                if effects and refused:
                    faults.append(f"{what}: refused with {code.name} after {effects}")
                if effects:
                    break
    assert faults == []


async def test_a_random_id_is_that_of_no_transaction(service):
    """Any UUID of Java: the upper half is negative as often as not."""
    await service.create_stream()
    txn = await begin(service)
    for high in (-1, -(1 << 63), (1 << 63) - 1, 1 << 42):
        txn.txnId.highBits = high
        assert await commit(service, txn) == pb.TxnStatus.TRANSACTION_NOT_FOUND
        assert await abort(service, txn) == pb.TxnStatus.TRANSACTION_NOT_FOUND
        assert await state(service, txn) == pb.TxnState.UNKNOWN


async def test_a_request_without_a_transaction_is_not_about_the_first_one(service):
    await service.create_stream()
    first = await begin(service)
    assert (first.txnId.highBits, first.txnId.lowBits) == (0, 0)
    info = pb.StreamInfo(scope="s", stream="t")
    for call in (service.stub.commitTransaction, service.stub.abortTransaction):
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await call(pb.TxnRequest(streamInfo=info))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert await state(service, first) == pb.TxnState.OPEN

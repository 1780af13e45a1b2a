"""What a client makes of refusals: of a controller of ours, which says its error, and of any other."""

import asyncio
import socket

import grpc
import pytest

from headrace import errors
from headrace.client import ClientConfig, KeyRange, connect
from headrace.client.config import ControllerAddress
from headrace.client.control.controller import Controller
from headrace.errors import (
    EXIT_CODES,
    ConnectionLostError,
    ControllerFailureError,
    HeadraceError,
    UnreachableError,
    family_of,
)
from headrace.model.key_space import FULL_RANGE
from headrace.model.policies import ScalingPolicy, StreamConfiguration
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.refusals import STATUSES, refusal_of, refusing_reply, tell_error, told_error
from headrace.runtime.entropy import SeededEntropy
from tests.unit.controller.api.extreme_requests import METHODS
from tests.unit.controller.conftest import World, serve

ALL = [(name, status) for name, statuses in STATUSES.items() for status in statuses.enum.values]


def test_every_call_with_a_status_has_a_row_for_each_of_them():
    for name, method in METHODS.items():
        enums = [
            field
            for field in method.output_type.fields
            if field.enum_type is not None and field.enum_type.containing_type is method.output_type
        ]
        assert (name in STATUSES) == bool(enums), name
        if name in STATUSES:
            statuses = STATUSES[name]
            assert statuses.reply.DESCRIPTOR.full_name == method.output_type.full_name
            listed = {*statuses.answers, *(refusal.status for refusal in statuses.refusals)}
            assert listed == {value.name for value in statuses.enum.values}, name


@pytest.mark.slow
@pytest.mark.parametrize(("name", "value"), ALL, ids=lambda each: getattr(each, "name", each))
def test_a_status_alone_is_a_typed_error_with_a_sentence_and_an_exit_code(name, value):
    statuses = STATUSES[name]
    error = refusal_of(name, statuses.reply(**{statuses.field: value.number}), ())
    if value.name in statuses.answers:
        assert error is None
        return
    first = next(each for each in statuses.refusals if each.status == value.name)
    assert type(error) is first.error
    assert str(error) == f"{name}: {first.sentence}"
    assert EXIT_CODES[family_of(error)] in {2, 3, 4, 5}


@pytest.mark.parametrize("name", STATUSES)
def test_an_error_that_a_handler_raises_comes_back_with_its_class_and_sentence(name):
    for refusal in STATUSES[name].refusals:
        if refusal.raised:
            error = refusal.error("it has its reasons: ä")
            reply = refusing_reply(name, error)
            back = refusal_of(name, reply, (tell_error(error),))
            assert (type(back), str(back)) == (refusal.error, "it has its reasons: ä")


def test_a_number_beyond_the_schema_is_a_failure_and_not_a_success():
    error = refusal_of("updateStream", pb.UpdateStreamStatus(status=77), ())
    assert type(error) is ControllerFailureError


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            errors.NoSuchSegmentError("s/t/0", "no stream epoch 7"),
            errors.NoSuchSegmentError("", "no stream epoch 7"),
        ),
        (errors.EventTooLargeError(9, 8), errors.InvalidArgumentError("9 bytes exceed the limit of 8")),
        (errors.ClosedError("the controller is stopping"), UnreachableError("the controller is stopping")),
        (errors.DataCorruptionError("a row"), errors.CorruptionError("a row")),
        (HeadraceError("odd"), HeadraceError("odd")),
    ],
)
def test_an_error_that_carries_more_than_its_sentence_is_told_as_a_more_general_one(error, expected):
    back = told_error((tell_error(error),))
    assert (type(back), str(back)) == (type(expected), str(expected))


@pytest.mark.parametrize("raw", [b"", b"\xff\xfe", b"KeyError\nno", b"EXIT_CODES\nno"])
def test_what_is_no_error_of_ours_is_not_told(raw):
    assert told_error((("headrace-error-bin", raw),)) is None
    assert told_error((("other", "x"),)) is None


# ---- over a controller of ours


@pytest.fixture
async def served():
    async with serve(World()) as service:
        await service.stub.createScope(pb.ScopeInfo(scope="s"))
        await service.create_stream(segments=2)
        port = service.port
        async with connect(f"tcp://127.0.0.1:{port}", ClientConfig(control_attempts=2)) as client:
            yield service, client


async def refusal(work):
    with pytest.raises(HeadraceError) as caught:
        await work
    return type(caught.value), str(caught.value)


async def test_a_sealed_stream_is_named_as_such_by_every_call(served):
    service, client = served
    await client.seal_stream("s", "t")
    writer = client.txn_writer("s", "t")
    controller = Controller(
        ControllerAddress.parse(f"tcp://127.0.0.1:{service.port}"), ClientConfig(), SeededEntropy(1)
    )
    cut = pb.StreamCut(streamInfo=pb.StreamInfo(scope="s", stream="t"), cut={0: 0, 1: 0})
    for work in (
        writer.begin(),
        client.scale_stream("s", "t", [0], [KeyRange(0.0, 0.5)]),
        controller.call("truncateStream", cut),  # as other clients ask; ours goes on with a call of its own
        client.update_stream("s", "t", StreamConfiguration(scaling=ScalingPolicy.fixed(3))),
    ):
        kind, text = await refusal(work)
        assert kind is errors.StreamSealedError
        assert "is sealed" in text
    await writer.close()
    await controller.close()


async def test_failure_is_told_apart(served):
    service, client = served
    address = ControllerAddress.parse(f"tcp://127.0.0.1:{service.port}")
    controller = Controller(address, ClientConfig(), SeededEntropy(1))
    for cut in ({0: 0, 1: 99}, {0: 0}):  # a client checks a cut with the segment store first
        request = pb.StreamCut(streamInfo=pb.StreamInfo(scope="s", stream="t"), cut=cut)
        kind, _ = await refusal(controller.call("truncateStream", request))
        assert kind is errors.InvalidArgumentError
    await controller.close()
    assert (await refusal(client.scale_stream("s", "t", [0], [FULL_RANGE])))[0] is errors.InvalidArgumentError
    assert (await refusal(client.scale_stream("s", "u", [0], [FULL_RANGE])))[0] is errors.NoSuchStreamError
    assert (await refusal(client.scale_stream("s", "t", [9], [FULL_RANGE])))[0] is errors.PreconditionError

    async def stalled(call, segment):
        if call == "create_segment":
            await asyncio.Event().wait()

    service.world.segments.fault = stalled
    halves = [KeyRange(0.0, 0.25), KeyRange(0.25, 0.5)]
    await client.scale_stream("s", "t", [0], halves, wait=False)
    kind, _ = await refusal(client.scale_stream("s", "t", [1], [KeyRange(0.5, 1.0)], wait=False))
    assert kind is errors.StreamBusyError


# ---- without an answer


async def test_a_refused_connection_is_not_an_unknown_outcome():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for host in (f"127.0.0.1:{port}", f"no-such-host.invalid:{port}"):
        async with connect(f"tcp://{host}", ClientConfig(control_attempts=2)) as client:
            kind, text = await refusal(client.create_scope("s"))
        assert kind is UnreachableError
        assert "nothing was sent" in text


async def test_a_refused_connection_after_a_lost_answer_is_one(system):
    async with connect(system.uri, ClientConfig(control_attempts=5)) as client:
        assert await client.create_scope("s")
        system.controller.fail_next = [grpc.StatusCode.UNAVAILABLE] * 3
        asked = asyncio.ensure_future(refusal(client.create_scope("t")))
        while len(system.controller.fail_next) == 3:  # noqa: ASYNC110 - the controller sets no event
            await asyncio.sleep(0)
        await system.controller.stop()
        kind, _ = await asked
    assert kind is ConnectionLostError

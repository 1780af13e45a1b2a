import grpc
import pytest

from headrace.client import ClientConfig, KeyRange, connect
from headrace.errors import (
    AccessDeniedError,
    ClosedError,
    ConnectionLostError,
    InvalidArgumentError,
    PreconditionError,
    StreamSealedError,
    UnsupportedError,
)
from headrace.model.key_space import FULL_RANGE, split_evenly
from headrace.model.policies import StreamConfiguration


async def test_a_call_that_fails_for_a_while_is_repeated(system, client):
    system.controller.fail_next = [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN]
    assert await client.create_scope("scope")
    assert system.controller.fail_next == []


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, InvalidArgumentError),
        (grpc.StatusCode.PERMISSION_DENIED, AccessDeniedError),
        (grpc.StatusCode.UNAUTHENTICATED, AccessDeniedError),
        (grpc.StatusCode.UNIMPLEMENTED, UnsupportedError),
    ],
)
async def test_a_refusal_is_final_and_typed(system, client, code, error):
    system.controller.fail_next = [code, code]
    with pytest.raises(error):
        await client.create_scope("scope")
    assert len(system.controller.fail_next) == 1


async def test_attempts_run_out_as_an_unknown_outcome(system):
    async with connect(system.uri, ClientConfig(control_attempts=2)) as client:
        system.controller.fail_next = [grpc.StatusCode.UNAVAILABLE] * 3
        with pytest.raises(ConnectionLostError):
            await client.create_scope("scope")
        assert len(system.controller.fail_next) == 1


async def test_the_next_controller_answers_when_one_is_gone(system):
    dead = "127.0.0.1:1"
    async with connect(f"tcp://{dead},{system.uri.removeprefix('tcp://')}") as client:
        assert await client.create_scope("scope")


async def test_illegal_names_are_refused_before_anybody_is_asked(client):
    for name in ("", "a/b", "_x", "ä", "x" * 256):
        with pytest.raises(InvalidArgumentError):
            await client.create_scope(name)
        with pytest.raises(InvalidArgumentError):
            await client.create_stream("scope", name)


async def test_a_scale_is_waited_for_and_a_stale_one_refused(system, client):
    assert await client.create_stream("s", "t")
    assert not await client.create_stream("s", "t")
    made = await client.scale_stream("s", "t", [0], split_evenly(FULL_RANGE, 2))
    assert [each.key_range for each in made] == [KeyRange(0.0, 0.5), KeyRange(0.5, 1.0)]
    assert system.controller.counts["checkScale"] > 1
    with pytest.raises(PreconditionError):
        await client.scale_stream("s", "t", [0], [FULL_RANGE])
    found = await client.successors("s", "t", 0)
    assert {each.segment_id for each in found} == {each.segment_id for each in made}
    assert await client.segments_between(await client.head_cut("s", "t")) == sorted(
        [0, *(each.segment_id for each in made)]
    )
    assert await client.key_ranges("s", "t", [0]) == {0: FULL_RANGE}


async def test_a_sealed_stream_of_a_controller_of_another_kind_is_not_truncated_and_the_error_says_so(
    system, client
):
    await client.create_stream("s", "t")
    await client.seal_stream("s", "t")
    with pytest.raises(UnsupportedError, match=r"s/t is sealed, and nothing was dropped.*delete"):
        await client.truncate_stream(await client.head_cut("s", "t"))


async def test_streams_are_listed_page_by_page(system, client):
    for name in ("one", "two", "_MARKone"):
        system.controller.create("s", name)
    assert [name async for name in client.list_streams("s")] == ["one", "two"]
    assert "_MARKone" in [name async for name in client.list_streams("s", internal=True)]


async def test_endpoints_are_remembered_until_they_fail(system, client):
    system.controller.create("s", "t")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"one")
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"two")
    assert system.controller.counts["getURI"] == 1
    system.store.drop_connections()
    async with client.event_writer("s", "t") as writer:
        await writer.write(b"three")
        system.store.drop_connections()
        await writer.write(b"four")
    assert system.controller.counts["getURI"] > 1


async def test_a_closed_client_refuses(system):
    client = connect(system.uri)
    await client.close()
    await client.close()
    with pytest.raises(ClosedError):
        await client.create_scope("scope")


async def test_a_sealed_stream_has_no_current_segments(system, client):
    system.controller.create("s", "t")
    await client.seal_stream("s", "t")
    assert await client.current_segments("s", "t") == []
    with pytest.raises(StreamSealedError):
        await client.byte_writer("s", "t")


async def test_whether_a_stream_has_records_is_said_when_it_is_created_and_never_again(system, client):
    await client.create_scope("s")
    await client.create_stream("s/records", tags=["shop"], records=True)
    await client.create_stream("s/plain")
    await client.update_stream("s/records", tags=[])  # names of others
    made = await client.stream_configuration("s/records")
    assert made.tags == {"headrace.records=1"}
    plain = StreamConfiguration()
    for stream, configuration in (("s/records", plain), ("s/plain", made)):
        with pytest.raises(InvalidArgumentError, match="whether a stream has records is decided when"):
            await client.update_stream(stream, configuration)
    with pytest.warns(UserWarning, match="wanted was: .*tags headrace.records=1"):
        await client.create_stream("s/plain", records=True)

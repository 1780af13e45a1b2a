"""A server with users and its data protocol: who gets in with which token, and what ends with it."""

import asyncio
import json
import logging
from base64 import b64encode

import grpc
import httpx
import pytest

from headrace.client import StreamConfiguration, connect
from headrace.client.config import ClientConfig
from headrace.client.credentials import Credentials
from headrace.errors import AccessDeniedError
from headrace.model.names import segment_name
from headrace.processes.config import StandaloneConfig
from headrace.processes.standalone import StandaloneServer
from headrace.rpc.generated import controller_pb2 as pb
from headrace.rpc.generated import controller_pb2_grpc
from headrace.security.config import AuthConfig
from headrace.security.permission import Permission
from headrace.security.tokens import TokenKey, issue
from headrace.testing.users_files import write_users_file
from headrace.testing.wire_client import WireClient
from headrace.wire import commands as c

USERS = {
    "admin": ("admins-password", "prn::*,READ_UPDATE"),
    "ann": ("crimson-password", "prn::/scope:s/stream:orders,READ_UPDATE", "prn::/scope:s*,READ"),
}
KEYS = 3
SEGMENT, OTHER = segment_name("s", "orders", 0), segment_name("s", "orders2", 0)
WRITER = bytes(range(16))
EXPIRED, REFUSED = 1, 0
ANY_PORT = {"controller_port": 0, "segmentstore_port": 0, "rest_port": 0}


class Served:
    """A server in this process, with raw clients."""

    def __init__(self, tmp_path, **auth):
        users = tmp_path / "users"
        write_users_file(users, USERS)
        self.config = StandaloneConfig(
            data_dir=str(tmp_path / "data"),
            containers=1,
            auth=AuthConfig(users=str(users), **auth),
            **ANY_PORT,
        )

    async def __aenter__(self):
        self.server = StandaloneServer(self.config)
        self.addresses = await self.server.start()
        self.channel = grpc.aio.insecure_channel(self.addresses.controller)
        self.stub = controller_pb2_grpc.ControllerServiceStub(self.channel)
        self.wire = await WireClient.connect(*self._segmentstore())
        return self

    def _segmentstore(self):
        host, _, port = self.addresses.segmentstore.rpartition(":")
        return host, int(port)

    async def __aexit__(self, *_):
        self.wire.close()
        await self.channel.close()
        await self.server.stop()

    async def token(self, stream="orders", user="ann", access=pb.StreamInfo.READ_WRITE):
        header = b64encode(f"{user}:{USERS[user][0]}".encode()).decode()
        info = pb.StreamInfo(scope="s", stream=stream, accessOperation=access)
        reply = await self.stub.getDelegationToken(info, metadata=[("authorization", f"Basic {header}")])
        return reply.delegationToken

    def client(self, user="admin"):
        credentials = Credentials.basic(user, USERS[user][0])
        return connect(f"tcp://{self.addresses.controller}", ClientConfig(credentials=credentials))

    async def make_streams(self):
        async with self.client() as client:
            await client.create_scope("s")
            for stream in ("orders", "orders2"):
                await client.create_stream("s", stream, StreamConfiguration())

    async def connections_accepted(self):
        async with httpx.AsyncClient(base_url=f"http://{self.addresses.rest}", trust_env=False) as web:
            answer = await web.get("/v1/debug/statistics", auth=("admin", USERS["admin"][0]))
        return answer.json()["listener"]["connections_accepted"]

    async def code(self, request):
        """Return the code of the refusal, None if there is none."""
        reply = await self.wire.call(request)
        return reply.error_code if isinstance(reply, c.AuthTokenCheckFailed) else None


def set_up(token, segment=SEGMENT):
    return c.SetupAppend(1, WRITER, segment, token)


def ask(token, segment=SEGMENT):
    return c.GetStreamSegmentInfo(1, segment, token)


async def test_users_get_as_far_as_their_grants_and_the_tokens_of_a_restart_before_count(tmp_path):
    async with Served(tmp_path) as served:
        await served.make_streams()
        writes, reads = await served.token(), await served.token(access=pb.StreamInfo.READ)
        other = await served.token("orders2", access=pb.StreamInfo.READ)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.token("orders2")
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        assert await served.code(set_up(writes)) is None
        assert [await served.code(set_up(wrong)) for wrong in ("", reads, other)] == [REFUSED] * 3
        assert [await served.code(ask(good)) for good in (writes, reads)] == [None] * 2
        assert [await served.code(ask(wrong, OTHER)) for wrong in ("", writes, reads)] == [REFUSED] * 3
        assert await served.code(ask(other, OTHER)) is None
    async with Served(tmp_path) as again:
        assert await again.code(set_up(writes)) is None
        assert await again.code(ask(other, OTHER)) is None
        assert await again.code(ask(writes, OTHER)) == REFUSED
        assert await again.code(ask(writes[:-9] + writes[-8:])) == REFUSED
        key = TokenKey((tmp_path / "data" / "token.key").read_bytes().rstrip())
        own = issue(key, {"*": Permission.READ_UPDATE}, 0, None)
        assert [await again.code(set_up(own, segment)) for segment in (SEGMENT, OTHER)] == [None] * 2


async def test_servers_with_one_key_take_the_tokens_of_each_other(tmp_path):
    (tmp_path / "key").write_bytes(b"k" * 64)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with (
        Served(tmp_path / "one", token_key=str(tmp_path / "key")) as one,
        Served(tmp_path / "two", token_key=str(tmp_path / "key")) as two,
    ):
        await one.make_streams()
        assert await one.code(set_up(await two.token())) is None
        assert not (tmp_path / "one" / "data" / "token.key").exists()
        payload = (await one.token()).split(".")[1]
        assert not set(payload) & set("-_")


@pytest.mark.slow
async def test_no_event_is_lost_or_doubled_while_tokens_expire(tmp_path, caplog):
    """Tokens of a second, without leeway: the writer is closed again and again, the reader refused."""
    caplog.set_level(logging.DEBUG)
    async with Served(tmp_path, token_lifetime_s=1, token_leeway_s=0) as served:
        await served.make_streams()
        async with served.client("ann") as client, served.client("ann") as readers:
            written, read = [], []

            async def follow():
                async with readers.event_reader("s", "orders") as reader:
                    async for event in reader:
                        read.append(json.loads(bytes(event.data)))  # noqa: PERF401 - it is read while it grows

            following = asyncio.create_task(follow())
            first = await served.connections_accepted()
            async with client.event_writer("s", "orders") as writer:
                while await served.connections_accepted() < first + 8:
                    for _ in range(100):  # many at a time are not acknowledged yet
                        number = len(written)
                        written.append(number)
                        writer.write(json.dumps(number).encode(), str(number % KEYS))
                    await asyncio.sleep(0.005)
                await writer.flush()
            async with served.client() as admin:
                await admin.seal_stream("s", "orders")
            await following
        for key in range(KEYS):
            assert [number for number in read if number % KEYS == key] == written[key::KEYS]
    assert USERS["ann"][0] not in caplog.text
    assert "eyJ" not in caplog.text  # how tokens begin


async def test_without_credentials_the_client_says_so(tmp_path):
    async with Served(tmp_path) as served:
        await served.make_streams()
        async with connect(f"tcp://{served.addresses.controller}", ClientConfig(credentials=None)) as client:
            with pytest.raises(AccessDeniedError):
                await client.stream_configuration("s", "orders")


async def test_a_server_without_users_asks_for_nothing(tmp_path):
    config = StandaloneConfig(data_dir=str(tmp_path / "data"), containers=1, **ANY_PORT)
    server = StandaloneServer(config)
    addresses = await server.start()
    async with grpc.aio.insecure_channel(addresses.controller) as channel:
        stub = controller_pb2_grpc.ControllerServiceStub(channel)
        assert (await stub.getDelegationToken(pb.StreamInfo(scope="s", stream="t"))).delegationToken == ""
        assert not (tmp_path / "data" / "token.key").exists()
    await server.stop()

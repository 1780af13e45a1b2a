"""A server under load while certificates are exchanged and a user is removed and comes back.

Writers and a reader outlive their delegation tokens meanwhile. No acknowledged event is lost or doubled, and
only the clients of the removed user end.
"""

import asyncio
import collections

import pytest

from headrace.client import ScalingPolicy, StreamConfiguration
from headrace.errors import AccessDeniedError, LostReplyError
from tests.secure_server import TOKENS_S, SecureServer

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

_ENDS_S = TOKENS_S + 10
"""A second until the users file is read again, the lifetime of a token; the rest is for slow machines."""
_LOAD_S = 0.03


class Client:
    """A user's writer or reader in a task of its own, until it is stopped or refused."""

    def __init__(self, server, user):
        self.server, self.user = server, user
        self.task = asyncio.create_task(self.run())
        self._moved = asyncio.Event()

    def moved(self):
        self._moved.set()
        self._moved.clear()

    async def until(self, condition):
        """Return once ``condition`` holds; raises what ended the client before."""
        while not condition():
            moved = asyncio.ensure_future(self._moved.wait())
            await asyncio.wait({moved, self.task}, return_when=asyncio.FIRST_COMPLETED)
            moved.cancel()
            if self.task.done():
                await self.task
                return

    async def is_refused(self):
        # The outcome of a write whose answer was under way is unknown; its error ends with the refusal.
        with pytest.raises((AccessDeniedError, LostReplyError), match="wrong user name or password"):
            await self.task


class Load(Client):
    """Writes events that are numbered."""

    def __init__(self, server, user, key):
        super().__init__(server, user)
        self.key = key
        self.sent = 0
        self.acknowledged = set()
        self._stopping = False

    async def run(self):
        async with (
            self.server.connect(self.user) as client,
            client.event_writer("sales", "shared") as writer,
        ):
            while not self._stopping:
                number, self.sent = self.sent, self.sent + 1
                await writer.write(f"{self.key}:{number}".encode(), self.key)
                self.acknowledged.add(number)
                self.moved()
                await asyncio.sleep(_LOAD_S)

    async def goes_on(self):
        """Return once events are acknowledged that are sent from now on."""
        wanted = self.sent + 5
        await self.until(lambda: len(self.acknowledged) >= wanted)

    async def stop(self):
        self._stopping = True
        await self.task


class Follower(Client):
    """Reads at the tail."""

    def __init__(self, server, user):
        super().__init__(server, user)
        self.seen = collections.defaultdict(list)

    async def run(self):
        async with (
            self.server.connect(self.user) as client,
            client.event_reader("sales", "shared") as reader,
        ):
            async for event in reader:
                key, _, number = bytes(event.data).decode().partition(":")
                self.seen[key].append(int(number))
                self.moved()

    async def has_all_of(self, load):
        await self.until(lambda: load.acknowledged <= set(self.seen[load.key]))

    async def stop(self):
        self.task.cancel()
        await asyncio.wait([self.task])


async def test_a_removed_user_ends_and_everybody_else_goes_on(tmp_path):
    async with SecureServer(tmp_path) as server:
        async with server.connect() as client:
            await client.create_scope("sales")
            await client.create_stream("sales", "shared", StreamConfiguration(scaling=ScalingPolicy.fixed(2)))
        stays, goes = Load(server, "writer", "stays"), Load(server, "streamer", "goes")
        follower, refused_follower = Follower(server, "reader"), Follower(server, "streamer")
        await stays.goes_on()
        await goes.goes_on()

        server.certificates.exchange()
        await asyncio.to_thread(server.remove_user, "streamer")
        async with asyncio.timeout(_ENDS_S):
            await goes.is_refused()
            await refused_follower.is_refused()
        await stays.goes_on()

        server.certificates.exchange()
        await asyncio.to_thread(server.add_user, "streamer")
        comes_back = await _once_known(server, "streamer")
        await comes_back.goes_on()
        async with asyncio.timeout(2 * TOKENS_S):
            for _ in range(round(TOKENS_S * 1.3)):  # until the last token from before has expired
                await asyncio.sleep(1)
                await stays.goes_on()
        await stays.stop()
        await comes_back.stop()
        async with asyncio.timeout(60):
            for load in (stays, goes, comes_back):
                await follower.has_all_of(load)
        await follower.stop()

        for load in (stays, goes, comes_back):
            numbers = follower.seen[load.key]
            assert numbers == sorted(set(numbers))
            assert set(numbers) <= set(range(load.sent))
        assert server.stop() == 0
        assert " ERROR " not in server.log()
        assert "Traceback" not in server.log()


async def test_clients_go_on_when_the_key_of_tokens_is_exchanged(tmp_path):
    async with SecureServer(tmp_path) as server:
        async with server.connect() as client:
            await client.create_scope("sales")
            await client.create_stream("sales", "shared")
        load, follower = Load(server, "streamer", "key"), Follower(server, "reader")
        await load.goes_on()
        assert await asyncio.to_thread(server.stop) == 0
        (tmp_path / "data" / "token.key").unlink()
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(60):
            await load.goes_on()
            await load.stop()
            await follower.has_all_of(load)
        await follower.stop()
        assert follower.seen["key"] == list(range(load.sent))


async def _once_known(server, user):
    """Return a load of a user as soon as the server takes it."""
    async with asyncio.timeout(10):
        while True:
            try:
                async with server.connect(user) as client:
                    await client.stream_configuration("sales", "shared")
            except AccessDeniedError:
                await asyncio.sleep(0.1)
            else:
                return Load(server, user, "comes-back")

"""What a provider makes of a network and a store that fail, whatever the server is."""

import asyncio
from urllib.parse import urlsplit

import pytest

from headrace.errors import ChunkExistsError, StorageReadError, StorageWriteError
from headrace.storage.providers.location import StorageLocation
from headrace.storage.providers.wrappers.retrying import RetryingChunkProvider
from headrace.testing.http_faults import FaultyHttpProxy, HttpFault
from tests.stores.providers import provider_at, wrapped

MINE = bytes(range(256)) * 300
HIS = b"another's" * 1000
CARRIED_OUT = {
    HttpFault.REPEATED,
    HttpFault.LOSE_ANSWER,
    HttpFault.LOSE_ANSWER_BUSY,
    HttpFault.LOSE_ANSWER_CONFLICT,
    HttpFault.CUT_IN_ANSWER,
}
FAULTS = sorted(set(HttpFault) - {HttpFault.STALL}, key=lambda fault: fault.name)


def puts(fault, times):
    """Hit so many requests that write with the fault."""

    def inject(request):
        nonlocal times
        if request.method not in {"PUT", "POST"} or times == 0:
            return None
        times -= 1
        return fault

    return inject


class StoreFaults:
    """``place`` returns the URI of an empty place whose endpoint is plain HTTP."""

    creates_by_one_request = True
    """Else a fault that stays hits the first request of each, and nothing is created."""

    def place(self):
        raise NotImplementedError

    @pytest.fixture
    async def _server(self):
        """A server that is started for the test."""

    @pytest.fixture(autouse=True)
    async def _proxy(self, _server, quick_pauses):
        uri = self.place()
        self.direct = provider_at(uri)
        address = urlsplit(StorageLocation.parse(uri).option("endpoint"))
        async with FaultyHttpProxy(address.hostname, address.port) as self.proxy:
            self.provider = provider_at(uri.replace(f"http://{address.netloc}", self.proxy.endpoint))
            yield

    async def content(self):
        return bytes(await self.direct.read("c", 0, (await self.direct.info("c")).length))

    async def listed(self):
        return [each.name async for page in self.direct.list() for each in page]

    @pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault is not HttpFault.CUT_IN_BODY])
    async def test_one_fault_is_not_noticed(self, fault):
        self.proxy.inject = puts(fault, 1)
        await self.provider.create("c", [MINE])
        assert await self.content() == MINE

    async def test_a_part_of_an_object_is_not_taken_for_the_object(self):
        """Some servers keep what they got before the connection was cut."""
        self.proxy.inject = puts(HttpFault.CUT_IN_BODY, 1)
        try:
            await self.provider.create("c", [MINE])
        except StorageWriteError:
            assert await self.content() == MINE[: len(MINE) // 2]
        else:
            assert await self.content() == MINE

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_fault_that_stays_never_makes_an_own_object_anothers(self, fault):
        self.proxy.inject = puts(fault, -1)
        if fault is HttpFault.REPEATED or (fault in CARRIED_OUT and self.creates_by_one_request):
            await self.provider.create("c", [MINE])
            assert await self.content() == MINE
            return
        with pytest.raises(StorageWriteError):
            await self.provider.create("c", [MINE])
        assert await self.listed() == [] or fault is HttpFault.CUT_IN_BODY
        assert len(self.proxy.requests) <= 8

    @pytest.mark.parametrize("fault", FAULTS)
    @pytest.mark.parametrize("times", [1, 2, -1])
    async def test_no_object_of_another_is_taken_or_changed(self, fault, times):
        await self.direct.create("c", [HIS])
        self.proxy.inject = puts(fault, times)
        with pytest.raises(ChunkExistsError):
            await self.provider.create("c", [MINE])
        assert await self.content() == HIS

    @pytest.mark.parametrize("fault", [HttpFault.BUSY, HttpFault.LOSE_ANSWER, HttpFault.CUT_IN_BODY])
    async def test_a_store_that_answers_nothing_leaves_the_outcome_unknown(self, fault):
        self.proxy.inject = lambda _: fault
        with pytest.raises(StorageWriteError):
            await self.provider.create("c", [MINE])
        with pytest.raises(StorageReadError):
            await self.provider.read("c", 0, 1)
        with pytest.raises(StorageReadError):
            await self.provider.info("c")
        with pytest.raises(StorageWriteError):
            await self.provider.delete("c")
        with pytest.raises(StorageReadError):
            async for _ in self.provider.list():
                pass
        self.proxy.inject = lambda _: None
        await self.provider.delete("c")
        await self.provider.create("d", [MINE])

    @pytest.mark.parametrize("fault", sorted(CARRIED_OUT, key=lambda fault: fault.name))
    async def test_an_own_object_is_known_however_late_it_is_seen(self, fault):
        """The look after the first attempt fails as well: the second is refused, by our own object."""
        faults = [fault, HttpFault.BUSY]
        self.proxy.inject = lambda _: faults.pop(0) if faults else None
        await self.provider.create("c", [MINE])
        assert await self.content() == MINE

    async def test_of_many_who_create_one_name_over_a_bad_network_one_succeeds(self):
        faults = [*FAULTS, None, None] * 4
        self.proxy.inject = lambda request: faults.pop() if request.method != "HEAD" and faults else None
        contents = [b"%d" % writer * 20_000 for writer in range(6)]
        answers = await asyncio.gather(
            *(self.provider.create("c", [each]) for each in contents), return_exceptions=True
        )
        stored = await self.content()
        for content, answer in zip(contents, answers, strict=True):
            if answer is None:
                assert stored == content
            elif isinstance(answer, ChunkExistsError):
                assert stored != content
            else:
                assert isinstance(answer, StorageWriteError)

    async def test_a_create_that_stalls_ends_unknown(self):
        self.proxy.inject = puts(HttpFault.STALL, -1)
        with pytest.raises(StorageWriteError):
            await RetryingChunkProvider(self.provider, 0.2).create("c", [MINE])
        self.proxy.inject = lambda _: None
        await self.provider.create("c", [MINE])

    @pytest.mark.parametrize("fault", FAULTS)
    async def test_a_read_that_fails_once_is_repeated(self, fault):
        await self.direct.create("c", [MINE])
        faults = [fault]
        self.proxy.inject = lambda _: faults.pop() if faults else None
        assert bytes(await wrapped(self.provider).read("c", 1, 999)) == MINE[1:1000]
        faults.append(fault)
        assert (await wrapped(self.provider).info("c")).length == len(MINE)

    @pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault is not HttpFault.REPEATED])
    async def test_a_read_never_returns_other_bytes(self, fault):
        await self.direct.create("c", [MINE])
        self.proxy.inject = lambda _: fault
        with pytest.raises(StorageReadError):
            await self.provider.read("c", 0, len(MINE))

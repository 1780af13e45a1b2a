"""The contract of every chunk provider, one test per sentence of ``headrace.storage.providers.contract``.

Subclass :class:`ChunkProviderContract` and provide ``make``, which opens an instance on the same objects each
time it is called within one test.
"""

from __future__ import annotations

import asyncio
import os

import pytest

from headrace.errors import (
    ChunkExistsError,
    ChunkOffsetError,
    InvalidArgumentError,
    NoSuchChunkError,
    UnsupportedError,
)
from headrace.limits import MIB
from headrace.storage.providers.contract import (
    CHUNK_NAME_BYTES_MAX,
    LIST_PAGE_OBJECTS_MAX,
    ChunkProvider,
)

ODD_NAMES = [
    "plain",
    "a/b",
    "a",
    "a/b/c/d",
    "scope/stream/0.#epoch.0.E-1-O-0.0123",
    "scope/stream/0.#epoch.0#transaction.00ff.E-1-O-0.0123",
    "..",
    ".",
    "../escape",
    "/absolute",
    "trailing/",
    "//",
    ".hidden",
    "a.chunk",
    "a.chunk/b",
    "per%cent",
    "%2F",
    "%empty",
    "sp ace",
    "new\nline",
    "nul\0",
    "ünïcödé ☃",
    "\ud800lone surrogate",
    "x" * 255,
    "y" * 255 + "/" + "z" * 255,
    "%" * 255,
]


async def list_names(provider: ChunkProvider, prefix: str = "") -> list[str]:
    """Return all names that begin with ``prefix``, sorted."""
    found: list[str] = []
    async for page in provider.list(prefix):
        assert 0 < len(page) <= LIST_PAGE_OBJECTS_MAX
        found += [item.name for item in page]
    assert len(found) == len(set(found))
    return sorted(found)


async def read_bytes(provider: ChunkProvider, name: str, offset: int, length: int) -> bytes:
    return bytes(await provider.read(name, offset, length))


class ChunkProviderContract:
    """One provider with no objects, at the start of each test."""

    async def make(self) -> ChunkProvider:
        raise NotImplementedError

    # ---- create

    async def test_what_is_to_be_done_beside_a_write_is_done_once_before_it_returns(self) -> None:
        provider = await self.make()
        done: list[str] = []
        await provider.create("c", [b"x"], lambda: done.append("create"))
        assert done == ["create"]
        if provider.supports_append:
            await provider.append("c", 1, [b"y"], lambda: done.append("append"))
            assert done == ["create", "append"]

    async def test_what_was_created_is_read_back(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc", memoryview(b"def"), b"", bytearray(b"gh")])
        assert await read_bytes(provider, "c", 0, 8) == b"abcdefgh"

    async def test_an_object_may_be_created_empty(self) -> None:
        provider = await self.make()
        await provider.create("c")
        assert (await provider.info("c")).length == 0
        assert await read_bytes(provider, "c", 0, 0) == b""

    async def test_creating_an_object_that_exists_is_refused_and_leaves_it_alone(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"first"])
        with pytest.raises(ChunkExistsError) as caught:
            await provider.create("c", [b"second, longer"])
        assert caught.value.chunk == "c"
        assert await read_bytes(provider, "c", 0, 5) == b"first"
        assert (await provider.info("c")).length == 5

    async def test_of_many_who_create_one_name_at_once_exactly_one_succeeds(self) -> None:
        provider = await self.make()
        contents = [b"%d" % writer * 10 for writer in range(8)]
        answers = await asyncio.gather(
            *(provider.create("c", [content]) for content in contents), return_exceptions=True
        )
        winners = [content for content, answer in zip(contents, answers, strict=True) if answer is None]
        assert len(winners) == 1
        assert sum(isinstance(answer, ChunkExistsError) for answer in answers) == 7
        assert await read_bytes(provider, "c", 0, 10) == winners[0]

    @pytest.mark.parametrize("name", ["", "x" * (CHUNK_NAME_BYTES_MAX + 1), "ü" * CHUNK_NAME_BYTES_MAX])
    async def test_an_empty_or_too_long_name_is_refused(self, name: str) -> None:
        provider = await self.make()
        with pytest.raises(InvalidArgumentError):
            await provider.create(name, [b"x"])
        assert await list_names(provider) == []

    async def test_a_name_of_the_greatest_length_works(self) -> None:
        provider = await self.make()
        for name in ["x" * CHUNK_NAME_BYTES_MAX, "ü/" * (CHUNK_NAME_BYTES_MAX // 3)]:
            await provider.create(name, [b"x"])
            assert await read_bytes(provider, name, 0, 1) == b"x"

    async def test_any_name_is_its_own_object(self) -> None:
        provider = await self.make()
        for number, name in enumerate(ODD_NAMES):
            await provider.create(name, [b"%d" % number])
        for number, name in enumerate(ODD_NAMES):
            content = b"%d" % number
            assert await read_bytes(provider, name, 0, len(content)) == content
        assert await list_names(provider) == sorted(ODD_NAMES)
        for name in ODD_NAMES:
            await provider.delete(name)
        assert await list_names(provider) == []

    async def test_thousands_of_buffers_are_written_in_order(self) -> None:
        provider = await self.make()
        buffers = [b"%05d" % number for number in range(3000)]
        await provider.create("c", buffers)
        assert await read_bytes(provider, "c", 0, 15_000) == b"".join(buffers)

    # ---- append

    async def test_bytes_are_appended_at_the_end(self) -> None:
        provider = await self.make()
        if not provider.supports_append:
            return
        await provider.create("c", [b"abc"])
        await provider.append("c", 3, [b"de", b"f"])
        await provider.append("c", 6, [b"g"])
        assert await read_bytes(provider, "c", 0, 7) == b"abcdefg"

    @pytest.mark.parametrize("offset", [0, 2, 4, 100])
    async def test_an_append_elsewhere_is_refused_and_names_the_length(self, offset: int) -> None:
        provider = await self.make()
        if not provider.supports_append:
            return
        await provider.create("c", [b"abc"])
        with pytest.raises(ChunkOffsetError) as caught:
            await provider.append("c", offset, [b"x"])
        assert (caught.value.chunk, caught.value.offset, caught.value.actual) == ("c", offset, 3)
        assert (await provider.info("c")).length == 3

    async def test_an_append_to_nothing_is_refused_and_creates_nothing(self) -> None:
        provider = await self.make()
        if not provider.supports_append:
            return
        with pytest.raises(NoSuchChunkError):
            await provider.append("a/c", 0, [b"x"])
        assert await list_names(provider) == []

    async def test_a_provider_that_cannot_append_says_so(self) -> None:
        provider = await self.make()
        if provider.supports_append:
            return
        await provider.create("c", [b"abc"])
        with pytest.raises(UnsupportedError):
            await provider.append("c", 3, [b"x"])

    # ---- read

    async def test_any_range_within_an_object_is_read_exactly(self) -> None:
        provider = await self.make()
        content = bytes(range(256)) * 40
        await provider.create("c", [content])
        for offset, length in [(0, 10_240), (1, 1), (10_239, 1), (10_240, 0), (4096, 4096), (5000, 17)]:
            assert await read_bytes(provider, "c", offset, length) == content[offset : offset + length]
            assert await read_bytes(provider, "c", offset, length) == content[offset : offset + length]

    @pytest.mark.parametrize(("offset", "length"), [(0, 4), (3, 1), (4, 0), (100, 1)])
    async def test_a_range_beyond_the_end_is_refused_rather_than_shortened(
        self, offset: int, length: int
    ) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc"])
        if length == 0:
            return  # nothing is asked for: either answer is right
        with pytest.raises(ChunkOffsetError):
            await provider.read("c", offset, length)

    async def test_large_objects_are_read_whole_and_in_parallel(self) -> None:
        provider = await self.make()
        content = bytes(3 * MIB) + b"end"
        await provider.create("c", [content])
        assert await read_bytes(provider, "c", 0, len(content)) == content
        parts = await asyncio.gather(*(provider.read("c", at * MIB, MIB) for at in range(3)))
        assert all(part == bytes(MIB) for part in parts)

    async def test_what_was_read_does_not_change_later(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc"])
        data = await provider.read("c", 0, 3)
        await provider.delete("c")
        await provider.create("c", [b"xyz"])
        assert await read_bytes(provider, "c", 0, 3) == b"xyz"
        assert bytes(data) == b"abc"

    async def test_a_missing_object_is_missed_by_read_and_info(self) -> None:
        provider = await self.make()
        with pytest.raises(NoSuchChunkError) as caught:
            await provider.read("a/c", 0, 1)
        assert caught.value.chunk == "a/c"
        with pytest.raises(NoSuchChunkError):
            await provider.info("a/c")

    # ---- delete, info, list

    async def test_deleting_is_final_and_may_be_repeated(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc"])
        assert await read_bytes(provider, "c", 0, 3) == b"abc"
        await provider.delete("c")
        await provider.delete("c")
        await provider.delete("never there")
        with pytest.raises(NoSuchChunkError):
            await provider.read("c", 0, 3)
        with pytest.raises(NoSuchChunkError):
            await provider.info("c")

    async def test_info_tells_what_is_there(self) -> None:
        provider = await self.make()
        await provider.create("a/c", [b"abc"])
        info = await provider.info("a/c")
        assert (info.name, info.length) == ("a/c", 3)
        with pytest.raises(NoSuchChunkError):
            await provider.info("a")

    async def test_a_list_has_every_object_with_the_prefix_and_its_length(self) -> None:
        provider = await self.make()
        names = ["a", "ab", "a/b", "a/bc/d", "b/a", "ab/c", "a/.x"]
        for name in names:
            await provider.create(name, [name.encode()])
        for prefix in ["", "a", "a/", "a/b", "a/bc/", "ab", "b/a", "c", "a/."]:
            assert await list_names(provider, prefix) == sorted(
                name for name in names if name.startswith(prefix)
            )
        async for page in provider.list():
            assert all(item.length == len(item.name) for item in page)

    async def test_more_objects_than_a_page_holds_are_all_listed(self) -> None:
        provider = await self.make()
        names = [f"s/{number}" for number in range(LIST_PAGE_OBJECTS_MAX + 100)]
        names += [f"s{number % 7}/t/{number}" for number in range(100)]
        await asyncio.gather(*(provider.create(name) for name in names))
        assert await list_names(provider) == sorted(names)

    # ---- what only files can do

    async def test_what_is_read_at_once_is_right_as_far_as_it_goes(self) -> None:
        provider = await self.make()
        local = provider.local
        if local is None:
            return
        content = bytes(range(200))
        await provider.create("c", [content])
        assert await read_bytes(provider, "c", 0, 200) == content  # may make later reads cheap
        for offset, size in [
            (0, 200),
            (0, 1),
            (150, 100),
            (199, 1),
            (200, 10),
            (10**9, 10),
            (-1, 10),
            (5, 0),
        ]:
            buffer = bytearray(b"?" * size)
            done = local.read_at_once("c", offset, memoryview(buffer))
            assert 0 <= done <= max(0, min(size, 200 - offset))
            assert buffer[:done] == content[offset : offset + done]
        assert local.read_at_once("missing", 0, memoryview(bytearray(10))) == 0

    async def test_an_open_file_holds_the_object_until_it_is_deleted(self) -> None:
        provider = await self.make()
        local = provider.local
        if local is None:
            return
        assert local.open_file("c") is None
        await provider.create("c", [b"one"])
        await read_bytes(provider, "c", 0, 3)
        if provider.supports_append:
            await provider.append("c", 3, [b"two"])
        file = local.open_file("c")
        if file is None:
            return
        assert os.pread(file.descriptor, 100, 0) == (b"onetwo" if provider.supports_append else b"one")
        await provider.delete("c")
        assert local.open_file("c") is None
        assert file.descriptor == -1

    async def test_an_object_that_is_read_anew_is_whatever_it_is_now(self) -> None:
        provider = await self.make()
        local = provider.local
        if local is None:
            return
        await provider.create("c", [b"abc"])
        await read_bytes(provider, "c", 0, 3)
        local.reopen("c")
        local.reopen("missing")
        assert local.open_file("c") is None
        assert await read_bytes(provider, "c", 0, 3) == b"abc"

    # ---- instances

    async def test_another_instance_sees_what_was_written(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc"])
        await provider.close()
        again = await self.make()
        assert await read_bytes(again, "c", 0, 3) == b"abc"
        assert await list_names(again) == ["c"]

    async def test_closing_twice_is_fine(self) -> None:
        provider = await self.make()
        await provider.create("c", [b"abc"])
        await provider.read("c", 0, 3)
        await provider.close()
        await provider.close()

"""Objects of exports, in a directory and in a store."""

import asyncio

import pytest

from headrace.errors import DataCorruptionError, InvalidArgumentError
from headrace.storage.providers.memory import MemoryChunkProvider
from headrace.storage.transfer.plain_files import PlainFiles, StorePlace

pytestmark = pytest.mark.real_loop


@pytest.fixture(params=["files", "store"])
def place(request, tmp_path):
    if request.param == "files":
        yield PlainFiles(str(tmp_path / "made"))
        return
    with asyncio.Runner() as runner:
        yield StorePlace(MemoryChunkProvider(supports_append=False), runner.run)


def test_what_was_put_is_there_and_may_be_put_again(place):
    assert list(place.names()) == []
    place.put("demo/a$offset_0", [b"old"])
    place.put("demo/a$offset_0", [b"new", b" bytes"])
    place.put("b", [])
    assert sorted(place.names()) == ["b", "demo/a$offset_0"]
    assert place.find_length("demo/a$offset_0") == 9
    assert place.find_length("demo") is None or place.find_length("demo") != 9
    assert bytes(place.read("demo/a$offset_0", 4, 5)) == b"bytes"
    assert place.find_length("b") == 0
    assert place.find_length("c") is None


def test_what_is_missing_or_short_is_damage(place):
    place.put("a", [b"123"])
    for name, length in (("a", 4), ("b", 1)):
        with pytest.raises(DataCorruptionError):
            place.read(name, 0, length)


@pytest.mark.parametrize("name", ["../a", "a//b", "", "/a", "a/./b"])
def test_files_stay_below_their_directory(tmp_path, name):
    with pytest.raises(InvalidArgumentError):
        PlainFiles(str(tmp_path)).put(name, [b"x"])

from headrace.storage.providers.measured import MeasuredChunkProvider, ProviderStatistics
from headrace.storage.providers.memory import MemoryChunkProvider
from tests.unit.storage.chunks_at_hand import ChunksAtHand


async def test_what_succeeded_is_counted():
    provider = MeasuredChunkProvider(MemoryChunkProvider(bytes_max=10))
    await provider.create("c", [b"ab", b"c"])
    await provider.append("c", 3, [b"de"])
    assert await provider.read("c", 0, 4) == b"abcd"
    await provider.delete("c")
    assert provider.local is None
    assert provider.statistics() == ProviderStatistics(1, 1, bytes_written=5, bytes_read=4, reads=1)


async def test_what_is_read_at_once_is_counted_as_far_as_it_goes():
    provider = MeasuredChunkProvider(ChunksAtHand(MemoryChunkProvider()))
    await provider.create("c", [b"abcde"])
    buffer = bytearray(4)
    assert provider.local.read_at_once("c", 0, memoryview(buffer)) == 4
    assert provider.local.read_at_once("c", 3, memoryview(buffer)) == 2
    assert buffer == b"decd"
    counted = provider.statistics()
    assert (counted.reads, counted.reads_at_once, counted.bytes_read) == (0, 1, 6)

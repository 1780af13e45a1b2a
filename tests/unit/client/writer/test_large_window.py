"""A window with blocks that are no appends."""

from headrace.client.writer.inflight_window import Block, InflightWindow
from headrace.client.writer.large_block import LargeBlock, LargeEvent
from headrace.client.writer.large_source import LargeSource


def small(data):
    return Block([data], len(data), 1, None, [])


def test_a_large_block_travels_alone_and_in_its_order():
    window = InflightWindow()
    large = LargeBlock(LargeEvent(LargeSource(b"large")), 0.5, [])
    for block in (small(b"1"), small(b"2"), large, small(b"3")):
        window.add(block)
    assert window.next_large is None
    assert [block.last_number for block in window.take_unsent(1000)] == [1, 2]
    assert window.next_large is large
    assert window.on_appended(0, 2)
    assert window.take_unsent(0) == [large]
    assert window.on_setup(2) == []  # the merge did not happen
    assert window.next_large is large
    window.take_unsent(0)
    assert window.on_setup(3) == [large]  # it did
    window.check()
    assert window.take_first().pieces == [b"3"]
    assert window.bytes_unsent == 0

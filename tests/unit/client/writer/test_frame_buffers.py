import pytest

from headrace.client.writer.frame_buffers import (
    IDLE_BUFFERS_MAX,
    KEPT_BYTES_MAX,
    WORTH_KEEPING_BYTES,
    FrameBuffers,
)
from headrace.limits import MIB

SIZE = WORTH_KEEPING_BYTES


def parts_of(fill, size=SIZE):
    return [fill * 10, fill * (size - 10)]


@pytest.mark.parametrize("size", [20, SIZE, KEPT_BYTES_MAX, KEPT_BYTES_MAX + 1])
def test_parts_lie_one_behind_the_other(size):
    buffers = FrameBuffers(32 * MIB)
    for fill in (b"a", b"b"):
        assert buffers.join(parts_of(fill, size), size) == fill * size


def test_memory_that_is_still_referred_to_is_not_written_again():
    buffers = FrameBuffers(32 * MIB)
    held = [buffers.join(parts_of(b"%d" % number), SIZE)[5 : SIZE - 5] for number in range(10)]
    for number, view in enumerate(held):
        assert view == (b"%d" % number) * (SIZE - 10)


def test_memory_is_used_again_once_nothing_refers_to_it():
    buffers = FrameBuffers(32 * MIB)
    for number in range(100):
        kept = buffers.join(parts_of(b"x"), SIZE)
        assert len(buffers._ring) <= 2, number
    assert kept == b"x" * SIZE


def test_one_batch_that_stays_does_not_keep_the_others_from_being_used_again():
    buffers = FrameBuffers(32 * MIB)
    stuck = buffers.join(parts_of(b"s"), SIZE)
    for _ in range(100):
        buffers.join(parts_of(b"x"), SIZE)
    assert len(buffers._ring) <= 3
    assert stuck == b"s" * SIZE


def test_a_shorter_and_a_longer_batch_fit_into_the_same_memory():
    buffers = FrameBuffers(32 * MIB)
    for size in (SIZE, 3 * SIZE, SIZE + 1):
        view = buffers.join(parts_of(b"y", size), size)
        assert view.nbytes == size
        assert view == b"y" * size
        del view
    assert len(buffers._ring) == 1


def test_what_is_kept_is_bounded_and_little_when_idle():
    buffers = FrameBuffers(8 * MIB)
    held = [buffers.join(parts_of(b"x"), SIZE) for _ in range(50)]
    assert len(buffers._ring) == 8
    del held
    buffers.on_idle()
    assert len(buffers._ring) == IDLE_BUFFERS_MAX


def test_a_part_that_is_no_bytes_is_refused_and_spoils_nothing():
    buffers = FrameBuffers(32 * MIB)
    buffers.join(parts_of(b"a"), SIZE)
    with pytest.raises(TypeError):
        buffers.join([b"b", "text", b"b" * SIZE], SIZE + 5)
    assert buffers.join(parts_of(b"c"), SIZE) == b"c" * SIZE

"""Ranges asked for two at a time: blocks come out in order, whole, and only what was asked for is taken."""

from __future__ import annotations

import random

import pytest

from headrace.client.connections.reply_receiver import ReadBlock
from headrace.client.reader.ranges_in_flight import RangesInFlight
from headrace.errors import ProtocolError


def block(offset: int, size: int, request_id: int) -> ReadBlock:
    data = bytearray(number % 251 for number in range(offset, offset + size))
    return ReadBlock(data, 0, size, offset, request_id, False, False)


@pytest.fixture
def ranges():
    ranges = RangesInFlight(0)
    ranges.begin([7, 8])
    return ranges


def test_one_question_at_a_time_unless_the_next_bytes_are_known_to_exist(ranges):
    assert ranges.ask(100, None, 0, 2) is not None
    assert ranges.ask(100, None, 199, 2) is None
    assert ranges.ask(100, None, 200, 1) is None
    assert ranges.ask(100, None, 200, 2) == (100, 100, 7)
    assert ranges.ask(100, None, 900, 2) is None


def test_a_short_answer_alone_ends_its_range_and_before_another_is_completed(ranges):
    offset, _, request_id = ranges.ask(100, None, 0, 2)
    assert [len(found) for found in ranges.on_block(block(offset, 30, request_id))] == [30]
    assert ranges.ask(100, None, 1000, 2)[:2] == (30, 100)
    first = ranges.ask(100, None, 1000, 2)
    assert first[:2] == (130, 100)
    ranges.on_block(block(30, 60, 8))
    assert ranges.on_block(block(130, 100, first[2])) == []  # its turn has not come
    assert ranges.ask(100, None, 1000, 2) == (90, 40, 8)
    assert [found.offset for found in ranges.on_block(block(90, 40, 8))] == [90, 130]
    assert ranges.offset == 230
    assert len(ranges) == 0


def test_a_refusal_counts_only_when_its_turn_has_come(ranges):
    _, _, first = ranges.ask(100, None, 1000, 2)
    _, _, second = ranges.ask(100, None, 1000, 2)
    assert not ranges.on_refusal(second)
    ranges.check()
    ranges.on_block(block(0, 100, first))
    again = ranges.ask(100, None, 0, 2)
    assert again[:2] == (100, 100)
    assert ranges.on_refusal(again[2])


@pytest.mark.parametrize("wrong", [(1, 10, 8), (0, 101, 8), (0, 10, 7), (0, 10, 9)])
def test_what_nobody_asked_for_is_refused(ranges, wrong):
    ranges.ask(100, None, 0, 2)
    with pytest.raises(ProtocolError):
        ranges.on_block(block(*wrong))
    ranges.on_block(block(0, 100, 8))
    with pytest.raises(ProtocolError):
        ranges.on_block(block(100, 1, 8))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_whatever_the_order_and_size_of_answers_every_byte_comes_once(seed):
    """A server that answers late, out of order, in part, or refuses what lies ahead; connections get lost."""
    draw = random.Random(seed)
    end = draw.randrange(1, 2000)
    ranges = RangesInFlight(0)
    ranges.begin([1, 2])
    asked: list[tuple[int, int, int]] = []
    received = bytearray()
    for _ in range(10_000):
        if len(received) == end:
            break
        while (question := ranges.ask(draw.choice([1, 50, 300]), end, draw.choice([0, end]), 2)) is not None:
            asked.append(question)
            assert question[0] + question[1] <= end
        ranges.check()
        assert asked, "nothing is under way and nothing is asked"
        if draw.random() < 0.05:
            asked.clear()
            ranges.clear()
            ranges.begin([draw.randrange(10, 1000), draw.randrange(1000, 2000)])
            continue
        offset, length, request_id = asked.pop(draw.randrange(len(asked)))
        if draw.random() < 0.1 and not ranges.on_refusal(request_id):
            continue
        for found in ranges.on_block(block(offset, draw.randrange(length + 1), request_id)):
            assert found.offset == len(received)
            received += found.data
    assert bytes(received) == bytes(number % 251 for number in range(end))
    assert ranges.offset == end

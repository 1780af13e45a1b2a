import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headrace.client.writer.ack import Ack
from headrace.client.writer.inflight_window import Block, InflightWindow
from headrace.errors import DataCorruptionError, LostReplyError, ProtocolError, StreamSealedError
from headrace.limits import INT64_MIN


def block(count=1, size=10):
    return Block([b"x" * size], size, count, None, [Ack(1)])


def window_of(*counts, sent):
    window = InflightWindow()
    blocks = [block(count) for count in counts]
    for each in blocks:
        window.add(each)
    for _ in range(sent):
        window.take_unsent(0)
    return window, blocks


def test_numbers_count_events():
    _, blocks = window_of(1, 3, 2, sent=0)
    assert [each.last_number for each in blocks] == [1, 4, 6]


def test_one_acknowledgement_covers_several_blocks():
    window, blocks = window_of(1, 3, 2, sent=3)
    assert window.on_appended(INT64_MIN, 4) == blocks[:2]
    assert window.on_appended(4, 6) == blocks[2:]
    window.check()


@pytest.mark.parametrize(
    ("sent", "previous", "number"),
    [
        (0, INT64_MIN, 1),  # nothing was sent
        (3, 1, 1),  # no progress
        (3, 4, 1),  # backwards
        (3, 1, 6),  # passes over the first block
        (3, INT64_MIN, 2),  # inside a block
        (2, INT64_MIN, 6),  # was not sent
        (3, INT64_MIN, 7),  # does not exist
    ],
)
def test_an_acknowledgement_that_does_not_fit_changes_nothing(sent, previous, number):
    window, blocks = window_of(1, 3, 2, sent=sent)
    with pytest.raises(ProtocolError):
        window.on_appended(previous, number)
    assert list(window) == blocks
    assert window.blocks_sent == sent
    window.check()


def test_a_setup_acknowledges_what_is_stored_and_repeats_the_rest():
    window, blocks = window_of(1, 3, 2, 1, sent=3)
    assert window.on_setup(4) == blocks[:2]
    assert window.take_unsent(1 << 20) == blocks[2:]
    window.check()


def test_blocks_that_waited_travel_together_up_to_a_size():
    window, blocks = window_of(1, 3, 2, 1, sent=0)
    sizes = [each.size_bytes for each in blocks]
    assert window.take_unsent(sizes[0] + sizes[1]) == blocks[:2]
    assert window.take_unsent(sizes[2] + sizes[3] - 1) == [blocks[2]]
    assert window.take_unsent(0) == [blocks[3]]
    assert window.bytes_sent == sum(sizes)
    window.check()


def test_a_setup_of_a_new_writer_repeats_everything():
    window, blocks = window_of(1, 3, sent=2)
    assert window.on_setup(INT64_MIN) == []
    assert window.blocks_sent == 0
    assert window.take_unsent(0) == blocks[:1]


def test_a_server_that_forgot_what_it_acknowledged_is_corrupt():
    window, _ = window_of(1, 3, sent=2)
    window.on_appended(INT64_MIN, 1)
    for claimed in (0, INT64_MIN):
        with pytest.raises(DataCorruptionError):
            window.on_setup(claimed)
    assert window.on_setup(1) == []


@pytest.mark.parametrize("claimed", [2, 3, 5, 6])
def test_a_server_cannot_have_what_was_not_sent_or_a_part_of_a_block(claimed):
    window, _ = window_of(1, 3, 2, sent=2)
    with pytest.raises(ProtocolError):
        window.on_setup(claimed)
    window.check()


def test_only_a_block_whose_fate_is_open_fails_as_unknown():
    _, (first, second) = window_of(1, 1, sent=1)
    error = StreamSealedError("sealed")
    for each in (first, second):
        each.fail(error)
    assert isinstance(first.acks[0].error(), LostReplyError)
    assert first.acks[0].error().__cause__ is error
    assert second.acks[0].error() is error


def test_a_setup_removes_doubt():
    window, (first,) = window_of(1, sent=1)
    window.on_setup(INT64_MIN)
    first.fail(StreamSealedError("sealed"))
    assert isinstance(first.acks[0].error(), StreamSealedError)


class WindowAgainstServer(RuleBasedStateMachine):
    """A writer and a store that may lose any reply: what is stored is what was written, once and in order."""

    def __init__(self):
        super().__init__()
        self.window = InflightWindow()
        self.written = []
        self.stored = []
        self.last = INT64_MIN
        self.wire = []
        self.acks = []
        self.confirmed = 0

    @rule(count=st.integers(1, 5))
    def write(self, count):
        made = block(count)
        self.window.add(made)
        self.written.append(made)

    @precondition(lambda self: self.window.has_unsent())
    @rule(bytes_max=st.integers(0, 12))
    def send(self, bytes_max):
        self.wire.append(self.window.take_unsent(bytes_max))

    @precondition(lambda self: self.wire)
    @rule()
    def store(self):
        made = self.wire.pop(0)  # one append: stored as a unit
        assert made[0].last_number > self.last
        self.stored.extend(made)
        self.acks.append((self.last, made[-1].last_number))
        self.last = made[-1].last_number

    @precondition(lambda self: self.acks)
    @rule(data=st.data())
    def acknowledge(self, data):
        count = data.draw(st.integers(1, len(self.acks)))
        merged, self.acks = self.acks[:count], self.acks[count:]
        self.confirmed += len(self.window.on_appended(merged[0][0], merged[-1][1]))

    @rule()
    def reconnect(self):
        self.wire.clear()
        self.acks.clear()
        self.confirmed += len(self.window.on_setup(self.last))
        assert self.confirmed == len(self.stored)

    @invariant()
    def holds(self):
        self.window.check()
        assert self.stored == self.written[: len(self.stored)]
        assert self.confirmed <= len(self.stored)
        assert list(self.window) == self.written[self.confirmed :]


TestWindowAgainstServer = WindowAgainstServer.TestCase


@given(st.lists(st.integers(1, 4), max_size=20), st.data())
def test_draining_gives_back_everything_in_order(counts, data):
    window, blocks = window_of(*counts, sent=data.draw(st.integers(0, len(counts))))
    assert window.drain() == blocks
    assert len(window) == window.unacknowledged_bytes == 0
    window.check()

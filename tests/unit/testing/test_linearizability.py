import random

import pytest

from headrace.testing.history import History
from headrace.testing.known_content import KnownContent
from headrace.testing.linearizability import Answer, NotLinearizableError, check_segments, linearize
from headrace.testing.segment_calls import (
    AppendCall,
    AppendResult,
    InfoCall,
    InfoResult,
    ReadCall,
    ReadResult,
    SealCall,
    TruncateCall,
)
from headrace.testing.segment_model import INITIAL, SegmentModel, shows_in_state, step


class Script:
    """Writes histories tersely: ``+name`` begins, ``-name`` ends."""

    def __init__(self):
        self.history = History(lambda: 0.0)

    def append(self, data, length_after=None, **options):
        operation = self.history.start("w", AppendCall("s", data, **options))
        self.history.succeed(operation, AppendResult(length_after))
        return self

    def read(self, offset, data, end=False):
        operation = self.history.start("r", ReadCall("s", offset))
        self.history.succeed(operation, ReadResult(data, end))
        return self

    def info(self, length, start=0, sealed=False):
        operation = self.history.start("a", InfoCall("s"))
        self.history.succeed(operation, InfoResult(length, start, sealed))
        return self

    def done(self, call):
        self.history.succeed(self.history.start("a", call))
        return self

    def refused(self, call, reason):
        self.history.refuse(self.history.start("w", call), reason)
        return self

    def lost(self, call):
        self.history.lose(self.history.start("w", call))
        return self

    @property
    def legal(self):
        try:
            check_segments(self.history)
        except NotLinearizableError:
            return False
        return True


def script():
    return Script()


def test_what_happened_one_after_the_other_must_be_explained_in_that_order():
    assert script().append(b"a", 1).append(b"b", 2).read(0, b"ab").legal
    assert not script().append(b"a", 1).append(b"b", 2).read(0, b"ba").legal
    assert not script().append(b"a", 2).append(b"b", 1).legal


def test_an_acknowledged_append_must_not_be_missing_doubled_or_changed():
    assert not script().append(b"abc").info(0).legal
    assert not script().append(b"abc").info(6).legal
    assert not script().append(b"abc").read(0, b"abd").legal
    assert not script().append(b"abc").read(0, b"").legal
    assert not script().append(b"abc").append(b"d").read(0, b"d").legal


def test_overlapping_appends_may_be_in_either_order_but_only_in_one():
    def overlapping(*reads):
        s = script()
        first = s.history.start("1", AppendCall("s", b"aa"))
        second = s.history.start("2", AppendCall("s", b"bb"))
        s.history.succeed(second, AppendResult())
        s.history.succeed(first, AppendResult())
        for data in reads:
            s.read(0, data)
        return s

    assert overlapping(b"aabb").legal
    assert overlapping(b"bbaa").legal
    assert not overlapping(b"abab").legal
    assert not overlapping(b"aabb", b"bbaa").legal


def test_an_unknown_append_may_have_happened_or_not_or_happen_later():
    lost = AppendCall("s", b"x")
    assert script().lost(lost).info(0).legal
    assert script().lost(lost).info(1).legal
    assert script().lost(lost).info(0).info(0).info(1).legal
    assert not script().lost(lost).info(1).info(0).legal
    assert not script().lost(lost).info(2).legal


def test_a_read_of_what_was_never_written_is_caught():
    assert not script().append(b"abc").read(0, b"abcd").legal


def test_a_repeated_event_number_is_acknowledged_without_effect():
    assert (
        script()
        .append(b"a", 1, writer="w", event_number=5)
        .append(b"a", writer="w", event_number=5)
        .info(1)
        .legal
    )
    assert (
        not script()
        .append(b"a", writer="w", event_number=5)
        .append(b"a", writer="w", event_number=5)
        .info(2)
        .legal
    )
    assert (
        script()
        .append(b"a", writer="v", event_number=5)
        .append(b"a", writer="w", event_number=5)
        .info(2)
        .legal
    )


def test_a_retry_after_an_unknown_outcome_appends_once():
    call = AppendCall("s", b"a", "w", 7)
    retried = lambda: script().lost(call).append(b"a", writer="w", event_number=7)  # noqa: E731
    assert retried().info(1).legal
    assert not retried().info(2).legal
    assert not retried().info(0).legal


def test_a_conditional_append_happens_only_at_its_offset():
    assert script().append(b"ab", 2).append(b"c", 3, expected_offset=2).legal
    assert not script().append(b"ab", 2).append(b"c", expected_offset=1).legal
    assert script().append(b"ab", 2).refused(AppendCall("s", b"c", expected_offset=1), "OffsetMismatch").legal
    assert (
        not script()
        .append(b"ab", 2)
        .refused(AppendCall("s", b"c", expected_offset=2), "OffsetMismatch")
        .legal
    )


def test_a_sealed_segment_takes_nothing_and_says_so_to_everybody():
    sealed = lambda: script().append(b"ab").done(SealCall("s"))  # noqa: E731
    assert sealed().info(2, 0, True).read(0, b"ab", end=True).legal
    assert sealed().refused(AppendCall("s", b"c"), "SegmentSealed").legal
    assert not sealed().append(b"c").legal
    assert not sealed().info(2).legal
    assert not script().append(b"ab").read(0, b"ab", end=True).legal
    assert not sealed().read(0, b"a", end=True).legal
    assert not script().refused(AppendCall("s", b"c"), "SegmentSealed").legal


def test_a_repetition_is_still_acknowledged_after_the_seal():
    s = script().append(b"ab", writer="w", event_number=1).done(SealCall("s"))
    assert s.append(b"ab", writer="w", event_number=1).info(2, 0, True).legal


def test_truncated_bytes_are_not_read_again_and_the_rest_stays():
    cut = lambda: script().append(b"abcd").done(TruncateCall("s", 2))  # noqa: E731
    assert cut().read(2, b"cd").info(4, 2).legal
    assert not cut().read(0, b"ab").legal
    assert cut().refused(ReadCall("s", 0), "SegmentTruncated").legal
    assert not cut().refused(ReadCall("s", 3), "SegmentTruncated").legal
    assert not script().append(b"ab").done(TruncateCall("s", 5)).legal


def test_an_empty_read_means_the_end_of_the_segment():
    assert script().append(b"ab").read(2, b"").legal
    assert not script().append(b"ab").read(1, b"").legal


def test_two_reads_that_contradict_each_other_are_named():
    s = script().lost(AppendCall("s", b"a")).lost(AppendCall("s", b"b")).read(0, b"a").read(0, b"b")
    with pytest.raises(NotLinearizableError, match="an earlier read saw other bytes"):
        check_segments(s.history)


def test_segments_do_not_influence_each_other():
    s = script().append(b"a", 1)
    s.history.succeed(s.history.start("w", AppendCall("other", b"zz")), AppendResult(2))
    assert s.legal


def test_a_refutation_shows_what_was_explained_and_what_does_not_fit():
    with pytest.raises(NotLinearizableError) as raised:
        check_segments(script().append(b"abc", 3).append(b"d", 4).info(7).history)
    text = str(raised.value)
    assert "segment 's': illegal" in text
    assert "2 operations explained" in text
    assert "a: info -> ok InfoResult(length=7" in text


def test_running_out_of_steps_is_no_acquittal():
    verdict = linearize(script().append(b"a").append(b"b").history.operations, INITIAL, step, steps_max=1)
    assert verdict.answer is Answer.UNDECIDED


def honest_run(seed, clients=4, operations=60, lost_chance=0.15, told=True):
    """Play a correct segment with overlapping clients: effects at a random moment between start and end."""
    chance = random.Random(seed)
    history = History(lambda: 0.0)
    content = bytearray()
    open_operations = []
    numbers = [0] * clients
    idle = list(range(clients))
    while operations or open_operations:
        if operations and idle and chance.random() < 0.5:
            operations -= 1
            client = idle.pop(chance.randrange(len(idle)))
            if chance.random() < 0.7:
                numbers[client] += 1
                data = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 5)))
                call = AppendCall("s", data, f"c{client}", numbers[client])
            else:
                call = ReadCall("s", chance.randrange(len(content) + 1))
            open_operations.append([client, history.start(f"c{client}", call), None])
            continue
        if not open_operations:
            continue
        entry = chance.choice(open_operations)
        client, operation, result = entry
        if result is None:
            if isinstance(operation.call, AppendCall):
                if chance.random() < lost_chance / 2:  # it never happens
                    history.lose(operation)
                    open_operations.remove(entry)
                    idle.append(client)
                    continue
                content += operation.call.data
                entry[2] = AppendResult(len(content) if told else None)
            else:
                offset = operation.call.offset
                entry[2] = ReadResult(bytes(content[offset : offset + 64]))
            continue
        if chance.random() < lost_chance / 2:  # it happened, but nobody is told
            history.lose(operation)
        else:
            history.succeed(operation, result)
        open_operations.remove(entry)
        idle.append(client)
    history.succeed(history.start("end", ReadCall("s", 0)), ReadResult(bytes(content)))
    return history


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("seed", range(15))
def test_a_correct_segment_is_always_acquitted(seed, told):
    history = honest_run(seed, told=told)
    check_segments(history)
    if told:  # the shortcut through the content decides nothing
        assert linearize(history.operations, INITIAL, step).answer is Answer.LEGAL


@pytest.mark.parametrize("seed", range(15))
def test_a_tampered_history_is_convicted(seed):
    chance = random.Random(seed)
    history = honest_run(seed, lost_chance=0.0)
    appends = [o for o in history.operations if isinstance(o.call, AppendCall) and len(o.call.data) > 0]
    victim = chance.choice(appends)
    final = history.operations[-1]
    at = victim.result.length_after - len(victim.call.data)
    data = bytearray(final.result.data)
    kind = seed % 3
    if kind == 0:  # lost
        del data[at : at + len(victim.call.data)]
    elif kind == 1:  # doubled
        data[at:at] = victim.call.data
    else:  # flipped
        data[at] ^= 1
    final.result = ReadResult(bytes(data))
    with pytest.raises(NotLinearizableError):
        check_segments(history)


@pytest.mark.slow
def test_thousands_of_operations_with_many_unknown_are_checked_quickly():
    operations = honest_run(1, clients=20, operations=3_000, lost_chance=0.05).operations
    verdict = linearize(
        operations,
        INITIAL,
        SegmentModel(KnownContent.of(operations)).step,
        shows_in_state=shows_in_state,
    )
    assert verdict.answer is Answer.LEGAL
    assert verdict.steps < 300_000


def test_many_equal_sized_unknown_appends_are_placed_by_what_reads_have_shown():
    """Lengths alone do not tell them apart: without the content this is a search through all their orders."""
    chance = random.Random(3)
    history = History(lambda: 0.0)
    content = bytearray()
    for number in range(300):
        call = AppendCall("s", number.to_bytes(4, "big"), f"w{number}", 0)
        operation = history.start(f"w{number}", call)
        if chance.random() < 0.5:
            content += call.data if chance.random() < 0.7 else b""
            history.lose(operation)
        else:
            content += call.data
            history.succeed(operation, AppendResult())
    history.succeed(history.start("r", ReadCall("s", 0)), ReadResult(bytes(content)))
    check_segments(history)
